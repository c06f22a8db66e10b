"""Metahooks installed on the control plane, its hooks running, and somebody to drive the loop."""

import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import DRIVERS, Driver, RealMetacontroller, real_metacontroller
from tests.e2e.hook_server import ROOT, HookServer
from tests.e2e.kubelets import Backend, backend
from tests.e2e.volume_scenarios import Played, Scenario, faults, play
from tests.e2e.volume_world import World, await_policy, create_storage_classes

HERE = Path(__file__).resolve().parent
DEFAULT_OVERLAY = "deploy/overlays/default"
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
    apply_controllers(control_plane, hooks, DEFAULT_OVERLAY)
    return control_plane


def apply_controllers(control_plane: ControlPlane, hooks: HookServer, folder: str) -> None:
    """One of our kustomizations that have controllers, with the address of the hooks replaced."""
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


@pytest.fixture(scope="session")
def volume_backend(installed: ControlPlane, hooks: HookServer, controlplane_binaries: Path) -> Iterator[Backend]:
    """All that growing needs: StorageClasses, the admission policy, and a Prometheus that the hooks ask."""
    apply_controllers(installed, hooks, DEFAULT_OVERLAY)  # another test may have applied the controllers alone
    create_storage_classes(installed.admin)
    await_policy(installed.admin)
    with backend(controlplane_binaries) as found:
        hooks.restart({"METAHOOKS_PROMETHEUS_URL": found.prometheus.url})
        yield found


@pytest.fixture
def world(
    installed: ControlPlane, driver: Driver, hooks: HookServer, volume_backend: Backend, namespace: str
) -> Iterator[World]:
    """A namespace for claims that grow, and the check that all is at rest when the test is done."""
    world = World(installed, driver, hooks, volume_backend, namespace)
    yield world
    try:
        assert faults([world]) == {namespace: []}
    finally:
        world.clear()


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, installed: ControlPlane, driver: Driver, hooks: HookServer, volume_backend: Backend
) -> Iterator[Mapping[Scenario, Played]]:
    """The scenarios of a module that were asked for."""
    asked = [item for item in request.session.items if isinstance(item, pytest.Function)]
    worlds = {
        cast("Scenario", item.callspec.params["scenario"]): World(
            installed, driver, hooks, volume_backend, f"test-{uuid.uuid4().hex[:10]}"
        )
        for item in asked
        if item.module is request.module and "scenario" in item.fixturenames
    }
    for world in worlds.values():
        world.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}})
    yield play(worlds)
    for world in worlds.values():
        world.clear()
        world.admin.delete("v1", "namespaces", world.namespace)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran = config.stash.get(_ran, set())
    if ran:
        terminalreporter.section("who drove the loop")
        terminalreporter.line(", ".join(sorted(ran)))
        if not real_metacontroller():
            terminalreporter.line(f"NOT the real Metacontroller: {NO_METACONTROLLER}")
