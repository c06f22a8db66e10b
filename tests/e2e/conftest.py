"""Metahooks installed on the control plane, its hooks running, and somebody to drive the loop."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import DRIVERS, Driver, RealMetacontroller, real_metacontroller
from tests.e2e.hook_server import ROOT, HookServer

HERE = Path(__file__).resolve().parent
IN_CLUSTER = "http://metahooks.metahooks.svc"
NO_METACONTROLLER = "no `metacontroller` on PATH, and METACONTROLLER names none: only the stand-in drove these tests"

_ran = pytest.StashKey[set[str]]()


@pytest.fixture(scope="session")
def hooks(control_plane: ControlPlane) -> Iterator[HookServer]:
    server = HookServer(control_plane.folder)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane, hooks: HookServer) -> ControlPlane:
    """The default installation, strictly validated, with the controllers pointed at the hooks of the tests."""
    own_crds = os.environ.get("METACONTROLLER_CRDS") or str(HERE / "metacontroller-crds.yaml")
    control_plane.kubectl("apply", "--validate=strict", "-f", own_crds)
    control_plane.kubectl("apply", "--validate=strict", "-k", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    control_plane.kubectl("apply", "--validate=strict", "-k", str(ROOT / "deploy" / "overlays" / "default"))
    apply_controllers(control_plane, hooks, "metacontroller")
    return control_plane


def apply_controllers(control_plane: ControlPlane, hooks: HookServer, folder: str) -> None:
    """The controllers of one of our kustomizations, with the address of the hooks replaced."""
    built = control_plane.kubectl("kustomize", str(ROOT / folder))
    assert IN_CLUSTER in built
    control_plane.kubectl("apply", "--validate=strict", "-f", "-", input=built.replace(IN_CLUSTER, hooks.url))


@pytest.fixture(scope="module", params=list(DRIVERS))
def driver(request: pytest.FixtureRequest, installed: ControlPlane, pytestconfig: pytest.Config) -> Iterator[Driver]:
    if request.param == RealMetacontroller.name and not real_metacontroller():
        pytest.skip(NO_METACONTROLLER)
    pytestconfig.stash.setdefault(_ran, set()).add(request.param)
    driver = DRIVERS[request.param](installed)
    yield driver
    driver.stop()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran = config.stash.get(_ran, set())
    if ran:
        terminalreporter.section("who drove the loop")
        terminalreporter.line(", ".join(sorted(ran)))
        if not real_metacontroller():
            terminalreporter.line(f"NOT the real Metacontroller: {NO_METACONTROLLER}")
