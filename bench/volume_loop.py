"""VolumeAutoscalers at rest on a real control plane, driven by the real Metacontroller: what a poll costs there."""

import os
import re
import runpy
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from bench.bodies import ROOT
from bench.progress import say
from bench.rows import Hold, Row
from tests.e2e.conftest import DEFAULT_OVERLAY, apply_controllers
from tests.e2e.controlplane import AuditRecord, ControlPlane, KubectlError
from tests.e2e.drivers import USER, RealMetacontroller, real_metacontroller
from tests.e2e.hook_server import HookServer
from tests.e2e.kubelets import Backend, backend
from tests.e2e.processes import NotInTimeError, ProcessError, eventually
from tests.e2e.volume_world import AUTOSCALERS, World, create_storage_classes

BUILD = ROOT / "tools" / "controlplane" / "build.py"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "prometheus")
HOW_MANY = (1, 40)
POLLS = 3
QUIET_SECONDS = 2
SYNCS = "volume_autoscaler_reconcile_duration_seconds_count"


@dataclass(frozen=True)
class Cost:
    """Of all polls of some VolumeAutoscalers with a claim each, none of which grows."""

    polls: int
    syncs: int
    claim_syncs: int
    writes: Sequence[AuditRecord]

    @property
    def status_writes(self) -> int:
        return sum((record.resource, record.subresource) == ("volumeautoscalers", "status") for record in self.writes)


def polls_at_rest(*, skip: bool) -> Sequence[Row]:
    if reason := "--skip-loop" if skip else _why_not():
        return _not_measured(reason)
    try:
        with _stage(_binaries()) as stage:
            return [row for count in HOW_MANY for row in _rows(count, stage.cost(count))]
    except (KubectlError, NotInTimeError, ProcessError) as error:
        return _not_measured(str(error).splitlines()[0])


def _rows(count: int, cost: Cost) -> Sequence[Row]:
    whom = "1 VolumeAutoscaler" if count == 1 else f"{count} VolumeAutoscalers of one namespace"
    return [
        Row(
            what=f"syncs per poll and VolumeAutoscaler at rest, {whom}",
            yardstick="",
            measured=f"{cost.syncs} in {cost.polls} polls, and {cost.claim_syncs} of claims",
            value=cost.syncs / cost.polls,
            hold=Hold("at most", 2),
        ),
        Row(
            what=f"status writes per poll and VolumeAutoscaler at rest, {whom}",
            yardstick="",
            measured=f"{cost.status_writes} in {cost.polls} polls",
            value=cost.status_writes / cost.polls,
            hold=Hold("at most", 1),
        ),
        Row(
            what=f"writes to claims, expansions and all else at rest, {whom}",
            yardstick="",
            measured=f"{len(cost.writes) - cost.status_writes} in {cost.polls} polls",
            value=len(cost.writes) - cost.status_writes,
            hold=Hold("at most", 0),
        ),
    ]


def _not_measured(reason: str) -> Sequence[Row]:
    rows = [row for count in HOW_MANY for row in _rows(count, Cost(polls=1, syncs=0, claim_syncs=0, writes=[]))]
    return [replace(row, measured=f"not measured: {reason}", value=None) for row in rows]


# The stage


def _why_not() -> str:
    if not real_metacontroller():
        return "no metacontroller on PATH"
    return "" if all((_binaries() / name).exists() for name in PROGRAMS) else "no control plane; make controlplane"


def _binaries() -> Path:
    """Where `make controlplane` puts its programs; its script is no module of ours."""
    return Path(runpy.run_path(str(BUILD))["cache_folder"]())


@contextmanager
def _stage(binaries: Path) -> Iterator["Stage"]:
    """The default installation, and nobody in it yet."""
    with ExitStack() as stack:
        control_plane = stack.enter_context(ControlPlane(binaries))
        found = stack.enter_context(backend(binaries))
        hooks = HookServer(control_plane.folder)
        stack.callback(hooks.stop)
        hooks.restart({"METAHOOKS_PROMETHEUS_URL": found.prometheus.url})
        _install(control_plane, hooks)
        driver = RealMetacontroller(control_plane)
        stack.callback(driver.stop)
        say("volume autoscaler, the control plane is up")
        yield Stage(control_plane, hooks, found, driver)


def _install(control_plane: ControlPlane, hooks: HookServer) -> None:
    crds = os.environ.get("METACONTROLLER_CRDS") or str(ROOT / "tests" / "e2e" / "metacontroller-crds.yaml")
    control_plane.kubectl("apply", "-f", crds)
    control_plane.kubectl("apply", "-k", str(ROOT / "deploy" / "crds"))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    apply_controllers(control_plane, hooks, DEFAULT_OVERLAY)
    create_storage_classes(control_plane.admin)


@dataclass(frozen=True)
class Stage:
    control_plane: ControlPlane
    hooks: HookServer
    backend: Backend
    driver: RealMetacontroller

    def cost(self, count: int) -> Cost:
        world = World(self.control_plane, self.driver, self.hooks, self.backend, f"bench-{count}")
        self._create(world, count)
        self._await_quiet()
        mark, before, synced, of_claims = self.control_plane.mark(), _polls(world), self._syncs(), self._claim_syncs()
        seen = _watch_polls(world, count)
        self._await_quiet()
        say(f"volume autoscaler, {count} at rest")
        cost = Cost(
            polls=len((seen | _polls(world)) - before),
            syncs=self._syncs() - synced,
            claim_syncs=self._claim_syncs() - of_claims,
            writes=[w for w in self.control_plane.writes_since(mark, USER) if w.namespace == world.namespace],
        )
        world.clear()
        return cost

    def _create(self, world: World, count: int) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": world.namespace}}
        self.control_plane.admin.create(namespace)
        for number in range(count):
            world.claim(f"data-{number}", used="1Gi")
        for number in range(count):
            world.autoscale(f"autoscaler-{number}", claim=f"data-{number}")
        eventually(lambda: len(_polls(world)) == len(world.expansions()) == count, what="all to have polled")

    def _await_quiet(self) -> None:
        """Between two polls: nobody has been synced for a while."""
        eventually(self._is_quiet, what="a moment between two polls")

    def _is_quiet(self) -> bool:
        before = self._syncs()
        time.sleep(QUIET_SECONDS)
        return self._syncs() == before

    def _syncs(self) -> int:
        """Of VolumeAutoscalers; HookServer.answered counts customize too."""
        found = re.search(rf"^{SYNCS} ([0-9.e+]+)$", httpx.get(f"{self.hooks.url}/metrics").text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def _claim_syncs(self) -> int:
        return self.hooks.answered("volume_claim")


Poll = tuple[str, str]


def _polls(world: World) -> set[Poll]:
    """The last poll of each: its name and the time."""
    found = world.admin.list(*AUTOSCALERS, namespace=world.namespace)
    times = {item["metadata"]["name"]: item.get("status", {}).get("lastPollTime") for item in found}
    return {(name, at) for name, at in times.items() if at}


def _watch_polls(world: World, count: int) -> set[Poll]:
    """All that are seen from now on until each has polled some times more."""
    seen = _polls(world)

    def enough() -> bool:
        seen.update(_polls(world))
        return len(seen) >= count * (POLLS + 1)

    world.until(enough, f"{POLLS} polls of {count} VolumeAutoscalers")
    return seen
