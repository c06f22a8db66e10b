"""The default installation on a real control plane, driven by the real Metacontroller, for rows that need a cluster."""

import os
import runpy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.bodies import ROOT
from bench.progress import say
from bench.rows import Row
from tests.e2e.conftest import DEFAULT_OVERLAY, apply_controllers
from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.drivers import RealMetacontroller, real_metacontroller
from tests.e2e.hook_server import HookServer
from tests.e2e.processes import NotInTimeError, ProcessError, eventually

BUILD = ROOT / "tools" / "controlplane" / "build.py"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "prometheus")
QUIET_SECONDS = 2


@dataclass(frozen=True)
class Stage:
    control_plane: ControlPlane
    hooks: HookServer
    driver: RealMetacontroller

    def create_namespace(self, name: str) -> None:
        self.control_plane.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def await_quiet(self, count: Callable[[], int], *, seconds: float = 30) -> None:
        """Until what is counted has not changed for a while."""

        def is_quiet() -> bool:
            before = count()
            time.sleep(QUIET_SECONDS)
            return count() == before

        eventually(is_quiet, what="a moment without syncs", seconds=seconds)


def measured(measure: Callable[[], Sequence[Row]], *, instead: Sequence[Row], skip: bool) -> Sequence[Row]:
    """The rows; or, where there is no cluster, others with the reason in place of what they would show."""
    if reason := "--skip-loop" if skip else _why_not():
        return _not_measured(instead, reason)
    try:
        return measure()
    except (KubectlError, NotInTimeError, ProcessError) as error:
        return _not_measured(instead, str(error).splitlines()[0])


def _why_not() -> str:
    if not real_metacontroller():
        return "no metacontroller on PATH"
    return "" if all((binaries() / name).exists() for name in PROGRAMS) else "no control plane; make controlplane"


def _not_measured(rows: Sequence[Row], reason: str) -> Sequence[Row]:
    return [replace(row, measured=f"not measured: {reason}", value=None) for row in rows]


def binaries() -> Path:
    """Where `make controlplane` puts its programs; its script is no module of ours."""
    return Path(runpy.run_path(str(BUILD))["cache_folder"]())


@contextmanager
def stage(settings: Mapping[str, str] | None = None) -> Iterator[Stage]:
    """Nobody is in it yet; the settings are those of the hooks."""
    with ExitStack() as stack:
        control_plane = stack.enter_context(ControlPlane(binaries()))
        hooks = HookServer(control_plane.folder)
        stack.callback(hooks.stop)
        if settings:
            hooks.restart(settings)
        _install(control_plane, hooks)
        driver = RealMetacontroller(control_plane)
        stack.callback(driver.stop)
        say("the control plane is up")
        yield Stage(control_plane, hooks, driver)


def _install(control_plane: ControlPlane, hooks: HookServer) -> None:
    crds = os.environ.get("METACONTROLLER_CRDS") or str(ROOT / "tests" / "e2e" / "metacontroller-crds.yaml")
    control_plane.kubectl("apply", "-f", crds)
    control_plane.kubectl("apply", "-k", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    apply_controllers(control_plane, hooks, DEFAULT_OVERLAY)
