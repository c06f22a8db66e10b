"""The exam at the end of a life, and a whole life."""

from hooks.kube.times import parse_time
from tests import volumes
from tests.simulation.ground import HOUR, MINUTE, request_of, seconds_of
from tests.simulation.plot import MOST_LAG, Plot, add_autoscaler, remove_claims, remove_forged, remove_rival, unpause
from tests.simulation.storage import Storage
from tests.simulation.world import World


class Exam:
    """No more faults: does everything grow that should, is it said what cannot, and is it quiet at rest?"""

    def __init__(self, plot: Plot) -> None:
        self.plot, self.world, self.poll = plot, plot.world, plot.life.poll

    def take(self) -> None:
        self.heal()
        self.grows()
        self.grows()
        self.says_what_cannot_grow()
        self.is_quiet()

    def heal(self) -> None:
        world, plot = self.world, self.plot
        world.end()
        world.server.writes_until_crash = 0
        unpause(plot)
        remove_rival(plot)
        remove_forged(plot)
        add_autoscaler(plot, {"pollInterval": f"{self.poll:.0f}s"})
        world.edit_autoscaler(mode="Apply", maxSize="1Pi", resizeBudget=None)
        world.edit_autoscaler(thresholdPercent=80, inodeThresholdPercent=0)
        world.server.put(volumes.storage_class())
        remove_claims(plot)
        for name in plot.names:
            plot.add_claim(name, "10Gi")
        for driver in world.storage.drivers.values():
            driver.most_per_day = None
        world.run(seconds=MOST_LAG)

    def a_resize(self) -> float:
        """How long one takes, if the driver refused until now."""
        return Storage.RETRY + max(driver.delay[1] for driver in self.world.storage.drivers.values())

    def grows(self) -> None:
        world, names = self.world, self.plot.names
        before = {name: request_of(world.claim(name)) for name in names}
        for name in names:
            world.fill(95, name, per_hour=0)
        cooldown = seconds_of(world.autoscaler()["spec"].get("cooldownPeriod", "5m"))
        world.run(seconds=cooldown + 3 * self.poll + self.a_resize() + 5 * MINUTE)
        for name in names:
            is_full = world.disk(name).percent(world.seconds) >= 80
            if is_full and request_of(world.claim(name)) == before[name]:
                raise world.laws.broken(f"7: {name} is full and does not grow: {world.entry(name)}")

    def says_what_cannot_grow(self) -> None:
        world, names = self.world, self.plot.names
        world.edit_autoscaler(maxSize="512Mi")
        world.run(seconds=self.a_resize() + MINUTE)
        for name in names:
            world.fill(95, name)
        world.run(seconds=2.5 * self.poll + MOST_LAG)
        ready, expandable = world.condition("Ready"), world.condition("Expandable")
        is_said = all(name in condition["message"] for name in names for condition in (ready, expandable))
        if not is_said or (ready["status"], expandable["status"]) != ("False", "False"):
            raise world.laws.broken(f"8: it is not said which claims are full and cannot grow: {ready}, {expandable}")

    def is_quiet(self) -> None:
        """One status per poll, and nothing for syncs in between."""
        world = self.world
        world.run(seconds=3 * self.poll + HOUR)
        before = len(world.server.writes)
        world.run(seconds=4 * self.poll)
        written = world.server.writes[before:]
        if not 3 <= len(written) <= 5 or set(written) != {"update status of VolumeAutoscaler"}:
            raise world.laws.broken(f"9: written at rest in four polls: {written}")
        age = (world.now - parse_time(world.status()["lastPollTime"])).total_seconds()
        world.run(seconds=self.poll + 20 - age)
        for key in [*world.metacontroller.parents()] * 2:
            if writes := world.metacontroller.sync(key):
                raise world.laws.broken(f"9: written by an extra sync: {writes}")


def live(seed: int, *, faults: int = 60) -> World:
    """One life, from its beginning to its exam."""
    plot = Plot(seed, faults=faults)
    plot.play()
    Exam(plot).take()
    return plot.world
