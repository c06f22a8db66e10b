"""What the API server and the hook say of each NodeAgentAutoscaler: VERDICTS, which unit and end-to-end tests share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooks.kube.metadata import JsonObject

PROJECT = Path(__file__).resolve().parents[1]
CRD = PROJECT / "deploy" / "crds" / "nodeagentautoscalers.yaml"
API_VERSION = "autoscaling.node-agent.io/v1alpha1"
CONTAINER: JsonObject = {"name": "agent", "image": "example.com/agent:1"}
TEMPLATE: JsonObject = {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}
USABLE: JsonObject = {"template": TEMPLATE}
GROUP = "gpu"
"""The group of whose override a verdict is."""

# What the API server says
ONE_TEMPLATE = "give exactly one of template and templateConfigMap"
CPU = "must be a quantity above zero, such as 100m or 2"
MEMORY = "must be a quantity above zero and below 8Ei, such as 180Mi"
PATTERN = "in body should match"
DURATION = "must be a duration such as 90s, 5m or 1h30m (there are no days), not negative and at most ten years"
LABEL_KEY = "a label key is a name of at most 63 characters, after an optional DNS prefix and a slash"
VALUES_OR_NOT = "In and NotIn need values, Exists and DoesNotExist take none"
ONE_GROUP = "give either value, a label value, or default: true for nodes without the label"
ONCE = "each group is there once"
CPU_SHARES = "requestCPU must not be above limitCPU"
MEMORY_SHARES = "requestMemory must not be above limitMemory"
CPU_BOUNDS = "minResources.cpu must not be above maxResources.cpu"
MEMORY_BOUNDS = "minResources.memory must not be above maxResources.memory"

# What the hook says
NOT_A_PERCENTAGE = "must be a number above 0 and at most 100"
NOT_A_GROUP = "groups.0: give either value, a label value, or default: true"

# Why one of the two is stricter on purpose
PRUNED = "the hook never sees a field that the CRD does not know"
CEL_LIMIT = "a limit for the cost of CEL; the hook could serve more"
SIZE_LIMIT = "a limit for the size of the object; the hook could serve more"
ROUNDED = "the hook counts whole millicores and bytes, rounded up"
WHOLE_AND_GROUP = "the API server does not compare a group with what holds for all"
DEEP = "the CRD does not know the fields of a pod; the hook looks at those that it works with"
NO_SUCH_CONTAINER = "a name that no container can have is found when the DaemonSet is built"


@dataclass(frozen=True)
class Verdict:
    """What the API server and the hook say of a spec, each a part of its message; empty: it can be used."""

    spec: Any
    api: str = ""
    hook: str = ""
    """About the whole: nothing changes."""
    fault: str = ""
    """About the group GROUP alone: the others go on."""
    template: str = ""
    """About the template."""
    differ: str = ""
    """Why one of the two is stricter on purpose."""
    name: str = "verdict"

    @property
    def is_usable(self) -> bool:
        """To the hook."""
        return not (self.hook or self.fault or self.template)

    @property
    def autoscaler(self) -> JsonObject:
        return autoscaler(name=self.name, spec=self.spec)


def autoscaler(*, name: str = "verdict", namespace: str = "default", spec: Any = None) -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeAgentAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": USABLE if spec is None else spec,
    }


def given(**fields: Any) -> JsonObject:
    """A usable spec with these fields."""
    return USABLE | fields


def shares(**percentages: Any) -> JsonObject:
    return given(resourcePercentages=percentages)


def group(**fields: Any) -> JsonObject:
    """A usable spec with a group that differs in these fields."""
    return given(groups=[{"value": GROUP, **fields}])


def pod(**fields: Any) -> JsonObject:
    """A usable spec with these fields of the pod."""
    return {"template": {"spec": {"template": {"spec": {"containers": [CONTAINER], **fields}}}}}


def selecting(*expressions: JsonObject, **labels: Any) -> JsonObject:
    chosen = ({"matchLabels": labels} if labels else {}) | ({"matchExpressions": [*expressions]} if expressions else {})
    return given(nodeSelector=chosen)


def _share(value: Any, api: str) -> Verdict:
    """A percentage that neither takes."""
    hook = f"resourcePercentages.requestCPU: {NOT_A_PERCENTAGE}"
    return Verdict(shares(requestCPU=value), f"spec.resourcePercentages.requestCPU{api}", hook)


def _cpu(value: Any, api: str = CPU) -> Verdict:
    return Verdict(given(maxResources={"cpu": value}), api, "maxResources.cpu: ")


def _memory(value: Any, api: str = MEMORY) -> Verdict:
    return Verdict(given(maxResources={"memory": value}), api, "maxResources.memory: ")


def _label(key: Any, api: str = f"spec.nodeGroupLabel {PATTERN}") -> Verdict:
    return Verdict(given(nodeGroupLabel=key), api, "nodeGroupLabel: ")


def _selector(spec: JsonObject, api: str) -> Verdict:
    return Verdict(spec, api, "nodeSelector: ")


def _wait(text: str) -> Verdict:
    return Verdict(given(emptyGroupGracePeriod=text), DURATION, "emptyGroupGracePeriod: ")


def _groups(*groups: Any, api: str, hook: str = NOT_A_GROUP) -> Verdict:
    return Verdict(given(groups=[*groups]), api, hook)


def _fault(api: str, fault: str, **fields: Any) -> Verdict:
    """An override that neither takes: to the hook, only this group waits."""
    return Verdict(group(**fields), api, fault=f"groups.0.{fault}")


VERDICTS: dict[str, Verdict] = {
    "no more than a template": Verdict(USABLE),
    "every field": Verdict(
        {
            "template": {
                "metadata": {"labels": {"app": "agent"}, "annotations": {"note": "a"}},
                "spec": {
                    "selector": {"matchLabels": {"app": "agent"}},
                    "updateStrategy": {"type": "OnDelete"},
                    "template": {
                        "metadata": {"labels": {"app": "agent"}},
                        "spec": {"containers": [CONTAINER], "hostNetwork": True},
                    },
                },
            },
            "nodeGroupLabel": "cloud.example.com/node-pool",
            "nodeSelector": {"matchLabels": {"type": "worker"}},
            "defaultGroup": "Enabled",
            "resourcePercentages": {"requestCPU": 1, "requestMemory": 1.5, "limitCPU": 3, "limitMemory": 4.5},
            "minResources": {"cpu": "50m", "memory": "64Mi"},
            "maxResources": {"cpu": "4", "memory": "8Gi"},
            "goMemLimitPercent": 75,
            "container": "agent",
            "emptyGroupGracePeriod": "30m",
            "groups": [
                {
                    "value": GROUP,
                    "resourcePercentages": {"requestCPU": 2},
                    "minResources": {"cpu": "100m"},
                    "maxResources": {"memory": "16Gi"},
                    "goMemLimitPercent": 90,
                    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "priorityClassName": "system-node-critical",
                    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
                    "env": [{"name": "GPU", "value": "true"}],
                },
                {"default": True, "tolerations": [{"operator": "Exists"}]},
            ],
            "paused": True,
        }
    ),
    # Names
    "a name of 40 characters": Verdict(USABLE, name="x" * 40),
    "a name of 41 characters": Verdict(
        USABLE,
        "the name must not be longer than 40 characters",
        "metadata.name: longer than 40 characters",
        name="x" * 41,
    ),
    "a name with dots": Verdict(USABLE, name="agent.example"),
    # Templates
    "a template in a ConfigMap": Verdict({"templateConfigMap": {"name": "agent"}}),
    "a template under a key of its own": Verdict({"templateConfigMap": {"name": "agent", "key": "a.yaml"}}),
    "a template, and null for the other": Verdict(given(templateConfigMap=None)),
    "both templates": Verdict(given(templateConfigMap={"name": "agent"}), ONE_TEMPLATE, f"template: {ONE_TEMPLATE}"),
    "no template": Verdict({"paused": True}, ONE_TEMPLATE, f"template: {ONE_TEMPLATE}"),
    "no template but null": Verdict({"template": None}, ONE_TEMPLATE, f"template: {ONE_TEMPLATE}"),
    "a ConfigMap without a name": Verdict(
        {"templateConfigMap": {}}, "spec.templateConfigMap.name: Required value", "templateConfigMap.name: "
    ),
    "a ConfigMap with an empty name": Verdict(
        {"templateConfigMap": {"name": ""}},
        "spec.templateConfigMap.name in body should be at least 1 chars long",
        "templateConfigMap.name: ",
    ),
    "a ConfigMap with a name longer than any": Verdict(
        {"templateConfigMap": {"name": "x" * 254}}, "spec.templateConfigMap.name: Too long", "templateConfigMap.name: "
    ),
    "a ConfigMap as text": Verdict({"templateConfigMap": "agent"}, "spec.templateConfigMap", "templateConfigMap: "),
    "an empty key": Verdict(
        {"templateConfigMap": {"name": "agent", "key": ""}},
        "spec.templateConfigMap.key in body should be at least 1 chars long",
        "templateConfigMap.key: ",
    ),
    "a template that is text": Verdict({"template": "agent"}, "spec.template", "template: "),
    "an empty template": Verdict(
        {"template": {}}, "spec.template.spec: Required value", template="spec: is missing or empty"
    ),
    "a template without a pod": Verdict(
        {"template": {"spec": {}}}, "spec.template.spec.template: Required value", template="spec: is missing or empty"
    ),
    "a template of a pod without spec": Verdict(
        {"template": {"spec": {"template": {}}}},
        "spec.template.spec.template.spec: Required value",
        template="spec.template: is missing or empty",
    ),
    "a pod without containers": Verdict(
        {"template": {"spec": {"template": {"spec": {"hostNetwork": True}}}}},
        "spec.template.spec.template.spec.containers: Required value",
        template="spec.template.spec.containers: is missing or empty",
    ),
    "a pod with no container": Verdict(
        pod(containers=[]),
        "should have at least 1 items",
        template="spec.template.spec.containers: is missing or empty",
    ),
    "a container without a name": Verdict(
        pod(containers=[{"image": "a"}]),
        "containers[0].name: Required value",
        template="spec.template.spec.containers[0]: has no name",
    ),
    "a container that is text": Verdict(
        pod(containers=["agent"]), "containers[0]", template="spec.template.spec.containers[0]: has no name"
    ),
    "50 containers": Verdict(pod(containers=[{"name": f"c{number}"} for number in range(50)])),
    "51 containers": Verdict(
        pod(containers=[{"name": f"c{number}"} for number in range(51)]), "Too many: 51", differ=SIZE_LIMIT
    ),
    "a template with a name": Verdict(
        {"template": TEMPLATE | {"metadata": {"name": "agent"}}},
        'strict decoding error: unknown field "spec.template.metadata.name"',
        differ=PRUNED,
    ),
    "a whole DaemonSet": Verdict(
        {"template": TEMPLATE | {"apiVersion": "apps/v1", "kind": "DaemonSet"}},
        'strict decoding error: unknown field "spec.template.apiVersion", unknown field "spec.template.kind"',
        differ=PRUNED,
    ),
    "a label that is a number": Verdict(
        {"template": TEMPLATE | {"metadata": {"labels": {"tier": 1}}}},
        "spec.template.metadata.labels.tier",
        template="metadata.labels: must hold strings only",
    ),
    "a variable of the template that is a number": Verdict(
        pod(containers=[CONTAINER | {"env": [{"name": "LEVEL", "value": 1}]}]),
        template='spec.template.spec.containers[0].env: the value of "LEVEL" must be a string',
        differ=DEEP,
    ),
    "two containers of one name": Verdict(
        pod(containers=[CONTAINER, CONTAINER]), template='two items have the name "agent"', differ=DEEP
    ),
    "a quantity of the template that is none": Verdict(
        pod(containers=[CONTAINER | {"resources": {"limits": {"example.com/gpu": "one"}}}]),
        template="resources.limits.example.com/gpu: ",
        differ=DEEP,
    ),
    "tolerations that are no list": Verdict(
        pod(tolerations={"operator": "Exists"}), template="tolerations: has the wrong type", differ=DEEP
    ),
    "a template of more than 64 KiB": Verdict(
        pod(containers=[CONTAINER | {"args": ["x" * 65536]}]), template="larger than 64 KiB as JSON", differ=DEEP
    ),
    # Percentages
    "percentages with fractions": Verdict(shares(requestCPU=0.25, requestMemory=2.5, limitMemory=99.9)),
    "percentages of 100": Verdict(shares(requestCPU=100, requestMemory=100, limitCPU=100, limitMemory=100)),
    "some percentages": Verdict(shares(limitCPU=2)),
    "no percentages": Verdict(given(resourcePercentages={})),
    "null percentages": Verdict(given(resourcePercentages=None)),
    "a percentage that is null": Verdict(shares(requestCPU=None)),
    "a percentage of 0": _share(0, " in body should be greater than 0"),
    "a percentage of -1": _share(-1, " in body should be greater than 0"),
    "a percentage of 100.5": _share(100.5, " in body should be less than or equal to 100"),
    "a percentage that is text": _share("2", " in body must be of type number"),
    "a percentage that is true": _share(True, " in body must be of type number"),
    "a misspelt percentage": Verdict(
        shares(requestCpu=3), 'unknown field "spec.resourcePercentages.requestCpu"', differ=PRUNED
    ),
    "a CPU request above its limit": Verdict(
        shares(requestCPU=6, limitCPU=5.5), CPU_SHARES, "resourcePercentages: requestCPU is above limitCPU"
    ),
    "a CPU request above the limit that is the default": Verdict(
        shares(requestCPU=6), CPU_SHARES, "resourcePercentages: requestCPU is above limitCPU"
    ),
    "a CPU limit below the request that is the default": Verdict(
        shares(limitCPU=1.5), CPU_SHARES, "resourcePercentages: requestCPU is above limitCPU"
    ),
    "a memory request above its limit": Verdict(
        shares(requestMemory=10, limitMemory=9.99), MEMORY_SHARES, "resourcePercentages: requestMemory is above"
    ),
    "a request at its limit": Verdict(shares(requestCPU=5, limitCPU=5.0)),
    "GOMEMLIMIT of 100 percent": Verdict(given(goMemLimitPercent=100)),
    "GOMEMLIMIT of 0 percent": Verdict(
        given(goMemLimitPercent=0), "goMemLimitPercent in body should be greater than 0", "goMemLimitPercent: "
    ),
    "GOMEMLIMIT of 101 percent": Verdict(
        given(goMemLimitPercent=101), "goMemLimitPercent in body should be less than or equal", "goMemLimitPercent: "
    ),
    # Bounds
    "bounds that are numbers": Verdict(
        given(minResources={"cpu": 1, "memory": 1}, maxResources={"cpu": 2, "memory": 2})
    ),
    "bounds in other notations": Verdict(
        given(minResources={"cpu": "+.1", "memory": "1e6"}, maxResources={"cpu": "1500e-3", "memory": "1.5G"})
    ),
    "equal bounds in other words": Verdict(
        given(minResources={"cpu": "2000m", "memory": "4096Mi"}, maxResources={"cpu": "2", "memory": "4Gi"})
    ),
    "less than a millicore and a byte are rounded up": Verdict(given(minResources={"cpu": "1n", "memory": "1m"})),
    "a million cores": Verdict(given(maxResources={"cpu": "1M"})),
    "7Ei": Verdict(given(maxResources={"memory": "7Ei"})),
    "CPU of 0": _cpu("0"),
    "CPU of 0 as a number": _cpu(0),
    "negative CPU": _cpu("-1"),
    "negative CPU as a number": _cpu(-1),
    "CPU that is no number": _cpu("many", f"spec.maxResources.cpu {PATTERN}"),
    "empty CPU": _cpu("", f"spec.maxResources.cpu {PATTERN}"),
    "CPU with an unknown suffix": _cpu("2cores", f"spec.maxResources.cpu {PATTERN}"),
    "more than a million cores": _cpu("1000001"),
    "a fraction of a core as a number": _cpu(0.5, "spec.maxResources.cpu"),
    "CPU that is true": _cpu(True, "spec.maxResources.cpu"),
    "memory of 0": _memory("0Gi"),
    "memory of 0 as a number": _memory(0),
    "negative memory": _memory("-1Gi"),
    "negative memory as a number": _memory(-1),
    "memory that is no number": _memory("much", f"spec.maxResources.memory {PATTERN}"),
    "memory with a space": _memory("4 Gi", f"spec.maxResources.memory {PATTERN}"),
    "memory in GB": _memory("4GB", f"spec.maxResources.memory {PATTERN}"),
    "memory with a fraction in the exponent": _memory("1e1.5"),
    "memory of 8Ei": _memory("8Ei"),
    "memory that Go stores as another": _memory("1000E"),
    "memory of 33 characters": Verdict(
        given(maxResources={"memory": "0" * 30 + "4Gi"}), "spec.maxResources.memory: Too long", differ=CEL_LIMIT
    ),
    "a least that is no quantity": Verdict(
        given(minResources={"cpu": "x"}), f"spec.minResources.cpu {PATTERN}", "minResources.cpu: "
    ),
    "least CPU above the most": Verdict(
        given(minResources={"cpu": "1"}, maxResources={"cpu": "999m"}),
        CPU_BOUNDS,
        "minResources: cpu 1 is above maxResources 999m",
    ),
    "least CPU above the most that is the default": Verdict(
        given(minResources={"cpu": 3}), CPU_BOUNDS, "minResources: cpu 3 is above maxResources 2"
    ),
    "most CPU below the least that is the default": Verdict(
        given(maxResources={"cpu": "50m"}), CPU_BOUNDS, "minResources: cpu 100m is above maxResources 50m"
    ),
    "least CPU above the most by less than a millicore": Verdict(
        given(minResources={"cpu": "100.5m"}, maxResources={"cpu": "100.1m"}), CPU_BOUNDS, differ=ROUNDED
    ),
    "least memory above the most": Verdict(
        given(minResources={"memory": "2Gi"}, maxResources={"memory": "1Gi"}),
        MEMORY_BOUNDS,
        "minResources: memory is above maxResources",
    ),
    "least memory above the most that is the default": Verdict(
        given(minResources={"memory": "4097Mi"}), MEMORY_BOUNDS, "minResources: memory is above maxResources"
    ),
    "another resource": Verdict(
        given(maxResources={"storage": "1Gi"}), 'unknown field "spec.maxResources.storage"', differ=PRUNED
    ),
    # Which nodes, and how they are grouped
    "a label without a prefix": Verdict(given(nodeGroupLabel="pool")),
    "the longest label key": Verdict(given(nodeGroupLabel="a" * 253 + "/" + "b" * 63)),
    "an empty label key": _label("", "spec.nodeGroupLabel in body should be at least 1 chars long"),
    "a label key with a space": _label("node pool"),
    "a label key with two slashes": _label("a/b/c"),
    "a label key with nothing before the slash": _label("/pool"),
    "a label key with nothing after the slash": _label("example.com/"),
    "a label key with capitals in its prefix": _label("Example.com/pool"),
    "a label key that ends in a dot": _label("pool."),
    "a label key that ends in a line": _label("pool\n"),
    "a label name of 64 characters": _label("b" * 64),
    "a label prefix of 254 characters": _label("a" * 254 + "/b", LABEL_KEY),
    "a label key of 318 characters": _label("a" * 254 + "/" + "b" * 63, "spec.nodeGroupLabel: Too long"),
    "a label key that is a number": _label(5, "spec.nodeGroupLabel"),
    "nodes by label": Verdict(given(nodeSelector={"matchLabels": {"example.com/type": "worker", "empty": ""}})),
    "an empty selector selects every node": Verdict(given(nodeSelector={})),
    "a null selector selects every node": Verdict(given(nodeSelector=None)),
    "all four operators": Verdict(
        selecting(
            {"key": "c", "operator": "In", "values": ["1", ""]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": []},
            app="db",
        )
    ),
    "an operator in lower case": _selector(
        selecting({"key": "c", "operator": "in", "values": ["d"]}), 'operator: Unsupported value: "in"'
    ),
    "an operator that only node affinity has": _selector(
        selecting({"key": "c", "operator": "Gt", "values": ["5"]}), 'operator: Unsupported value: "Gt"'
    ),
    "an expression without an operator": _selector(selecting({"key": "c"}), "operator: Required value"),
    "an expression without a key": _selector(selecting({"operator": "Exists"}), "key: Required value"),
    "In without values": _selector(selecting({"key": "c", "operator": "In"}), VALUES_OR_NOT),
    "NotIn with no values": _selector(selecting({"key": "c", "operator": "NotIn", "values": []}), VALUES_OR_NOT),
    "Exists with values": _selector(selecting({"key": "c", "operator": "Exists", "values": ["d"]}), VALUES_OR_NOT),
    "an expression key that is no label key": _selector(
        selecting({"key": "c d", "operator": "Exists"}), f"matchExpressions[0].key {PATTERN}"
    ),
    "an expression key with a prefix of 254 characters": _selector(
        selecting({"key": "a" * 254 + "/b", "operator": "Exists"}), LABEL_KEY
    ),
    "a value that no label has": _selector(
        selecting({"key": "c", "operator": "In", "values": ["d e"]}), f"values[0] {PATTERN}"
    ),
    "a matchLabels key that is no label key": _selector(given(nodeSelector={"matchLabels": {"-": "d"}}), LABEL_KEY),
    "a matchLabels value that no label has": _selector(selecting(c="d e"), f"matchLabels.c {PATTERN}"),
    "a matchLabels value that is a number": _selector(selecting(c=5), "matchLabels.c"),
    "a misspelt selector": _selector(
        given(nodeSelector={"matchLabel": {"a": "b"}}), 'unknown field "spec.nodeSelector.matchLabel"'
    ),
    "a selector that is text": Verdict(given(nodeSelector="all"), "spec.nodeSelector", "nodeSelector: "),
    "more labels than 16": Verdict(
        selecting(**{f"l{number}": "" for number in range(17)}), "must have at most 16 items", differ=CEL_LIMIT
    ),
    "another word for defaultGroup": Verdict(
        given(defaultGroup="On"), 'spec.defaultGroup: Unsupported value: "On"', "defaultGroup: "
    ),
    "defaultGroup in lower case": Verdict(
        given(defaultGroup="enabled"), 'spec.defaultGroup: Unsupported value: "enabled"', "defaultGroup: "
    ),
    "defaultGroup true": Verdict(given(defaultGroup=True), "spec.defaultGroup", "defaultGroup: "),
    # Durations
    "a day": Verdict(given(emptyGroupGracePeriod="24h")),
    "no grace period": Verdict(given(emptyGroupGracePeriod="0s")),
    "no grace period without a unit": Verdict(given(emptyGroupGracePeriod="0")),
    "a grace period in many units": Verdict(given(emptyGroupGracePeriod="+1h.5m1.5s1ms1µs1μs1us1ns")),
    "exactly ten years": Verdict(given(emptyGroupGracePeriod="87600h")),
    "a nanosecond above ten years": _wait("87600h1ns"),
    "a hundred years": _wait("876000h"),
    "more than Go can hold": _wait("9999999999999999999h"),
    "days": _wait("1d"),
    "a negative grace period": _wait("-1s"),
    "a number without a unit": _wait("60"),
    "an empty duration": _wait(""),
    "a duration with a space": _wait("1h 30m"),
    "a duration that is no number": _wait("long"),
    "a duration that is a number": Verdict(
        given(emptyGroupGracePeriod=60), "spec.emptyGroupGracePeriod", "emptyGroupGracePeriod: "
    ),
    "a duration of 33 characters": Verdict(
        given(emptyGroupGracePeriod="0" * 31 + "1h"), "spec.emptyGroupGracePeriod: Too long", differ=CEL_LIMIT
    ),
    # Groups
    "no groups": Verdict(given(groups=[])),
    "null groups": Verdict(given(groups=None)),
    "a group of its own": Verdict(group()),
    "the group of nodes whose label is empty": Verdict(given(groups=[{"value": ""}])),
    "the group of nodes without the label": Verdict(given(groups=[{"default": True}])),
    "the empty label and none are two groups": Verdict(given(groups=[{"value": ""}, {"default": True}])),
    "a value that is not the default": Verdict(group(default=False)),
    "a group with value and default": _groups({"value": "a", "default": True}, api=ONE_GROUP),
    "a group with neither": _groups({}, api=ONE_GROUP),
    "a group that is not the default, either": _groups({"default": False}, api=ONE_GROUP),
    "a group whose value is null": _groups({"value": None}, api=ONE_GROUP),
    "a group whose value is a number": _groups({"value": 5}, api="spec.groups[0].value"),
    "a group whose value no label has": _groups({"value": "a b"}, api=f"spec.groups[0].value {PATTERN}"),
    "a group whose value is too long": _groups({"value": "x" * 64}, api="spec.groups[0].value: Too long"),
    "a group that is text": _groups("a", api="spec.groups[0]", hook="groups.0: "),
    "groups that are no list": Verdict(given(groups={"value": "a"}), "spec.groups", "groups: "),
    "the same group twice": _groups(
        {"value": "a"}, {"value": "b"}, {"value": "a"}, api=ONCE, hook='groups.2: "a" is there twice'
    ),
    "the default group twice": _groups(
        {"default": True}, {"default": True}, api=ONCE, hook="groups.1: nodes without the label is there twice"
    ),
    "100 groups": Verdict(given(groups=[{"value": f"g{number}"} for number in range(100)])),
    "101 groups": Verdict(
        given(groups=[{"value": f"g{number}"} for number in range(101)]), "Too many: 101", differ=CEL_LIMIT
    ),
    "a misspelt field of a group": Verdict(
        group(toleration=[]), 'unknown field "spec.groups[0].toleration"', differ=PRUNED
    ),
    "a percentage of 0 in a group": _fault(
        "spec.groups[0].resourcePercentages.limitCPU in body should be greater than 0",
        "resourcePercentages.limitCPU: ",
        resourcePercentages={"limitCPU": 0},
    ),
    "GOMEMLIMIT of 101 percent in a group": _fault(
        "spec.groups[0].goMemLimitPercent in body should be less", "goMemLimitPercent: ", goMemLimitPercent=101
    ),
    "a quantity of 0 in a group": _fault(CPU, "minResources.cpu: ", minResources={"cpu": 0}),
    "a quantity that is none in a group": _fault(
        f"spec.groups[0].maxResources.memory {PATTERN}", "maxResources.memory: ", maxResources={"memory": "big"}
    ),
    "a request above its limit in a group": _fault(
        CPU_SHARES,
        "resourcePercentages: requestCPU is above limitCPU",
        resourcePercentages={"requestCPU": 10, "limitCPU": 9},
    ),
    "a memory request above its limit in a group": _fault(
        MEMORY_SHARES,
        "resourcePercentages: requestMemory is above limitMemory",
        resourcePercentages={"requestMemory": 10, "limitMemory": 9},
    ),
    "least CPU above the most in a group": _fault(
        CPU_BOUNDS, "minResources: cpu 3 is above", minResources={"cpu": "3"}, maxResources={"cpu": 2}
    ),
    "least memory above the most in a group": _fault(
        MEMORY_BOUNDS, "minResources: memory is", minResources={"memory": "3Gi"}, maxResources={"memory": "2Gi"}
    ),
    "a request of a group above the limit for all": Verdict(
        group(resourcePercentages={"requestMemory": 6}),
        fault="groups.0.resourcePercentages: requestMemory is above limitMemory",
        differ=WHOLE_AND_GROUP,
    ),
    "a limit of a group below the request for all": Verdict(
        shares(requestCPU=4) | {"groups": [{"value": GROUP, "resourcePercentages": {"limitCPU": 3}}]},
        fault="groups.0.resourcePercentages: requestCPU is above limitCPU",
        differ=WHOLE_AND_GROUP,
    ),
    "a least of a group above the most for all": Verdict(
        group(minResources={"cpu": "3"}),
        fault="groups.0.minResources: cpu 3 is above maxResources 2",
        differ=WHOLE_AND_GROUP,
    ),
    "a most of a group below the least for all": Verdict(
        group(maxResources={"memory": "100Mi"}),
        fault="groups.0.minResources: memory is above maxResources",
        differ=WHOLE_AND_GROUP,
    ),
    "a variable that comes from elsewhere": Verdict(
        group(env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])
    ),
    "a variable without a name": _fault(
        "spec.groups[0].env[0].name: Required value", "env: is not a list of names and values", env=[{"value": "1"}]
    ),
    "a variable with an empty name": _fault(
        "spec.groups[0].env[0].name in body should be at least 1 chars long",
        "env: is not a list of names and values",
        env=[{"name": "", "value": "1"}],
    ),
    "a variable that is a number": _fault(
        "spec.groups[0].env[0].value",
        'env: the value of "LEVEL" must be a string; put it in quotes',
        env=[{"name": "LEVEL", "value": 1}],
    ),
    "a variable twice": _fault(
        "spec.groups[0].env[1]: Duplicate value",
        'env: two items have the name "A"',
        env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
    ),
    "variables as a map": _fault("spec.groups[0].env", "env: ", env={"A": "1"}),
    "a toleration that is text": _fault("spec.groups[0].tolerations[0]", "tolerations", tolerations=["Exists"]),
    "a toleration with a fraction": Verdict(
        group(tolerations=[{"operator": "Exists", "tolerationSeconds": 1.5}]),
        fault="groups.0.tolerations[0].tolerationSeconds: 1.5 is not a whole number",
        differ=DEEP,
    ),
    "a priority class that is a number": _fault(
        "spec.groups[0].priorityClassName", "priorityClassName: ", priorityClassName=5
    ),
    "an update strategy that is text": _fault(
        "spec.groups[0].updateStrategy", "updateStrategy: ", updateStrategy="OnDelete"
    ),
    "an update strategy with a fraction": Verdict(
        group(updateStrategy={"rollingUpdate": {"maxUnavailable": 0.1}}),
        fault="groups.0.updateStrategy.rollingUpdate.maxUnavailable: 0.1 is not a whole number",
        differ=DEEP,
    ),
    # The rest
    "a container by name": Verdict(given(container="agent")),
    "a container that is a number": Verdict(given(container=5), "spec.container", "container: "),
    "a container of 64 characters": Verdict(
        given(container="x" * 64), "spec.container: Too long", differ=NO_SUCH_CONTAINER
    ),
    "not paused": Verdict(given(paused=False)),
    "paused as text": Verdict(given(paused="true"), "spec.paused", "paused: "),
    "paused as a number": Verdict(given(paused=1), "spec.paused", "paused: "),
    "a misspelt field": Verdict(
        given(nodeGroupLable="pool"), 'strict decoding error: unknown field "spec.nodeGroupLable"', differ=PRUNED
    ),
    "a field in snake case": Verdict(
        given(default_group="Enabled"), 'strict decoding error: unknown field "spec.default_group"', differ=PRUNED
    ),
    "an empty spec": Verdict({}, ONE_TEMPLATE, f"template: {ONE_TEMPLATE}"),
    "a spec that is text": Verdict("all", "spec", f"template: {ONE_TEMPLATE}"),
}
