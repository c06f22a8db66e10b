"""The laws that hold for every answer and every write."""

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from hooks.kube.metadata import (
    JsonObject,
    annotations_of,
    is_deleting,
    name_of,
    uid_of,
)
from hooks.kube.quantity import format_binary, whole_bytes
from hooks.rehearsal import Round
from hooks.volumes.claims import HISTORY, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE, read_history
from hooks.volumes.policy import GIB, MIB
from tests.simulation.ground import (
    AUTOSCALERS,
    CLAIMS,
    EXPANSIONS,
    MEMORY,
    NAMESPACE,
    Key,
    capacity_of,
    is_bound,
    is_paused,
    last_step,
    request_of,
    seconds_of,
    shown,
)

if TYPE_CHECKING:
    from tests.simulation.world import World


class Broken(AssertionError):
    """A law does not hold."""


class Decided(NamedTuple):
    """A step, and the rules of the VolumeAutoscaler that decided it."""

    size: int
    max_size: int
    cooldown: float
    budget: tuple[int, float] | None


class Laws:
    """Watches all answers and writes, and says at once when one of them is against a law."""

    TOLERANCE = 8.0
    """The clocks of replicas differ by up to six seconds, and times are cut to whole ones."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.decided: dict[tuple[str, str, str, int], Decided] = {}  # by claim UID, time, VolumeAutoscaler and size
        self.decisions: Counter[str] = Counter()  # by UID of the VolumeAutoscaler
        self.steps: dict[str, list[float]] = {}  # by claim UID: when its request was raised
        self.raises: list[tuple[float, str, str]] = []  # when, claim, size

    def broken(self, law: str) -> Broken:
        recent = "\n  ".join(self.world.log)
        return Broken(f"seed {self.world.seed}, {self.world.clock}: {law}\n  {recent}")

    # Answers

    def answered(self, path: str, body: JsonObject, answer: JsonObject) -> None:
        if path == "/volume-autoscaler/sync":
            steps = [child["spec"] for child in answer["children"] if child["kind"] == EXPANSIONS.kind]
            for step in steps:
                if step.get("size"):
                    self._autoscaler_answered(body, step)
        elif path == "/volume-claim/sync":
            self._claim_answered(body, answer["annotations"])

    def _autoscaler_answered(self, body: JsonObject, step: JsonObject) -> None:
        size = whole_bytes(step["size"])
        identity = step["claimUID"], step["requestedAt"], name_of(body["parent"]), size
        if identity in self.decided:
            return
        spec = body["parent"]["spec"]
        budget = spec.get("resizeBudget")
        self.decisions[uid_of(body["parent"])] += 1
        self.decided[identity] = decided = Decided(
            size,
            whole_bytes(spec["maxSize"]),
            seconds_of(spec.get("cooldownPeriod", "5m")),
            (budget["count"], seconds_of(budget["window"])) if budget else None,
        )
        self.world.tell(f"{step['claimName']} {step['fromSize']} -> {step['size']} decided for {step['requestedAt']}")
        self.world.upon_step()
        self._check_decision(body, body["related"][CLAIMS.group_key][f"{NAMESPACE}/{step['claimName']}"], decided)

    def _check_decision(self, body: JsonObject, claim: JsonObject, decided: Decided) -> None:
        spec, rivals = body["parent"]["spec"], body["related"][EXPANSIONS.group_key].values()
        self._check_size(claim, decided)
        self._check_may_grow(claim)
        if spec.get("mode") == "Observe":
            raise self.broken("3: a step was decided in mode Observe")
        if any(rival["spec"].get("claimName") == name_of(claim) and not is_deleting(rival) for rival in rivals):
            raise self.broken("3: a step was decided beside another VolumeAutoscaler")
        percent, inode_percent = self.world.prometheus.fullest.get(uid_of(claim), (0, 0))
        if percent < spec.get("thresholdPercent", 80) and not 0 < spec.get("inodeThresholdPercent", 0) <= inode_percent:
            raise self.broken(f"5: {shown(claim)} was never fuller than {percent}%")

    def _check_size(self, claim: JsonObject, decided: Decided) -> None:
        size = decided.size
        if size <= request_of(claim):
            raise self.broken(f"1: {format_binary(size)} is not above the request of {shown(claim)}")
        if size > decided.max_size:
            raise self.broken(f"1: {format_binary(size)} is above maxSize {format_binary(decided.max_size)}")
        if size % (GIB if size >= GIB else MIB):
            raise self.broken(f"1: {size} is no whole number of GiB, or of MiB below one")

    def _check_may_grow(self, claim: JsonObject) -> None:
        if request_of(claim) > capacity_of(claim):
            raise self.broken(f"3: a step on top of a resize that is under way: {shown(claim)}")
        if is_paused(claim) or is_deleting(claim) or not is_bound(claim):
            raise self.broken(f"3: a step of a claim that is paused, deleted or not bound: {shown(claim)}")

    def _claim_answered(self, body: JsonObject, annotations: JsonObject) -> None:
        claim = body["object"]
        if any(key in annotations and annotations[key] is None for key in MEMORY):
            raise self.broken(f"4: the memory of {shown(claim)} is deleted")
        if REQUESTED_SIZE not in annotations:
            return
        size = whole_bytes(annotations[REQUESTED_SIZE])
        decided = self.decided.get((uid_of(claim), last_step(annotations), annotations[REQUESTED_BY], size))
        if decided is None:
            raise self.broken(f"1: nobody decided {annotations[REQUESTED_SIZE]} for {shown(claim)}")
        self._check_size(claim, decided)
        self._check_may_grow(claim)
        about = [other for other in body["related"][EXPANSIONS.group_key].values() if not is_deleting(other)]
        if len(about) != 1:
            raise self.broken(f"3: a step of a claim that {len(about)} VolumeExpansions are about")

    def same_bytes(self, first: bytes, second: bytes) -> None:
        if first != second:
            raise self.broken(f"10: two answers to the same request:\n{first!r}\n{second!r}")

    # Writes

    def written(self, old: JsonObject | None, new: JsonObject | None, *, by_loop: bool) -> None:
        kind = (new or old or {})["kind"]
        if kind == CLAIMS.kind and old and new and not by_loop:
            self._claim_edited(old, new)
        elif by_loop and kind in (CLAIMS.kind, AUTOSCALERS.kind):
            if old is None or new is None:
                raise self.broken(f"4: the loop created or deleted a {kind}")
            check = self._claim_written if kind == CLAIMS.kind else self._autoscaler_written
            check(old, new)

    def _claim_edited(self, old: JsonObject, new: JsonObject) -> None:
        """Who destroys a memory has to live with it, and a step that is undone before the claim noted it was none."""
        if any(annotations_of(old).get(key) != annotations_of(new).get(key) for key in MEMORY):
            self.steps.pop(uid_of(old), None)
        history = read_history(annotations_of(old).get(HISTORY, ""))
        if request_of(new) < request_of(old) and history and not history[-1].shown:
            self.steps[uid_of(old)] = self.steps.get(uid_of(old), [])[:-1]

    def _claim_written(self, old: JsonObject, new: JsonObject) -> None:
        if new["metadata"].get("ownerReferences"):
            raise self.broken(f"4: {shown(new)} has an owner")
        if request_of(new) < request_of(old):
            raise self.broken(f"1: the request was lowered from {shown(old)} to {shown(new)}")
        if annotations_of(old).get(REQUESTED_AT) != annotations_of(new).get(REQUESTED_AT):
            self._check_may_grow(old)
        if request_of(new) > request_of(old):
            self._raised(new)

    def _raised(self, claim: JsonObject) -> None:
        said, now = annotations_of(claim), self.world.seconds
        decided = self.decided.get((uid_of(claim), last_step(said), said.get(REQUESTED_BY, ""), request_of(claim)))
        if decided is None:
            raise self.broken(f"1: nobody decided that {shown(claim)} grows")
        steps = self.steps.setdefault(uid_of(claim), [])
        if steps and now < steps[-1] + decided.cooldown - self.TOLERANCE:
            raise self.broken(f"2: {shown(claim)} grows {now - steps[-1]:.0f} seconds after its last step")
        steps.append(now)
        count, window = decided.budget or (len(steps), 0.0)
        if len([step for step in steps if step > now - window + self.TOLERANCE]) > count:
            raise self.broken(f"2: {shown(claim)} grows more than {count} times in {window} seconds")
        self.raises.append((now, name_of(claim), format_binary(request_of(claim))))
        self.world.tell(f"{shown(claim)} grows")

    def _autoscaler_written(self, old: JsonObject, new: JsonObject) -> None:
        before, after = ((obj.get("status") or {}).get("totalScaleEvents", 0) for obj in (old, new))
        if after < before and not self.world.metacontroller.is_second:
            raise self.broken(f"6: totalScaleEvents fell from {before} to {after}")
        if after > self.decisions[uid_of(new)]:
            raise self.broken(f"6: totalScaleEvents is {after}, and {self.decisions[uid_of(new)]} steps were decided")

    # Syncs

    def synced(self, key: Key, done: Round) -> None:
        """Faults of this world may end a sync with an error; the hooks may not."""
        for error in done.errors:
            if not any(fault in error for fault in ("exceeded quota", LOST, "Conflict")):
                raise self.broken(f"11: the sync of {key[1]} failed: {error}")


LOST = "the reply was lost"
