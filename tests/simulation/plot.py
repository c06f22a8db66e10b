"""What happens in one life, by the dice of its seed: weather, ailments, and people who meddle."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import NamedTuple

from hooks.kube.duration import format_duration
from hooks.kube.metadata import (
    JsonObject,
    is_deleting,
    name_of,
    owner_of,
    uid_of,
)
from hooks.kube.times import format_time
from hooks.volumes.policy import GIB, MIB
from tests import volumes
from tests.simulation.ground import (
    AUTOSCALERS,
    CLAIMS,
    DAY,
    EXPANSIONS,
    HOUR,
    MINUTE,
    capacity_of,
    is_bound,
    request_of,
)
from tests.simulation.storage import Driver
from tests.simulation.world import World


class Life(NamedTuple):
    """How long a world is watched, and how often it polls: some 200 to 400 polls."""

    days: float
    poll: float


LIVES = (Life(7, HOUR), Life(7, HOUR / 2), Life(1, 5 * MINUTE), Life(0.25, MINUTE))
SKEWS = (0.0, 2.7, -3.1)
MOST_LAG = 3 * MINUTE

WEATHER = ("outage", "empty", "lost replies", "conflicts", "no deletes", "no policy")
AILMENTS = ("no series", "abnormal", "refuse", "no pod")
"""What befalls one claim."""


class Plot:
    """What happens in one life, by the dice of its seed."""

    def __init__(self, seed: int, *, faults: int = 60) -> None:
        dice = Random(seed)
        self.faults = faults
        self.life = LIVES[0 if seed % 3 else dice.randrange(len(LIVES))]
        self.world = World(
            seed,
            skews=SKEWS if faults else (0,),
            events=self.life.poll > 5 * MINUTE and dice.random() < 0.5,
            **self.a_spec(dice),
        )
        self.dice = self.world.random
        self.names = [f"data-{n}" for n in range(self.dice.randint(1, 3))]
        for name in self.names:
            self.add_claim(name, size=self.dice.choice(["512Mi", "1Gi", "5Gi", "10Gi", "50Gi"]))

    def a_spec(self, dice: Random) -> JsonObject:
        def polls(count: float) -> str:
            return format_duration(timedelta(seconds=round(count * self.life.poll)))

        return {
            "pollInterval": polls(1),
            "cooldownPeriod": polls(dice.choice([0, 0.1, 0.5, 2, 6])),
            "thresholdPercent": dice.choice([70, 80, 90]),
            "increasePercent": dice.choice([5, 10, 20, 50, 100]),
            "increaseMinimum": dice.choice([None, None, "100Mi", "2Gi", "5Gi"]),
            "increaseMaximum": dice.choice([None, None, None, "10Gi"]),
            "maxSize": dice.choice(["30Gi", "100Gi", "1Ti"]),
            "inodeThresholdPercent": dice.choice([0, 90]),
            "resizeBudget": dice.choice(
                [None, None, {"count": 4, "window": polls(24)}, {"count": 2, "window": polls(3)}]
            ),
            "onMetricsLost": dice.choice(["Wait", "StepOnce"]),
        }

    def add_claim(self, name: str, size: str) -> None:
        if self.world.has(CLAIMS, name):
            return
        dice = self.dice
        lags = [dice.uniform(MINUTE, MOST_LAG) for _ in range(dice.choice([1, 1, 2, 3]))]
        driver = Driver(
            delay=dice.choice([(1, 30), (20, 120), (60, 900)]),
            unit=dice.choice([MIB, GIB, 4 * GIB]),
            tells=dice.random() < 0.5,
            says_infeasible=dice.random() < 0.3,
            most_per_day=dice.choice([None, None, 4]),
        )
        self.world.add_claim(
            name,
            size=size,
            percent=dice.uniform(5, 60),
            driver=driver,
            overhead_percent=dice.choice([0, 3, 6]),
            inode_percent=dice.choice([0, 0, 30, 95]),
            crashes_when_full=dice.random() < 0.3,
            copies=[({"replica": str(n)}, lag) for n, lag in enumerate(lags)],
        )
        self._work(name)

    def _work(self, name: str) -> None:
        """The workload of a claim goes on at another pace; now and then it bursts or cleans up."""
        if self.world.has(CLAIMS, name):
            disk, span = self.world.disk(name), self.life.days * DAY
            disk.change(self.world.seconds, rate=self.dice.choice([-2.0, 0.5, 2.0, 8.0, 50.0]) * disk.size / span)
            if self.dice.random() < 0.3:
                self.world.fill(self.dice.uniform(80, 100), name)

    # A life

    def play(self) -> None:
        span = self.life.days * DAY
        for _ in range(self.faults):
            self.world.agenda.after(self.dice.uniform(0, span), self.strike)
        for _ in range(30):
            self.world.agenda.after(self.dice.uniform(0, span), partial(self._work, self.dice.choice(self.names)))
        self.world.upon_step = self._strike_soon
        self.world.run(days=self.life.days)
        self.world.upon_step = lambda: None

    def _strike_soon(self) -> None:
        """Faults hurt most while something is under way."""
        for _ in range(self.dice.choice([0, 1, 2]) if self.faults else 0):
            self.world.agenda.after(self.dice.choice([0.0, 1.0, 10.0, 60.0]) * self.dice.random(), self.strike)

    def strike(self) -> None:
        what = self.dice.choice([*WEATHER, *AILMENTS, *DEEDS])
        if what in WEATHER:
            self.world.begin(what, self.a_while())
        elif what in DEEDS:
            self.world.tell(what)
            DEEDS[what](self)
        elif name := self.a_claim():
            self.world.begin(what, self.a_while(), uid=uid_of(self.world.claim(name)))

    def a_while(self) -> float:
        return self.dice.choice([20.0, MINUTE, self.life.poll, self.dice.uniform(1, 12) * self.life.poll])

    def a_claim(self) -> str:
        """Empty if there is none just now."""
        return self.dice.choice(sorted(map(name_of, self.world.objects(CLAIMS).values())) or [""])


DEEDS: dict[str, Callable[[Plot], None]] = {}
"""All other faults, by what is said about them."""


def deed(do: Callable[[Plot], None]) -> Callable[[Plot], None]:
    DEEDS[do.__name__.replace("_", " ")] = do
    return do


# Machines


@deed
def metacontroller_restarts(plot: Plot) -> None:
    plot.world.metacontroller.start()


@deed
def metacontroller_crashes_between_two_writes(plot: Plot) -> None:
    plot.world.server.writes_until_crash = plot.dice.randint(1, 4)


@deed
def two_metacontrollers_run_at_once(plot: Plot) -> None:
    for key in plot.world.metacontroller.parents():
        plot.world.metacontroller.sync(key, times=2)


@deed
def replicas_restart(plot: Plot) -> None:
    plot.world.prometheus.forget()


@deed
def caches_lag(plot: Plot) -> None:
    for kind in plot.dice.sample([AUTOSCALERS, EXPANSIONS, CLAIMS], plot.dice.randint(1, 3)):
        plot.world.metacontroller.freeze(kind, plot.dice.uniform(1, 90))


@deed
def syncs_come_at_odd_times(plot: Plot) -> None:
    for key in plot.world.metacontroller.parents():
        for n in range(3):
            plot.world.metacontroller.enqueue(key, plot.dice.uniform(0, MINUTE), lane=f"odd {n}")


# People


@deed
def somebody_wipes_the_status(plot: Plot) -> None:
    for autoscaler in plot.world.objects(AUTOSCALERS).values():
        plot.world.server.set_status(autoscaler, {})


@deed
def somebody_restores_an_older_status(plot: Plot) -> None:
    for autoscaler in plot.world.objects(AUTOSCALERS).values():
        later, old = plot.dice.uniform(1, 3 * plot.life.poll), autoscaler.get("status") or {}
        plot.world.agenda.after(later, partial(plot.world.server.set_status, autoscaler, old))


@deed
def the_quota_is_tight(plot: Plot) -> None:
    total = sum(request_of(claim) for claim in plot.world.objects(CLAIMS).values())
    plot.world.server.quota = total + plot.dice.choice([0, GIB, 3 * GIB])
    plot.world.begin("quota", plot.a_while())


@deed
def somebody_raises_a_request(plot: Plot) -> None:
    if name := plot.a_claim():
        size = -(-request_of(plot.world.claim(name)) // GIB) + plot.dice.choice([1, 1, 5])
        plot.world.set_request(f"{size}Gi", name)


@deed
def somebody_lowers_requests(plot: Plot) -> None:
    """Kubernetes allows that while they are above the capacity."""
    for claim in plot.world.objects(CLAIMS).values():
        least, most = capacity_of(claim) // MIB + 1, request_of(claim) // MIB - 1
        if is_bound(claim) and least <= most:
            plot.world.set_request(f"{plot.dice.randint(least, most)}Mi", name_of(claim))


@deed
def somebody_pauses_a_claim(plot: Plot) -> None:
    if name := plot.a_claim():
        plot.world.annotate(name, paused="for a move")
        plot.world.agenda.after(plot.a_while(), partial(unpause, plot))


def unpause(plot: Plot) -> None:
    for claim in plot.world.objects(CLAIMS).values():
        plot.world.annotate(name_of(claim), paused=None)


@deed
def somebody_destroys_annotations(plot: Plot) -> None:
    damages: Sequence[Mapping[str, str | None]] = (
        {"requested_at": None},
        {"requested_size": None},
        {"resize_history": "no JSON"},
        {"resize_history": None, "requested_at": None, "requested_size": None},
        {"requested_at": "2030-01-01T00:00:00Z"},
    )
    if name := plot.a_claim():
        plot.world.annotate(name, **plot.dice.choice(damages))


@deed
def somebody_deletes_expansions(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        plot.world.server.remove(expansion)


@deed
def somebody_edits_expansions(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        plot.world.server.put(expansion | {"spec": {**expansion["spec"], "count": 99, "message": "mine"}})


@deed
def somebody_forges_an_expansion_for_a_while(plot: Plot) -> None:
    if name := plot.a_claim():
        at, uid = format_time(plot.world.now), uid_of(plot.world.claim(name))
        forged = volumes.expansion(
            of="forged", owned=False, claim_name=name, claim_uid=uid, from_size="1Ti", size="3Ti", requested_at=at
        )
        plot.world.server.put(forged)
        plot.world.agenda.after(plot.a_while(), partial(remove_forged, plot))


def remove_forged(plot: Plot) -> None:
    for expansion in list(plot.world.objects(EXPANSIONS).values()):
        if owner_of(expansion) is None:
            plot.world.server.remove(expansion)


@deed
def somebody_edits_the_autoscaler(plot: Plot) -> None:
    spec = plot.a_spec(plot.dice)
    name = plot.dice.choice(sorted(spec.keys() - {"pollInterval", "maxSize"}))
    plot.world.edit_autoscaler(**{name: spec[name]})


@deed
def somebody_raises_max_size(plot: Plot) -> None:
    plot.world.edit_autoscaler(maxSize=plot.dice.choice(["200Gi", "2Ti"]))


@deed
def somebody_only_observes_for_a_while(plot: Plot) -> None:
    plot.world.edit_autoscaler(mode="Observe")
    plot.world.agenda.after(plot.a_while(), partial(plot.world.edit_autoscaler, mode="Apply"))


@deed
def the_class_forbids_expansion_for_a_while(plot: Plot) -> None:
    plot.world.server.put(volumes.storage_class(expandable=False))
    plot.world.agenda.after(plot.a_while(), partial(plot.world.server.put, volumes.storage_class()))


@deed
def a_rival_comes_and_goes(plot: Plot) -> None:
    if not plot.world.has(AUTOSCALERS, "rival"):
        plot.world.add_autoscaler("rival", **plot.a_spec(plot.dice))
        plot.world.agenda.after(plot.a_while(), partial(remove_rival, plot))


def remove_rival(plot: Plot) -> None:
    if plot.world.has(AUTOSCALERS, "rival"):
        plot.world.remove_autoscaler("rival", garbage_after=plot.dice.uniform(0, 2 * MINUTE))


@deed
def the_autoscaler_is_recreated(plot: Plot) -> None:
    if plot.world.has(AUTOSCALERS, "db"):
        spec = plot.world.autoscaler()["spec"]
        plot.world.remove_autoscaler(garbage_after=plot.dice.uniform(0, 2 * MINUTE))
        plot.world.agenda.after(plot.a_while(), partial(add_autoscaler, plot, spec))


def add_autoscaler(plot: Plot, spec: JsonObject) -> None:
    if not plot.world.has(AUTOSCALERS, "db"):
        plot.world.add_autoscaler(**spec)


@deed
def a_claim_is_recreated_small(plot: Plot) -> None:
    """A pod that still uses it keeps it for a while."""
    if name := plot.a_claim():
        since = format_time(plot.world.now)
        plot.world.edit_claim(name, lambda claim: claim["metadata"].update(deletionTimestamp=since))
        plot.world.agenda.after(plot.dice.choice([0.0, plot.a_while()]), partial(remove_claims, plot))


def remove_claims(plot: Plot) -> None:
    for claim in list(plot.world.objects(CLAIMS).values()):
        if is_deleting(claim):
            plot.world.remove_claim(name_of(claim), series_linger=plot.dice.choice([0, MINUTE, 2 * MINUTE]))
            size = plot.dice.choice(["1Gi", "5Gi", "10Gi"])
            plot.world.agenda.after(plot.a_while(), partial(plot.add_claim, name_of(claim), size))
