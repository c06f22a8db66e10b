"""VolumeAutoscalers at rest on a real control plane, driven by the real Metacontroller: what a poll costs there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from bench.progress import say
from bench.rows import Hold, Row
from bench.stage import Stage, binaries, measured, stage
from tests.e2e.controlplane import AuditRecord
from tests.e2e.drivers import USER
from tests.e2e.kubelets import Backend, backend
from tests.e2e.processes import eventually
from tests.e2e.volume_world import AUTOSCALERS, World, create_storage_classes

HOW_MANY = (1, 40)
POLLS = 3
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
    nothing = Cost(polls=1, syncs=0, claim_syncs=0, writes=[])
    return measured(_measure, instead=[row for count in HOW_MANY for row in _rows(count, nothing)], skip=skip)


def _measure() -> Sequence[Row]:
    with backend(binaries()) as found, stage({"METAHOOKS_PROMETHEUS_URL": found.prometheus.url}) as ours:
        create_storage_classes(ours.control_plane.admin)
        loop = Loop(ours, found)
        return [row for count in HOW_MANY for row in _rows(count, loop.cost(count))]


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


@dataclass(frozen=True)
class Loop:
    stage: Stage
    backend: Backend

    def cost(self, count: int) -> Cost:
        control_plane = self.stage.control_plane
        world = World(control_plane, self.stage.driver, self.stage.hooks, self.backend, f"bench-{count}")
        self._create(world, count)
        self.stage.await_quiet(self._syncs)  # between two polls
        mark, before, synced, of_claims = control_plane.mark(), _polls(world), self._syncs(), self._claim_syncs()
        seen = _watch_polls(world, count)
        self.stage.await_quiet(self._syncs)
        say(f"volume autoscaler, {count} at rest")
        cost = Cost(
            polls=len((seen | _polls(world)) - before),
            syncs=self._syncs() - synced,
            claim_syncs=self._claim_syncs() - of_claims,
            writes=[w for w in control_plane.writes_since(mark, USER) if w.namespace == world.namespace],
        )
        world.clear()
        return cost

    def _create(self, world: World, count: int) -> None:
        self.stage.create_namespace(world.namespace)
        for number in range(count):
            world.claim(f"data-{number}", used="1Gi")
        for number in range(count):
            world.autoscale(f"autoscaler-{number}", claim=f"data-{number}")
        eventually(lambda: len(_polls(world)) == len(world.expansions()) == count, what="all to have polled")

    def _syncs(self) -> int:
        """Of VolumeAutoscalers; HookServer.answered counts customize too."""
        text = httpx.get(f"{self.stage.hooks.url}/metrics").text
        found = re.search(rf"^{SYNCS} ([0-9.e+]+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def _claim_syncs(self) -> int:
        return self.stage.hooks.answered("volume_claim")


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
