"""Workloads that fill, drivers that resize, and the metrics that lag behind both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from hooks.kube.metadata import (
    JsonObject,
    name_of,
    uid_of,
)
from hooks.kube.quantity import format_binary
from hooks.kube.times import format_time
from hooks.volumes.policy import GIB
from hooks.volumes.usage import UNREACHABLE, Question, Sample, Unavailable, Usages, read_usages
from tests.simulation.ground import ALWAYS, CLAIMS, DAY, MINUTE, NAMESPACE, START, capacity_of, is_bound, request_of

if TYPE_CHECKING:
    from tests.simulation.world import World


class Moment(NamedTuple):
    """From here on, usage is a line."""

    at: float
    size: int
    used: float
    rate: float


@dataclass
class Disk:
    """The file system of a claim and the pod that fills it, in bytes and bytes per second."""

    size: int
    used: float = 0
    rate: float = 0
    overhead_percent: int = 3
    inode_percent: int = 0  # of the inodes that are in use; 0 for a file system without a fixed number
    crashes_when_full: bool = False
    copies: Sequence[tuple[Mapping[str, str], float]] = (({"node": "a"}, 75.0),)
    """The series of its metrics: labels, and how many seconds they lag behind."""
    born: float = 0
    past: list[Moment] = field(default_factory=list)

    def at(self, seconds: float) -> Moment:
        """How things were at a time, with the usage of that time."""
        then = next((moment for moment in reversed(self.past) if moment.at <= seconds), self.past[0])
        used = then.used + then.rate * (seconds - then.at)
        return Moment(seconds, then.size, min(max(used, 0), self.room(then.size)), then.rate)

    def room(self, size: int) -> int:
        return size * (100 - self.overhead_percent) // 100

    def change(
        self, now: float, *, size: int | None = None, used: float | None = None, rate: float | None = None
    ) -> None:
        then = self.at(now) if self.past else Moment(now, self.size, self.used, self.rate)
        self.size = then.size if size is None else size
        self.used = min(then.used if used is None else used, self.room(self.size))
        self.rate = then.rate if rate is None else rate
        self.past = [*self.past[-40:], Moment(now, self.size, self.used, self.rate)]

    def percent(self, seconds: float) -> int:
        then = self.at(seconds)
        return int(then.used) * 100 // self.room(then.size)


@dataclass
class Driver:
    """How the storage behind a claim behaves."""

    delay: tuple[float, float] = (20, 60)
    unit: int = GIB
    tells: bool = True  # whether it sets conditions while it works
    says_infeasible: bool = False
    most_per_day: int | None = None
    changes: list[float] = field(default_factory=list)
    refusals: int = 0
    is_busy: bool = False


class Storage:
    """After a while the capacity of a claim follows its request, unless the driver refuses."""

    RETRY = 5 * MINUTE

    def __init__(self, world: "World") -> None:
        self.world = world
        self.drivers: dict[str, Driver] = {}  # by claim UID
        self.disks: dict[str, Disk] = {}

    def look(self, claim: JsonObject) -> None:
        driver = self.drivers.get(uid_of(claim))
        if driver and is_bound(claim) and not driver.is_busy and request_of(claim) > capacity_of(claim):
            driver.is_busy = True
            self.world.agenda.after(1, partial(self._begin, claim, driver))

    def _begin(self, claim: JsonObject, driver: Driver) -> None:
        current = self.world.again(claim)
        if current is None or request_of(current) <= capacity_of(current):
            driver.is_busy = False
            return
        if why := self._refusal(claim, driver):
            driver.refusals += 1
            self._tell(current, "ControllerResizeError", why, infeasible=driver.says_infeasible)
            self.world.agenda.after(self.RETRY, partial(self._begin, claim, driver))
            return
        driver.changes.append(self.world.seconds)
        if driver.tells:
            self._tell(current, "Resizing")
        size = -(-request_of(current) // driver.unit) * driver.unit
        self.world.agenda.after(self.world.random.uniform(*driver.delay), partial(self._finish, claim, driver, size))

    def _refusal(self, claim: JsonObject, driver: Driver) -> str:
        if self.world.lasts("refuse", uid_of(claim)):
            return "the pool has no space left"
        recent = [at for at in driver.changes if at > self.world.seconds - DAY]
        if driver.most_per_day is not None and len(recent) >= driver.most_per_day:
            return "you have reached the maximum modification rate per volume limit"
        return ""

    def _finish(self, claim: JsonObject, driver: Driver, size: int) -> None:
        current = self.world.again(claim)
        if current is None:
            return
        if self.world.lasts("no pod", uid_of(claim)):
            self._tell(current, "FileSystemResizePending")
            self.world.agenda.after(MINUTE, partial(self._finish, claim, driver, size))
            return
        driver.is_busy = False
        self.disks[uid_of(claim)].change(self.world.seconds, size=size)
        self.world.server.set_status(claim, {"phase": "Bound", "capacity": {"storage": format_binary(size)}})

    def _tell(self, claim: JsonObject, type_: str, message: str = "", *, infeasible: bool = False) -> None:
        if any(condition["type"] == type_ for condition in claim["status"].get("conditions", ())):
            return  # it was said already
        since = format_time(self.world.now)
        said = {"type": type_, "status": "True", "message": message, "lastTransitionTime": since}
        status: JsonObject = {"phase": "Bound", "capacity": claim["status"]["capacity"], "conditions": [said]}
        if infeasible:
            status["allocatedResourceStatuses"] = {"storage": "ControllerResizeInfeasible"}
        self.world.server.set_status(claim, status)


class Prometheus:
    """Volume metrics as kubelets report them: late, several times over, or not at all."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.questions = 0
        self.lingering: list[tuple[float, str, Disk]] = []
        """Until when, claim and disk: the series of claims that are gone."""
        self.fullest: dict[str, tuple[int, int]] = {}
        """By claim UID: the most that was ever reported, in percent of bytes and of inodes."""
        self._remembered: dict[int, tuple[float, Usages]] = {}

    def ask(self, question: Question, replica: int) -> Usages | Unavailable:
        """A replica of the service remembers what it heard for half a poll, at most a minute."""
        asked, remembered = self._remembered.get(replica, (-ALWAYS, Usages()))
        if self.world.seconds - asked < min(question.poll_seconds / 2, MINUTE):
            return remembered
        self.questions += 1
        if self.world.lasts("outage"):
            return Unavailable(UNREACHABLE, "Prometheus at http://prometheus refused the connection")
        if self.world.lasts("empty"):
            return Usages()
        answer = read_usages(self._samples(), now=START.timestamp() + self.world.seconds)
        self._remembered[replica] = self.world.seconds, answer
        return answer

    def forget(self) -> None:
        """The replicas restart."""
        self._remembered.clear()

    def _samples(self) -> Iterable[Sample]:
        for claim in self.world.objects(CLAIMS).values():
            if is_bound(claim) and not self.world.lasts("no series", uid_of(claim)):
                yield from self._of_disk(name_of(claim), uid_of(claim), self.world.storage.disks[uid_of(claim)])
        for until, name, disk in self.lingering:
            if until > self.world.seconds:
                yield from self._of_disk(name, "", disk)

    def _of_disk(self, name: str, uid: str, disk: Disk) -> Iterable[Sample]:
        for labels, lag in disk.copies:
            then = disk.at(self.world.seconds - lag)
            room, used = disk.room(then.size), int(then.used)
            if self.world.seconds - lag < disk.born or (disk.crashes_when_full and used >= room):
                continue
            inodes = room // 16384 if disk.inode_percent else 0
            values = {"capacity_bytes": room, "used_bytes": used, "available_bytes": room - used}
            values |= {"inodes": inodes, "inodes_used": inodes * disk.inode_percent // 100}
            values["health_status_abnormal"] = int(self.world.lasts("abnormal", uid))
            bytes_, inodes_ = self.fullest.get(uid, (0, 0))
            self.fullest[uid] = max(bytes_, used * 100 // room), max(inodes_, disk.inode_percent)
            at = START.timestamp() + self.world.seconds - lag
            of_claim = {"persistentvolumeclaim": name, "namespace": NAMESPACE, **labels}
            yield from (Sample(metric, of_claim, value, at) for metric, value in values.items())
