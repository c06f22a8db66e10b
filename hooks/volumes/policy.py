"""VolumeAutoscaler as the hook reads it: which claims, when they are full, and how far they may grow.

The CRD refuses most mistakes when a VolumeAutoscaler is written. One that is stored may still break a rule, so all is
checked again here: what cannot be used is reported and nothing grows meanwhile, but usage is polled and shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError

from hooks import wire
from hooks.fields import Bytes, Wait, Written, duration
from hooks.kube.metadata import JsonObject
from hooks.kube.quantity import format_binary
from hooks.kube.selector import InvalidSelector, Selector, parse_selector

API_VERSION, KIND = "autoscaling.volume-autoscaler.io/v1alpha1", "VolumeAutoscaler"
MIB, GIB = 2**20, 2**30
SHORTEST_POLL = timedelta(seconds=10)
_URL = re.compile(r"https?://(\[[0-9a-f:.]+\]|[^/?#@:\s\[\]%]+)(:[0-9]{0,5})?(/[^?#\s]*)?", re.IGNORECASE)


def _url(value: Any) -> Any:
    if isinstance(value, str) and value and not _URL.fullmatch(value):
        raise PydanticCustomError("url", "must be an http or https URL without user name, query and fragment")
    return value


Poll = Annotated[timedelta, BeforeValidator(duration(SHORTEST_POLL, "must be at least 10s"))]
Window = Annotated[timedelta, BeforeValidator(duration(timedelta(microseconds=1), "must be above zero"))]


class TargetSpec(Written):
    pvc_name: str | None = Field(default=None, min_length=1, max_length=253)
    selector: JsonObject | None = None


class BudgetSpec(Written):
    count: int = Field(ge=1, le=10)
    window: Window


class PolicySpec(Written):
    """The spec of a VolumeAutoscaler with the original's defaults."""

    target: JsonObject | None = None
    threshold_percent: int = Field(default=80, ge=1, le=99)
    max_size: Bytes | None = None
    increase_percent: int = Field(default=20, ge=1, le=100)
    increase_minimum: Bytes | None = None  # 1Gi, but never above increaseMaximum
    increase_maximum: Bytes | None = None
    poll_interval: Poll = timedelta(seconds=60)
    cooldown_period: Wait = timedelta(minutes=5)
    inode_threshold_percent: int = Field(default=0, ge=0, le=99)
    prometheus_url: Annotated[str, BeforeValidator(_url)] = Field(default="", alias="prometheusURL", max_length=2048)
    mode: Literal["Apply", "Observe"] = "Apply"
    resize_budget: BudgetSpec | None = None
    on_metrics_lost: Literal["Wait", "StepOnce"] = "Wait"


class Target(NamedTuple):
    """The claims of one namespace that are meant: one by name, or those that a selector chooses."""

    name: str
    selector: Selector
    selector_text: JsonObject

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return name == self.name if self.name else self.selector.matches(labels)

    @property
    def is_everything(self) -> bool:
        return not self.name and not self.selector.requirements


@dataclass(frozen=True)
class Policy:
    spec: PolicySpec
    target: Target | None
    complaint: str = ""
    """What cannot be used, as `field: problem`; nothing grows while there is something."""

    @property
    def applies(self) -> bool:
        return self.spec.mode == "Apply"

    def next_size(self, base: int) -> int | None:
        """What to grow to, in whole GiB (MiB below 1Gi); None if that leaves no room below maxSize.

        Odd sizes cost dearly: with some drivers volume and claim then never agree, and kubelet retries for ever.
        """
        limit = _round_down(self.spec.max_size or 0)
        if limit - base < _unit(base):
            return None
        most = self.spec.increase_maximum
        least = self.spec.increase_minimum or min(GIB, most or GIB)
        step = max(base * self.spec.increase_percent // 100, least)
        size = _round_up(base + min(step, most or step))
        if most is not None and size > base + most:
            size = max(_round_down(base + most), _round_up(base + 1))  # less than one unit is no step at all
        return min(size, limit)


def _unit(size: int) -> int:
    return GIB if size >= GIB else MIB


def _round_up(size: int) -> int:
    return -(-size // _unit(size)) * _unit(size)


def _round_down(size: int) -> int:
    return size // _unit(size) * _unit(size)


def read_policy(spec: Any) -> Policy:
    """Fields that cannot be used get their defaults, so that the rest goes on working."""
    given = dict(spec) if isinstance(spec, Mapping) else {}
    complaint = ""
    try:
        read = PolicySpec.model_validate(given, strict=True)
    except ValidationError as error:
        complaint = wire.problem(error)
        usable = given.keys() - {str(fault["loc"][0]) for fault in error.errors()}
        read = PolicySpec.model_validate({key: given[key] for key in usable}, strict=True)
    target, trouble = _read_target(read.target)
    return Policy(read, target, trouble or complaint or _contradiction(read))


def _contradiction(spec: PolicySpec) -> str:
    if spec.max_size is None:
        return "maxSize: Field required"
    least, most = spec.increase_minimum, spec.increase_maximum
    if least is not None and most is not None and least > most:
        return f"increaseMinimum: {format_binary(least)} is above increaseMaximum {format_binary(most)}"
    return ""


def _read_target(raw: JsonObject | None) -> tuple[Target | None, str]:
    try:
        target = TargetSpec.model_validate(raw or {}, strict=True)
    except ValidationError as error:
        return None, f"target.{wire.problem(error)}"
    if (target.pvc_name is None) == (target.selector is None):
        return None, "target: give exactly one of pvcName and selector"
    try:
        selector = parse_selector(target.selector or {})
    except InvalidSelector as error:
        return None, f"target.selector: {error}"
    return Target(target.pvc_name or "", selector, target.selector or {}), ""
