"""Scenarios of the volume autoscaler: they wait most of the time, so those of a module are played at the same time.

Each has a world of its own, and ends with the check that all is at rest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from hooks.kube.metadata import is_deleting, name_of
from tests.e2e.controlplane import AuditRecord
from tests.e2e.drivers import USER
from tests.e2e.hook_server import HookServer
from tests.e2e.kube import KubeClient
from tests.e2e.volume_world import AUTOSCALERS, CLAIMS, World, poll_all

STATUS = ("volumeautoscalers", "status")
"""Written at each poll: it holds the time."""

Scenario = Callable[[World], None]


class Scenarios:
    """Scenarios of a module, as a decorator. Most of them wait most of the time, so they are played together."""

    def __init__(self) -> None:
        self.all: list[Scenario] = []

    def __call__(self, scenario: Scenario) -> Scenario:
        self.all.append(scenario)
        return scenario


@dataclass
class Played:
    """How a scenario went."""

    outcome: Future[None]
    faults: Sequence[str] = ()

    def check(self) -> None:
        self.outcome.result()
        assert not self.faults, self.faults


def play(worlds: Mapping[Scenario, World]) -> Mapping[Scenario, Played]:
    """Plays all scenarios at the same time, each in its own world; then those that went well must be at rest."""
    with ThreadPoolExecutor(len(worlds)) as pool:
        played = {scenario: Played(pool.submit(scenario, world)) for scenario, world in worlds.items()}
    well = {scenario: worlds[scenario] for scenario, result in played.items() if not result.outcome.exception()}
    found = faults(list(well.values())) if well else {}
    for scenario, world in well.items():
        played[scenario].faults = found[world.namespace]
    return played


def faults(worlds: Sequence[World]) -> Mapping[str, Sequence[str]]:
    """What is written at rest that should not be, and claims with an owner, by namespace: nothing, if all is well."""
    first = worlds[0]
    poll_all(worlds)  # what has just happened is news once
    mark = first.control_plane.mark()
    poll_all(worlds, seconds=3600)  # the next is due when all is over
    polled = first.control_plane.writes_since(mark, USER)
    written = [record for record in polled if (record.resource, record.subresource) != STATUS]
    written += first.driver.run_twice_more(_parents(first.admin), lambda: _asked(first.hooks))
    return {world.namespace: [*_written(written, world.namespace), *_owned(world)] for world in worlds}


def _written(records: Sequence[AuditRecord], namespace: str) -> Iterator[str]:
    for record in records:
        if record.namespace == namespace:
            yield f"{record.verb} {record.resource} {record.subresource} {record.name}: {record.code}"


def _owned(world: World) -> Iterator[str]:
    for claim in world.admin.list(*CLAIMS, namespace=world.namespace):
        if "ownerReferences" in claim["metadata"]:
            yield f"claim {name_of(claim)} has an owner"


def _parents(admin: KubeClient) -> int:
    everywhere = [*admin.list(*CLAIMS), *admin.list(*AUTOSCALERS)]
    return sum(not is_deleting(parent) for parent in everywhere)


def _asked(hooks: HookServer) -> int:
    """How many parents were asked about: each needs a customize and a sync request."""
    return (hooks.answered("volume_autoscaler") + hooks.answered("volume_claim")) // 2
