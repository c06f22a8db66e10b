"""What the API server and the hook say of each VolumeAutoscaler: VERDICTS, which unit and end-to-end tests share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooks.kube.metadata import JsonObject

PROJECT = Path(__file__).resolve().parents[1]
API_VERSION = "autoscaling.volume-autoscaler.io/v1alpha1"
USABLE: JsonObject = {"target": {"pvcName": "data"}, "maxSize": "100Gi"}

# What the API server says
ONE_TARGET = "give exactly one of pvcName and selector"
SIZE = "must be a quantity above zero and below 8Ei, such as 100Gi"
PATTERN = "in body should match"
DURATION = "must be a duration such as 90s, 5m or 1h30m (there are no days)"
POLL = f"{DURATION}, at least 10s and at most ten years"
COOLDOWN = f"{DURATION}, not negative and at most ten years"
WINDOW = f"{DURATION}, above zero and at most ten years"
ORDER = "increaseMinimum must not be above increaseMaximum"
URL = "must be an http or https URL without user name, query and fragment"
LABEL_KEY = "a label key is a name of at most 63 characters, after an optional DNS prefix and a slash"
VALUES_OR_NOT = "In and NotIn need values, Exists and DoesNotExist take none"

# Why one of the two is stricter on purpose
PRUNED = "the hook never sees a field that the CRD does not know"
NO_SUCH_CLAIM = "a name that no claim can have selects none"
CEL_LIMIT = "a limit for the cost of CEL; the hook could serve more"
NO_URL = "to the hook, an empty URL is none"


@dataclass(frozen=True)
class Verdict:
    """What the API server and the hook say of a spec, each a part of its message; empty: it can be used."""

    spec: Any
    api: str = ""
    hook: str = ""
    differ: str = ""
    """Why one of the two is stricter on purpose."""

    @property
    def autoscaler(self) -> JsonObject:
        return autoscaler(spec=self.spec)


def autoscaler(*, name: str = "verdict", namespace: str = "default", spec: Any = None) -> JsonObject:
    return {
        "apiVersion": API_VERSION,
        "kind": "VolumeAutoscaler",
        "metadata": {"name": name, "namespace": namespace},
        "spec": USABLE if spec is None else spec,
    }


def given(**fields: Any) -> JsonObject:
    """A usable spec with these fields."""
    return USABLE | fields


def lacking(field: str) -> JsonObject:
    return {key: value for key, value in USABLE.items() if key != field}


def selecting(*expressions: JsonObject, **labels: str) -> JsonObject:
    selector = ({"matchLabels": labels} if labels else {}) | (
        {"matchExpressions": [*expressions]} if expressions else {}
    )
    return given(target={"selector": selector})


def budget(**fields: Any) -> JsonObject:
    return given(resizeBudget={"count": 4, "window": "24h"} | fields)


def _size(value: Any) -> Verdict:
    """A maxSize that neither takes."""
    return Verdict(given(maxSize=value), SIZE, "maxSize: ")


def _poll(text: str) -> Verdict:
    return Verdict(given(pollInterval=text), POLL, "pollInterval: ")


def _url(url: str) -> Verdict:
    return Verdict(given(prometheusURL=url), URL, "prometheusURL: ")


def _label(selector: JsonObject, api: str) -> Verdict:
    return Verdict(given(target={"selector": selector}), api, "target.selector: ")


def _out_of(field: str, value: int, api: str) -> Verdict:
    return Verdict(given(**{field: value}), f"spec.{field} in body should be {api}", f"{field}: ")


VERDICTS: dict[str, Verdict] = {
    # Targets
    "a claim by name": Verdict(USABLE),
    "a claim whose name has dots": Verdict(given(target={"pvcName": "data.web-0.example"})),
    "claims by label": Verdict(selecting(app="db")),
    "a label key with a prefix": Verdict(
        given(target={"selector": {"matchLabels": {"cnpg.io/cluster": "harbor-pg", "empty": ""}}})
    ),
    "an empty selector selects every claim": Verdict(selecting()),
    "all four operators": Verdict(
        selecting(
            {"key": "c", "operator": "In", "values": ["1", ""]},
            {"key": "d", "operator": "NotIn", "values": ["1"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": []},
            app="db",
        )
    ),
    "null counts as not given": Verdict(
        {"target": {"pvcName": "data", "selector": None}, "maxSize": "1Gi", "increaseMinimum": None}
    ),
    "no target": Verdict(lacking("target"), "spec.target: Required value", "target: "),
    "an empty target": Verdict(given(target={}), ONE_TARGET, "target: give exactly one of pvcName and selector"),
    "a name and a selector": Verdict(
        given(target={"pvcName": "data", "selector": {}}),
        ONE_TARGET,
        "target: give exactly one of pvcName and selector",
    ),
    "neither, but nulls": Verdict(
        given(target={"pvcName": None, "selector": None}),
        ONE_TARGET,
        "target: give exactly one of pvcName and selector",
    ),
    "a target that is text": Verdict(given(target="data"), "spec.target", "target: "),
    "an empty name": Verdict(
        given(target={"pvcName": ""}), "spec.target.pvcName in body should be at least 1 chars long", "target.pvcName: "
    ),
    "a name that is a number": Verdict(
        given(target={"pvcName": 5}), "spec.target.pvcName: Invalid value", "target.pvcName: "
    ),
    "a name longer than any claim's": Verdict(
        given(target={"pvcName": "x" * 254}), "spec.target.pvcName: Too long", "target.pvcName: "
    ),
    "a name in capitals": Verdict(
        given(target={"pvcName": "Data"}), f"spec.target.pvcName {PATTERN}", differ=NO_SUCH_CLAIM
    ),
    "a name with a wildcard": Verdict(
        given(target={"pvcName": "data-*"}), f"spec.target.pvcName {PATTERN}", differ=NO_SUCH_CLAIM
    ),
    "an operator in lower case": _label(
        {"matchExpressions": [{"key": "c", "operator": "in", "values": ["d"]}]}, 'operator: Unsupported value: "in"'
    ),
    "In without values": _label({"matchExpressions": [{"key": "c", "operator": "In"}]}, VALUES_OR_NOT),
    "Exists with values": _label(
        {"matchExpressions": [{"key": "c", "operator": "Exists", "values": ["d"]}]}, VALUES_OR_NOT
    ),
    "an expression without a key": _label({"matchExpressions": [{"operator": "Exists"}]}, "key: Required value"),
    "an expression key that is no label key": _label(
        {"matchExpressions": [{"key": "c d", "operator": "Exists"}]}, f"matchExpressions[0].key {PATTERN}"
    ),
    "a value that no label has": _label(
        {"matchExpressions": [{"key": "c", "operator": "In", "values": ["d e"]}]}, f"values[0] {PATTERN}"
    ),
    "a matchLabels key that is no label key": _label({"matchLabels": {"-": "d"}}, LABEL_KEY),
    "a matchLabels value that no label has": _label({"matchLabels": {"c": "d e"}}, f"matchLabels.c {PATTERN}"),
    "a matchLabels value that is a number": _label({"matchLabels": {"c": 5}}, "matchLabels.c: Invalid value"),
    "a misspelt selector": _label(
        {"matchLabel": {"app": "db"}}, 'strict decoding error: unknown field "spec.target.selector.matchLabel"'
    ),
    "more labels than 16": Verdict(
        given(target={"selector": {"matchLabels": {f"l{number}": "" for number in range(17)}}}),
        "matchLabels: Too many: 17: must have at most 16 items",
        differ=CEL_LIMIT,
    ),
    # Fields
    "every field": Verdict(
        {
            "target": {"selector": {}},
            "mode": "Observe",
            "thresholdPercent": 1,
            "inodeThresholdPercent": 99,
            "maxSize": "2Ti",
            "increasePercent": 100,
            "increaseMinimum": "10Gi",
            "increaseMaximum": "10Gi",
            "pollInterval": "10s",
            "cooldownPeriod": "0s",
            "resizeBudget": {"count": 10, "window": "168h"},
            "onMetricsLost": "StepOnce",
            "prometheusURL": "https://thanos.monitoring.svc:9090/prefix/",
        }
    ),
    "a misspelt field": Verdict(
        given(treshold=90), 'strict decoding error: unknown field "spec.treshold"', differ=PRUNED
    ),
    "a field in snake case": Verdict(
        given(max_size="1Gi"), 'strict decoding error: unknown field "spec.max_size"', differ=PRUNED
    ),
    "the highest threshold": Verdict(given(thresholdPercent=99)),
    "a threshold of 0": _out_of("thresholdPercent", 0, "greater than or equal to 1"),
    "a threshold of 100": _out_of("thresholdPercent", 100, "less than or equal to 99"),
    "a threshold that is text": Verdict(
        given(thresholdPercent="80"), "spec.thresholdPercent: Invalid value", "thresholdPercent: "
    ),
    "a threshold with a fraction": Verdict(
        given(thresholdPercent=79.5), "spec.thresholdPercent: Invalid value", "thresholdPercent: "
    ),
    "an inode threshold of -1": _out_of("inodeThresholdPercent", -1, "greater than or equal to 0"),
    "an inode threshold of 100": _out_of("inodeThresholdPercent", 100, "less than or equal to 99"),
    "a step of 0 percent": _out_of("increasePercent", 0, "greater than or equal to 1"),
    "a step of 101 percent": _out_of("increasePercent", 101, "less than or equal to 100"),
    "another mode": Verdict(given(mode="Off"), 'spec.mode: Unsupported value: "Off"', "mode: "),
    "a mode in lower case": Verdict(given(mode="observe"), 'spec.mode: Unsupported value: "observe"', "mode: "),
    "another reaction to lost metrics": Verdict(
        given(onMetricsLost="Grow"), 'spec.onMetricsLost: Unsupported value: "Grow"', "onMetricsLost: "
    ),
    # Sizes
    "a size in bytes": Verdict(given(maxSize=107374182400)),
    "a size in bytes as text": Verdict(given(maxSize="107374182400")),
    "a size with a fraction": Verdict(given(maxSize="1.5Gi")),
    "a size with nothing before the point": Verdict(given(maxSize=".5Gi")),
    "a decimal size": Verdict(given(maxSize="100G")),
    "a size with an exponent": Verdict(given(maxSize="1e12")),
    "a size with a plus": Verdict(given(maxSize="+100Gi")),
    "a large size": Verdict(given(maxSize="10000Ti")),
    "the largest whole exbibytes": Verdict(given(maxSize="7Ei")),
    "less than a byte is rounded up": Verdict(given(maxSize="100m")),
    "no size": Verdict(lacking("maxSize"), "spec.maxSize: Required value", "maxSize: Field required"),
    "a size of 0": _size("0"),
    "a size of 0 in bytes": _size(0),
    "a size of 0Gi": _size("0Gi"),
    "a negative size": _size("-100Gi"),
    "a negative size in bytes": _size(-1),
    "an unknown suffix": _size("100GB"),
    "a suffix in lower case": _size("100gi"),
    "a space before the size": _size(" 100Gi"),
    "a space before the suffix": _size("100 Gi"),
    "an empty size": _size(""),
    "a suffix alone": _size("Gi"),
    "an exponent with a fraction": _size("1e1.5"),
    "a size that is no number": _size("large"),
    "a size that Go stores as another": _size("1000E"),
    "a size of 8Ei": Verdict(given(maxSize="8Ei"), SIZE, "maxSize: "),
    "a size of 9Ei": Verdict(given(maxSize="9Ei"), SIZE, "maxSize: "),
    "a size with an exponent of 50": Verdict(given(maxSize="1e50"), SIZE, "maxSize: "),
    "a size of 33 characters": Verdict(given(maxSize="0" * 30 + "1Gi"), "spec.maxSize: Too long", differ=CEL_LIMIT),
    "a size that is true": Verdict(given(maxSize=True), "spec.maxSize", "maxSize: "),
    "a size that is a fraction": Verdict(given(maxSize=1.5), "spec.maxSize", "maxSize: "),
    "a size that is a list": Verdict(given(maxSize=["1Gi"]), "spec.maxSize", "maxSize: "),
    "a smallest step of 0": Verdict(given(increaseMinimum="0"), SIZE, "increaseMinimum: "),
    "a smallest step that is no size": Verdict(given(increaseMinimum="1 Gi"), SIZE, "increaseMinimum: "),
    "a largest step below zero": Verdict(given(increaseMaximum="-1Gi"), SIZE, "increaseMaximum: "),
    "equal steps in other words": Verdict(given(increaseMinimum="1024Mi", increaseMaximum="1Gi")),
    "steps in bytes": Verdict(given(increaseMinimum=1, increaseMaximum=2)),
    "a largest step below the smallest of the code": Verdict(given(increaseMaximum="500Mi")),
    "a smallest step above the largest": Verdict(
        given(increaseMinimum="2Gi", increaseMaximum="1Gi"), ORDER, "increaseMinimum: 2Gi is above increaseMaximum 1Gi"
    ),
    "a smallest step above the largest in bytes": Verdict(
        given(increaseMinimum="1Gi", increaseMaximum=1), ORDER, "increaseMinimum: 1Gi is above increaseMaximum 1"
    ),
    # Durations
    "minutes and seconds": Verdict(given(pollInterval="1m30s", cooldownPeriod="1h30m")),
    "a fraction of an hour": Verdict(given(pollInterval=".5h", cooldownPeriod="1.5h")),
    "micro in both letters": Verdict(given(cooldownPeriod="1µs1μs1us")),
    "a plus sign": Verdict(given(pollInterval="+60s")),
    "no cooldown": Verdict(given(cooldownPeriod="0")),
    "no cooldown with a minus sign": Verdict(given(cooldownPeriod="-0s")),
    "exactly ten years": Verdict(given(pollInterval="87600h", cooldownPeriod="87600h")),
    "exactly ten seconds": Verdict(given(pollInterval="10000ms")),
    "9.999 seconds": _poll("9999ms"),
    "no poll interval": _poll("0s"),
    "a negative poll interval": _poll("-60s"),
    "days": _poll("1d"),
    "a number without a unit": _poll("60"),
    "an empty duration": _poll(""),
    "a duration with a space": _poll("1m 30s"),
    "a unit in capitals": _poll("60S"),
    "an ISO duration": _poll("PT1M"),
    "a duration that is no number": _poll("often"),
    "above ten years": _poll("87600h1s"),
    "more than Go can hold": _poll("9999999999999999999h"),
    "a duration that is a number": Verdict(
        given(pollInterval=60), "spec.pollInterval: Invalid value", "pollInterval: "
    ),
    "a duration of 33 characters": Verdict(
        given(pollInterval="0" * 30 + "60s"), "spec.pollInterval: Too long", differ=CEL_LIMIT
    ),
    "a negative cooldown": Verdict(given(cooldownPeriod="-5m"), COOLDOWN, "cooldownPeriod: "),
    "a nanosecond below zero": Verdict(given(cooldownPeriod="-1ns"), COOLDOWN, "cooldownPeriod: "),
    "a cooldown in days": Verdict(given(cooldownPeriod="1d"), COOLDOWN, "cooldownPeriod: "),
    "a cooldown above ten years": Verdict(given(cooldownPeriod="90000h"), COOLDOWN, "cooldownPeriod: "),
    "a nanosecond above ten years": Verdict(given(cooldownPeriod="87600h1ns"), COOLDOWN, "cooldownPeriod: "),
    # Budgets
    "a budget": Verdict(budget()),
    "a window of a nanosecond": Verdict(budget(window="1ns")),
    "a budget of 0": Verdict(budget(count=0), "count in body should be greater than or equal to 1", "resizeBudget"),
    "a budget of 11": Verdict(budget(count=11), "count in body should be less than or equal to 10", "resizeBudget"),
    "a budget without a window": Verdict(
        given(resizeBudget={"count": 4}), "spec.resizeBudget.window: Required value", "resizeBudget"
    ),
    "a budget without a count": Verdict(
        given(resizeBudget={"window": "24h"}), "spec.resizeBudget.count: Required value", "resizeBudget"
    ),
    "an empty budget": Verdict(given(resizeBudget={}), "spec.resizeBudget.count: Required value", "resizeBudget"),
    "a window of 0": Verdict(budget(window="0s"), WINDOW, "resizeBudget"),
    "a negative window": Verdict(budget(window="-24h"), WINDOW, "resizeBudget"),
    "a window in days": Verdict(budget(window="1d"), WINDOW, "resizeBudget"),
    # Prometheus
    "a Prometheus over http": Verdict(given(prometheusURL="http://prometheus.monitoring.svc.cluster.local:9090")),
    "a Prometheus by IPv6": Verdict(given(prometheusURL="http://[2001:db8::1]:9090/")),
    "a scheme in capitals": Verdict(given(prometheusURL="HTTPS://prometheus.example.com")),
    "an at sign in the path": Verdict(given(prometheusURL="http://prometheus/tenant@home")),
    "an empty URL": Verdict(given(prometheusURL=""), URL, differ=NO_URL),
    "a host without a scheme": _url("prometheus.monitoring.svc:9090"),
    "a path alone": _url("/prometheus"),
    "a file": _url("file:///etc/passwd"),
    "another scheme": _url("ftp://prometheus"),
    "a scheme without a host": _url("http://"),
    "a port without a host": _url("http://:9090"),
    "a port that is no number": _url("http://prometheus:web"),
    "a user and a password": _url("http://user:secret@prometheus:9090"),
    "a user alone": _url("http://user@prometheus"),
    "a query": _url("http://prometheus/?tenant=a"),
    "a fragment": _url("http://prometheus/#a"),
    "a host with a space": _url("http://prome theus"),
    "a line end": _url("http://prometheus\n"),
    "a URL of 2049 characters": Verdict(
        given(prometheusURL="http://prometheus/" + "x" * 2031), "spec.prometheusURL: Too long", "prometheusURL: "
    ),
    "a URL of 2048 characters": Verdict(given(prometheusURL="http://prometheus/" + "x" * 2030)),
    # The spec
    "an empty spec": Verdict({}, "spec.target: Required value", "target: "),
    "a spec that is text": Verdict("all", "spec", "target: "),
}
