"""NodeAgentAutoscaler as the hook reads it: which nodes, how they are grouped, and how much the agent gets on each.

The CRD refuses most mistakes when a NodeAgentAutoscaler is written. One that is stored may still break a rule, so all
is checked again here: while something cannot be used, what runs is kept as it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, InstanceOf, ValidationError
from pydantic_core import PydanticCustomError

from hooks import wire
from hooks.agents.groups import LONGEST_PREFIX, show
from hooks.agents.sizes import Amount, Bounds, Percentages
from hooks.agents.template import InvalidTemplate, check_env, tidy
from hooks.fields import Bytes, Wait, Written
from hooks.kube.metadata import JsonObject, check_label_key, check_label_value
from hooks.kube.quantity import InvalidQuantity, format_milli, milli
from hooks.kube.selector import InvalidSelector, Selector, parse_selector

API_VERSION, KIND = "autoscaling.node-agent.io/v1alpha1", "NodeAgentAutoscaler"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
TEMPLATE_KEY = "daemonset-template.yaml"
MOST_MILLI = 10**9
"""A million cores."""


def _percent(value: Any) -> Fraction:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= 100:
        raise PydanticCustomError("percent", "must be a number above 0 and at most 100")
    return Fraction(str(value))


def _milli(value: Any) -> int:
    try:
        found = milli(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else 0
    except InvalidQuantity as error:
        raise PydanticCustomError("quantity", "{text}", {"text": str(error)}) from error
    if not 0 < found <= MOST_MILLI:
        raise PydanticCustomError("quantity", "must be a quantity above zero, such as 100m or 2")
    return found


def _label_key(value: Any) -> Any:
    if isinstance(value, str) and (trouble := check_label_key(value)):
        raise PydanticCustomError("label", "{text}", {"text": trouble})
    return value


Percent = Annotated[InstanceOf[Fraction], BeforeValidator(_percent)]
Cpu = Annotated[int, BeforeValidator(_milli)]


class PercentagesSpec(Written):
    request_cpu: Percent | None = Field(default=None, alias="requestCPU")
    request_memory: Percent | None = None
    limit_cpu: Percent | None = Field(default=None, alias="limitCPU")
    limit_memory: Percent | None = None


class AmountSpec(Written):
    cpu: Cpu | None = None
    memory: Bytes | None = None


class Sizing(Written):
    """How much of a node the agent gets; for one group or for all."""

    resource_percentages: PercentagesSpec = Field(default_factory=PercentagesSpec)
    min_resources: AmountSpec = Field(default_factory=AmountSpec)
    max_resources: AmountSpec = Field(default_factory=AmountSpec)
    go_mem_limit_percent: Percent | None = None


class GroupSpec(Sizing):
    """What is different for one group."""

    tolerations: list[JsonObject] = Field(default_factory=list)
    priority_class_name: str = ""
    update_strategy: JsonObject | None = None
    env: list[JsonObject] = Field(default_factory=list)


class ConfigMapKey(Written):
    name: str = Field(min_length=1, max_length=253)
    key: str = Field(default=TEMPLATE_KEY, min_length=1, max_length=253)


class AutoscalerSpec(Sizing):
    node_group_label: Annotated[str, BeforeValidator(_label_key)] = INSTANCE_TYPE
    node_selector: JsonObject | None = None
    default_group: Literal["Enabled", "Disabled"] = "Disabled"
    empty_group_grace_period: Wait = timedelta(hours=1)
    container: str = ""
    groups: list[JsonObject] = Field(default_factory=list)
    paused: bool = False
    template: JsonObject | None = None
    template_config_map: ConfigMapKey | None = None


DEFAULTS = Sizing.model_validate(
    {
        "resourcePercentages": {"requestCPU": 2, "requestMemory": 2, "limitCPU": 5, "limitMemory": 5},
        "minResources": {"cpu": "100m", "memory": "180Mi"},
        "maxResources": {"cpu": "2", "memory": "4Gi"},
        "goMemLimitPercent": 80,
    }
)


@dataclass(frozen=True)
class Autoscaler:
    spec: AutoscalerSpec
    selector: Selector
    overrides: Mapping[str | None, GroupSpec] = field(default_factory=dict)
    faults: Mapping[str | None, str] = field(default_factory=dict)
    """Of groups whose overrides cannot be used: only these wait."""
    complaint: str = ""
    """What cannot be used, as `field: problem`; nothing changes while there is something."""

    @property
    def has_default_group(self) -> bool:
        return self.spec.default_group == "Enabled"

    def of_group(self, value: str | None) -> GroupSpec:
        return self.overrides.get(value) or GroupSpec()

    def bounds(self, value: str | None) -> Bounds:
        return _bounds(DEFAULTS, self.spec, self.of_group(value))


def read_autoscaler(name: str, spec: Any) -> Autoscaler:
    """Fields that cannot be used get their defaults: a report needs some of the others."""
    given = {key: value for key, value in spec.items() if value is not None} if isinstance(spec, Mapping) else {}
    complaint = ""
    try:
        read = AutoscalerSpec.model_validate(given, strict=True)
    except ValidationError as error:
        complaint = wire.problem(error)
        usable = given.keys() - {str(fault["loc"][0]) for fault in error.errors()}
        read = AutoscalerSpec.model_validate({key: given[key] for key in usable}, strict=True)
    selector, trouble = _read_selector(read.node_selector)
    overrides, faults, odd = _read_groups(read)
    complaint = complaint or trouble or odd or _contradiction(name, read)
    return Autoscaler(read, selector, overrides, faults, complaint)


def _contradiction(name: str, spec: AutoscalerSpec) -> str:
    if len(name) > LONGEST_PREFIX:
        return f"metadata.name: longer than {LONGEST_PREFIX} characters, and it begins the names of the DaemonSets"
    if (spec.template is None) == (spec.template_config_map is None):
        return "template: give exactly one of template and templateConfigMap"
    return _disorder(_bounds(DEFAULTS, spec))


def _read_selector(raw: JsonObject | None) -> tuple[Selector, str]:
    try:
        return parse_selector(raw or {}), ""
    except InvalidSelector as error:
        return Selector(is_null=True), f"nodeSelector: {error}"


def _read_groups(
    spec: AutoscalerSpec,
) -> tuple[Mapping[str | None, GroupSpec], Mapping[str | None, str], str]:
    overrides: dict[str | None, GroupSpec] = {}
    faults: dict[str | None, str] = {}
    for index, raw in enumerate(spec.groups):
        given = dict(raw)
        value, is_default = given.pop("value", None), given.pop("default", False)
        if (value is None) is not (is_default is True) or not _is_label_value(value):
            return overrides, faults, f"groups.{index}: give either value, a label value, or default: true"
        if value in overrides or value in faults:
            return overrides, faults, f"groups.{index}: {show(value)} is there twice"
        try:
            read = _read_group(given)
        except ValidationError as error:
            faults[value] = f"groups.{index}.{wire.problem(error)}"
            continue
        except InvalidTemplate as error:
            faults[value] = f"groups.{index}.{error}"
            continue
        if disorder := _disorder(_bounds(DEFAULTS, spec, read)):
            faults[value] = f"groups.{index}.{disorder}"
        else:
            overrides[value] = read
    return overrides, faults, ""


def _read_group(given: JsonObject) -> GroupSpec:
    read = GroupSpec.model_validate(given, strict=True)
    check_env(read.env, "env")
    return read.model_copy(
        update={
            "tolerations": tidy(read.tolerations, "tolerations"),
            "update_strategy": tidy(read.update_strategy, "updateStrategy"),
            "env": tidy(read.env, "env"),
        }
    )


def _is_label_value(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not check_label_value(value))


def _bounds(*sizings: Sizing) -> Bounds:
    """Of each figure the last that is given."""

    def last(part: str, figure: str) -> Any:
        given = (getattr(getattr(sizing, part), figure) for sizing in reversed(sizings))
        return next(value for value in given if value is not None)

    shares, least, most = "resource_percentages", "min_resources", "max_resources"
    return Bounds(
        Percentages(
            request_cpu=last(shares, "request_cpu"),
            request_memory=last(shares, "request_memory"),
            limit_cpu=last(shares, "limit_cpu"),
            limit_memory=last(shares, "limit_memory"),
        ),
        least=Amount(last(least, "cpu"), last(least, "memory")),
        most=Amount(last(most, "cpu"), last(most, "memory")),
        go_mem_limit_percent=next(s.go_mem_limit_percent for s in reversed(sizings) if s.go_mem_limit_percent),
    )


def _disorder(bounds: Bounds) -> str:
    shares, least, most = bounds.percentages, bounds.least, bounds.most
    if shares.request_cpu > shares.limit_cpu:
        return "resourcePercentages: requestCPU is above limitCPU"
    if shares.request_memory > shares.limit_memory:
        return "resourcePercentages: requestMemory is above limitMemory"
    if least.cpu_milli > most.cpu_milli:
        return f"minResources: cpu {format_milli(least.cpu_milli)} is above maxResources {format_milli(most.cpu_milli)}"
    if least.memory_bytes > most.memory_bytes:
        return "minResources: memory is above maxResources"
    return ""
