"""When the update of a claim raises its request: CASES, run against the hook, the admission policy and the webhook."""

from dataclasses import dataclass, field, replace
from typing import Any

from hooks.kube.metadata import JsonObject
from hooks.volumes.claims import REQUESTED_AT, REQUESTED_SIZE

STORAGE_CLASS = "expandable"
BEFORE, LATER = "2026-01-01T00:00:00Z", "2026-01-01T06:00:00Z"

# Why the API server cannot have such a claim
NEEDS_REQUEST = "the API server refuses a claim without a request"
HAS_PHASE = "the API server gives every claim a phase"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, as far as the admission step looks at it."""

    request: str | None = "10Gi"
    size: str | None = None
    """The annotation requested-size."""
    at: str | None = None
    """The annotation requested-at."""
    others: JsonObject = field(default_factory=dict)
    """Other annotations."""
    phase: str | None = "Bound"
    deleting: bool = False

    @property
    def annotations(self) -> JsonObject:
        ours = {REQUESTED_SIZE: self.size, REQUESTED_AT: self.at}
        return self.others | {key: value for key, value in ours.items() if value is not None}

    def body(self, *, name: str = "data", namespace: str = "default") -> JsonObject:
        metadata: JsonObject = {"name": name, "namespace": namespace}
        if self.annotations:
            metadata["annotations"] = self.annotations
        if self.deleting:
            metadata["deletionTimestamp"] = BEFORE
        requests = {} if self.request is None else {"requests": {"storage": self.request}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": STORAGE_CLASS, "volumeName": f"pv-{name}"}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        status = {} if self.phase is None else {"status": {"phase": self.phase, "capacity": {"storage": "1Gi"}}}
        return body | {"spec": spec | {"resources": requests}} | status


BOUND = Claim()


@dataclass(frozen=True, kw_only=True)
class Case:
    """An update of a claim (without an old one: its creation), and what the claim requests afterwards."""

    old: Claim | None = BOUND
    new: Claim
    request: str | None
    """What the new claim requests once the step was taken, in the notation that the API server stores."""
    sends_status: bool = True
    """Whether the client sends the status too; the API server ignores it in this place."""
    unstorable: str = ""
    """Why the API server cannot have such a claim."""

    @property
    def grows(self) -> bool:
        return self.request != self.new.request

    def sent(self, **names: str) -> JsonObject:
        """What the client sends."""
        body = self.new.body(**names)
        return body if self.sends_status else {key: value for key, value in body.items() if key != "status"}


def asks(size: str, request: str, *, of: str = "10Gi", **case: Any) -> Case:
    """A bound claim is annotated with a size and a time."""
    claim = replace(BOUND, request=of)
    return Case(old=claim, new=replace(claim, size=size, at=BEFORE), request=request, **case)


def ignores(size: str, *, of: str = "10Gi", **case: Any) -> Case:
    return asks(size, of, of=of, **case)


ASKED = Claim(request="12Gi", size="12Gi", at=BEFORE)
REFUSED = Claim(request="10Gi", size="12Gi", at=BEFORE)
"""Its annotation asks for more than it requests, since before this update."""
PENDING, LOST = (Claim(phase=phase) for phase in ("Pending", "Lost"))
GOING = Claim(deleting=True)

CASES: dict[str, Case] = {
    # Sizes
    "a larger size": asks("12Gi", "12Gi"),
    "one byte more": asks("10737418241", "10737418241"),
    "one byte less": ignores("10737418239"),
    "the same size": ignores("10Gi"),
    "the same size in other units": ignores("10240Mi"),
    "the same size in bytes": ignores("10737418240"),
    "a smaller size": ignores("8Gi"),
    "a smaller size with more digits": ignores("9999Mi"),
    "a larger size in other units": asks("12288Mi", "12Gi"),
    "a larger size in bytes": asks("12884901888", "12884901888"),
    "a decimal size": asks("12G", "12G"),
    "a decimal size that is smaller for all its digits": ignores("10G"),
    "a size with a fraction": asks("12.5Gi", "12800Mi"),
    "a size with nothing before the point": asks(".5Ti", "512Gi"),
    "a size with nothing after the point": asks("12.Gi", "12.Gi"),
    "a size with zeros before it": asks("0012Gi", "0012Gi"),
    "an exponent": asks("12e9", "12e9"),
    "an exponent in capitals": asks("12E9", "12E9"),
    "an exponent with a sign": asks("120e+8", "12e9"),
    "a small number by its exponent": ignores("1e3"),
    "a tiny number by its exponent": ignores("12e-99"),
    "thousands of a byte": asks("20000000000001m", "20000000000001m"),
    "exabytes by their suffix": asks("1E", "1E"),
    "the largest whole exbibytes": asks("7Ei", "7Ei"),
    "the largest number": asks("9223372036854775806", "9223372036854775806"),
    "one more than the largest number": ignores("9223372036854775807"),
    "8Ei, more than Go holds": ignores("8Ei"),
    "9Ei": ignores("9Ei"),
    "8E is less": asks("8E", "8E"),
    "10E is more": ignores("10E"),
    "a size that Go would store as 1": ignores("1000E"),
    "an exponent of 99": ignores("1e99"),
    "an exponent of 100": ignores("1e100"),
    "100 digits": ignores("1" + "0" * 99),
    "32 characters": asks("0" * 28 + "12Gi", "0" * 28 + "12Gi"),
    "33 characters": ignores("0" * 29 + "12Gi"),
    "zero": ignores("0"),
    "zero with a unit": ignores("0Gi"),
    "a negative size": ignores("-12Gi"),
    "a plus sign": ignores("+12Gi"),
    "an empty size": ignores(""),
    "a space before": ignores(" 12Gi"),
    "a space after": ignores("12Gi "),
    "a space inside": ignores("12 Gi"),
    "a line end": ignores("12Gi\n"),
    "an unknown unit": ignores("12GB"),
    "a unit in small letters": ignores("12gi"),
    "a unit alone": ignores("Gi"),
    "a point alone": ignores("."),
    "an exponent without a number": ignores("12e"),
    "an exponent with a fraction": ignores("12e9.5"),
    "a word": ignores("large"),
    "a comma": ignores("12,5Gi"),
    "digits of another script": ignores("१२Gi"),
    "a hexadecimal number": ignores("0xFFFFFFFFFF"),
    "two sizes": ignores("12Gi14Gi"),
    # What the claim requests already
    "a request in bytes": asks("12Gi", "12Gi", of="10737418241"),
    "a decimal request": asks("12Gi", "12Gi", of="10G"),
    "a request with a fraction of a byte": asks("2Gi", "2Gi", of="1500m"),
    "a request above every size": ignores("7Ei", of="9223372036854775807"),
    "no request": Case(
        old=Claim(request=None), new=Claim(request=None, size="12Gi"), request=None, unstorable=NEEDS_REQUEST
    ),
    # What changed
    "the first size without a time": Case(new=Claim(size="12Gi"), request="12Gi"),
    "another size, the same time": Case(old=ASKED, new=replace(ASKED, size="14Gi"), request="14Gi"),
    "the same size, another time": Case(old=REFUSED, new=replace(REFUSED, at=LATER), request="12Gi"),
    "the same size, the first time": Case(old=replace(REFUSED, at=None), new=REFUSED, request="12Gi"),
    "the same size in other words": Case(old=REFUSED, new=replace(REFUSED, size="12288Mi"), request="12Gi"),
    "another size and time": Case(old=ASKED, new=replace(ASKED, size="14Gi", at=LATER), request="14Gi"),
    "an empty time counts as a change": Case(
        old=replace(REFUSED, at=None), new=replace(REFUSED, at=""), request="12Gi"
    ),
    "a time without a size": Case(new=Claim(at=BEFORE), request="10Gi"),
    "nothing": Case(old=REFUSED, new=REFUSED, request="10Gi"),
    "another annotation": Case(old=REFUSED, new=replace(REFUSED, others={"example.com/a": "b"}), request="10Gi"),
    "a size beside other annotations": Case(
        old=Claim(others={"example.com/a": "b"}), new=Claim(others={"example.com/a": "c"}, size="12Gi"), request="12Gi"
    ),
    "the time goes, the size stays": Case(old=REFUSED, new=replace(REFUSED, at=None), request="10Gi"),
    "the size goes, the time changes": Case(old=REFUSED, new=replace(REFUSED, size=None, at=LATER), request="10Gi"),
    "both go": Case(old=REFUSED, new=BOUND, request="10Gi"),
    # People
    "somebody lowers the request": Case(old=ASKED, new=replace(ASKED, request="11Gi"), request="11Gi"),
    "somebody lowers the request while it is asked for again": Case(
        old=ASKED, new=replace(ASKED, request="11Gi", at=LATER), request="12Gi"
    ),
    "somebody raises the request to less": Case(new=Claim(request="11Gi", size="12Gi"), request="12Gi"),
    "somebody raises the request to the same": Case(new=Claim(request="12Gi", size="12Gi"), request="12Gi"),
    "somebody raises the request to more": Case(new=Claim(request="20Gi", size="12Gi"), request="20Gi"),
    # The claim
    "a claim that is not bound yet": Case(old=PENDING, new=replace(PENDING, size="12Gi"), request="10Gi"),
    "a claim that lost its volume": Case(old=LOST, new=replace(LOST, size="12Gi"), request="10Gi"),
    "a claim that is not bound yet, sent as bound": Case(old=PENDING, new=Claim(size="12Gi"), request="10Gi"),
    "a bound claim, sent without status": Case(new=Claim(size="12Gi"), request="12Gi", sends_status=False),
    "a bound claim, sent as pending": Case(new=replace(PENDING, size="12Gi"), request="12Gi"),
    "a claim without a phase": Case(
        old=Claim(phase=None), new=Claim(phase=None, size="12Gi"), request="10Gi", unstorable=HAS_PHASE
    ),
    "a claim that is deleted": Case(old=GOING, new=replace(GOING, size="12Gi"), request="10Gi"),
    "a claim that is deleted, sent as if it were not": Case(old=GOING, new=Claim(size="12Gi"), request="10Gi"),
    "a claim that is deleted, asked for again": Case(
        old=replace(REFUSED, deleting=True), new=replace(REFUSED, deleting=True, at=LATER), request="10Gi"
    ),
    "a new claim": Case(old=None, new=Claim(size="12Gi", at=BEFORE), request="10Gi"),
}
