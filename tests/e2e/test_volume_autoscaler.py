"""The volume autoscaler on a real API server, with a real Prometheus: claims fill up and grow, and people see why."""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from hooks.volumes.claims import CONFLICT, PAUSED
from tests.e2e.drivers import NAMESPACE, USER
from tests.e2e.kube import Forbidden, KubeClient
from tests.e2e.volume_scenarios import Played, Scenario, Scenarios
from tests.e2e.volume_world import AUTOSCALERS, CLAIMS, FIXED, World, bound_claim

pytestmark = pytest.mark.e2e

scenarios = Scenarios()


class Case(NamedTuple):
    """A claim with a VolumeAutoscaler of its own: what becomes of it?"""

    request: str
    reason: str
    claim: Mapping[str, Any]
    spec: Mapping[str, Any] = {}


GROWS, FULL = "ResizeInProgress", {"used": "9Gi"}
MANY_INODES = {"used": "1Gi", "inodes": (950, 1000)}
CASES: Mapping[str, Case] = {
    "bytes": Case("12Gi", GROWS, FULL),
    "inodes": Case("12Gi", GROWS, MANY_INODES, {"inodeThresholdPercent": 95}),
    "inodes-left": Case("10Gi", "BelowThreshold", MANY_INODES, {"inodeThresholdPercent": 96}),
    "inodes-ignored": Case("10Gi", "BelowThreshold", MANY_INODES),
    "just-full": Case("12Gi", GROWS, {"used": "8Gi"}),
    "almost-full": Case("10Gi", "BelowThreshold", {"used": "8191Mi"}),
    "clamped": Case("11Gi", GROWS, FULL, {"maxSize": "11Gi"}),
    "at-limit": Case("10Gi", "MaxSizeReached", FULL, {"maxSize": "10Gi"}),
    "small": Case("600Mi", GROWS, {"size": "500Mi", "used": "450Mi"}, {"increaseMinimum": "50Mi"}),
    "fixed": Case("10Gi", "StorageClassNotExpandable", FULL | {"storage_class": FIXED}),
    "no-such-class": Case("10Gi", "StorageClassNotFound", FULL | {"storage_class": "missing"}),
    "paused": Case("10Gi", "Paused", FULL | {"annotations": {PAUSED: "true"}}),
    "unmounted": Case("10Gi", "NoMetrics", {}),
    "foreign": Case("10Gi", "PrometheusNotAllowed", FULL, {"prometheusURL": "http://metrics.example.com"}),
}


@scenarios
def grows_what_is_full_and_says_why_others_stay(world: World) -> None:
    for name, case in CASES.items():
        world.claim(name, **case.claim)
    world.fill("9Gi", claim="bytes", node="node-2")
    world.fill("1Gi", claim="bytes", node="node-1")  # a pod that was moved: the fuller series counts
    for name, case in CASES.items():
        world.autoscale(name, claim=name, **case.spec)

    for name, case in CASES.items():
        world.until_requests(case.request, claim=name, of=name)
    statuses = world.poll_all()

    said = {name: (world.request(name), statuses[name].entry(name)["reason"]) for name in CASES}
    assert said == {name: (case.request, case.reason) for name, case in CASES.items()}
    assert statuses["bytes"].condition()["status"] == "True"
    assert statuses["at-limit"].condition()["reason"] == "ClaimsBlocked"
    assert "leaves no room below maxSize 10Gi" in world.events("at-limit")["MaxSizeReached"]
    assert FIXED in world.events("fixed")["StorageClassNotExpandable"]
    assert set(world.expansions()) == set(CASES)


@scenarios
def grows_step_by_step_up_to_the_limit_and_tells_people(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale(increasePercent=100, maxSize="25Gi", cooldownPeriod="1s")
    world.until_requests("20Gi", of=None)
    world.finish_resize(used="19Gi")
    world.until_requests("25Gi", of=None)  # in its own time
    world.finish_resize(used="24Gi")
    status = world.until_says("MaxSizeReached")

    assert [(step.from_, step.to) for step in world.history()] == [("10Gi", "20Gi"), ("20Gi", "25Gi")]
    assert world.expansions()["data"]["count"] == status["totalScaleEvents"] == 2
    on_claim, on_autoscaler = world.kubectl("describe", "pvc", "data"), world.kubectl("describe", "va", "autoscaler")
    for sentence in ("10Gi -> 20Gi", "20Gi -> 25Gi", "96% used, threshold 80%, and 25Gi leaves no room below maxSize"):
        assert sentence in on_claim.partition("Events:")[2]
        assert f"data: {sentence}" in on_autoscaler.partition("Events:")[2]
    autoscalers, _, expansions = world.kubectl("get", "va,vex", "-A").partition("\n\n")
    shown = table(autoscalers)[world.namespace]
    assert shown["NAME"].endswith("/autoscaler")
    assert shown.items() >= {"READY": "False", "REASON": "ClaimsBlocked", "CLAIMS": "1", "FULLEST": "96"}.items()
    assert shown.items() >= {"THRESHOLD": "80", "MAXSIZE": "25Gi", "SCALEEVENTS": "2"}.items()
    shown = table(expansions)[world.namespace]
    assert shown.items() >= {"CLAIM": "data", "FROM": "20Gi", "SIZE": "25Gi", "REASON": "ExpandRequested"}.items()
    assert shown["COUNT"] == "2"


def table(text: str) -> Mapping[str, Mapping[str, str]]:
    """The rows of a table that kubectl printed, each by its first column. Values may be empty."""
    header, *rows = text.strip().splitlines()
    starts = [found.start() for found in re.finditer(r"\S+", header)]
    split = [[line[start:end].strip() for start, end in pairwise([*starts, None])] for line in (header, *rows)]
    return {row[0]: dict(zip(split[0], row, strict=True)) for row in split[1:]}


SELECTOR = {"selector": {"matchLabels": {"app": "db"}}}


@scenarios
def looks_after_the_claims_that_have_its_labels(world: World) -> None:
    for name, used in (("crashing", "9Gi"), ("roomy", "5Gi"), ("unlabelled", "9Gi")):
        world.claim(name, used=used)
    for name in ("crashing", "roomy"):
        world.set_labels(name, app="db")
    world.autoscale(target=SELECTOR, thresholdPercent=95, onMetricsLost="StepOnce")
    world.until_says("BelowThreshold", claim="crashing")
    assert set(world.expansions()) == {"crashing", "roomy"}

    world.unmount("crashing")  # a full disk crashed its pod, say
    assert "90% used" in world.until_says("MetricsLost", claim="crashing").message("crashing")
    world.set_labels("unlabelled", app="db")
    world.change(thresholdPercent=80)
    for name in ("crashing", "unlabelled"):
        world.until_requests("12Gi", claim=name)
    world.until_says("ResizeInProgress", claim="crashing")

    world.set_labels("unlabelled", app=None)
    world.look_until(lambda: "unlabelled" not in world.expansions(), "the claim to be let go")
    status = world.poll()
    assert (status["claims"], status["totalScaleEvents"]) == (2, 2)
    assert [world.request(name) for name in ("crashing", "roomy", "unlabelled")] == ["12Gi", "10Gi", "12Gi"]


@scenarios
def grows_many_claims_at_once(world: World) -> None:
    def create(name: str) -> None:
        world.claim(name, used="9Gi")
        world.set_labels(name, app="db")

    names = [f"data-{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, names))
    world.autoscale(target=SELECTOR)
    world.until(lambda: set(world.requests().values()) == {"12Gi"}, "all claims to grow")
    status = world.poll()

    assert (status["claimsByReason"], status["totalScaleEvents"]) == ({"ResizeInProgress": 40}, 40)
    assert world.events("data-39") == {"Expanded": "10Gi -> 12Gi"}
    told = world.messages("Expanded", on="autoscaler")  # several, if a poll was due while they grew
    assert sum(map(claims_told, told)) == 40
    assert len(told) < 20


def claims_told(message: str) -> int:
    hidden = re.search(r"; and ([0-9]+) more claims$", message)
    return message.count(" -> ") + (int(hidden[1]) if hidden else 0)


@scenarios
def observe_writes_nothing_but_what_it_sees(world: World) -> None:
    before = world.claim(used="9Gi")
    mark = world.control_plane.mark()
    world.autoscale(mode="Observe")
    world.until_says("WouldExpand")
    entry = world.poll().entry()

    written = [record for record in world.control_plane.writes_since(mark, USER) if record.namespace == world.namespace]
    assert {(record.resource, record.subresource) for record in written} == {("volumeautoscalers", "status")}
    assert entry["desiredSize"] == "12Gi"
    assert entry["message"] == "90% used, threshold 80%: 10Gi -> 12Gi (mode Observe)"
    assert world.get_claim() == before

    world.change(mode="Apply", cooldownPeriod="0s")
    world.until_requests("12Gi")
    world.change(mode="Observe")
    world.finish_resize(used="11Gi")
    world.until_says("WouldExpand")
    assert world.expansions()["data"]["size"] == world.request() == "12Gi"


@scenarios
def grows_once_the_storage_class_allows_it(world: World) -> None:
    found = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": world.namespace}}
    world.admin.create(found | {"provisioner": "tests.metahooks/none"})
    world.claim(used="9Gi", storage_class=world.namespace)
    world.autoscale()
    status = world.until_says("StorageClassNotExpandable")
    assert status.message() in status.condition("Expandable")["message"]
    assert world.request() == "10Gi"

    world.admin.patch("storage.k8s.io/v1", "storageclasses", world.namespace, {"allowVolumeExpansion": True})
    world.until_requests("12Gi")
    assert world.until_says("ResizeInProgress").condition("Expandable")["status"] == "True"


def test_waits_while_prometheus_is_down_and_goes_on_when_it_is_back(world: World) -> None:
    world.claim(used="5Gi")
    world.autoscale()
    world.until_says("BelowThreshold")
    world.backend.prometheus.stop()
    try:
        world.fill("9Gi")
        status = world.until_says("PrometheusUnreachable")
        assert "refused the connection" in status.message()
        assert status.entry()["usagePercent"] == 50
        assert status.entry()["lastSampleTime"]
        assert status.condition().items() >= {"status": "False", "reason": "PrometheusUnavailable"}.items()
        assert "data: PrometheusUnreachable" in world.events("autoscaler")["PrometheusUnavailable"]
        assert world.request() == "10Gi"
    finally:
        world.backend.prometheus.start()
    world.until_requests("12Gi")
    assert world.until_says("ResizeInProgress").condition()["status"] == "True"


@scenarios
def two_that_select_one_claim_do_nothing_until_one_is_gone(world: World) -> None:
    world.claim(used="5Gi")
    for name in ("first", "second"):
        world.autoscale(name)
    for name, other in (("first", "second"), ("second", "first")):
        assert f"also selected by {other}" in world.until_says("Ambiguous", of=name).message()
    world.until(lambda: CONFLICT in world.annotations(), "the conflict to be told on the claim")
    assert world.annotations()[CONFLICT] == "first, second"

    world.fill("9Gi")
    for name in ("first", "second"):
        status = world.until_shows(lambda status: status.get("fullestPercent") == 90, "that it is full", of=name)
        assert status.condition()["reason"] == status.entry()["reason"] == "Ambiguous"
    assert world.request() == "10Gi"

    world.delete_autoscaler("second")
    world.until(lambda: CONFLICT not in world.annotations(), "the conflict to be over", seconds=90)
    world.until_requests("12Gi", of="first")
    world.until_says("ResizeInProgress", of="first")


@scenarios
def leaves_claims_as_they_are_when_it_is_deleted(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale()
    world.until_requests("12Gi")
    world.finish_resize(used="11Gi")
    world.until_says("Cooldown")
    world.until_remembered()
    before = world.get_claim()

    world.delete_autoscaler()
    world.until(lambda: not world.expansions(), "the expansion to be collected", seconds=90)
    assert world.get_claim() == before

    world.autoscale("successor")
    assert "the next step is possible at" in world.until_says("Cooldown", of="successor").message()
    assert world.get_claim() == before


@scenarios
def metacontroller_may_do_no_more_than_it_needs(world: World) -> None:
    """What the scenarios above need, it gets; what they do not need is refused."""
    world.claim(used="5Gi")
    world.autoscale()
    token, where = world.admin.token_for("metacontroller", NAMESPACE), world.namespace
    with KubeClient(world.control_plane.url, token, world.control_plane.ca_file) as metacontroller:
        with pytest.raises(Forbidden, match="cannot delete"):
            metacontroller.delete(*CLAIMS, "data", namespace=where)
        with pytest.raises(Forbidden, match="cannot create"):
            bound_claim(metacontroller, "mine", namespace=where)
        with pytest.raises(Forbidden, match="cannot patch"):
            metacontroller.patch(*AUTOSCALERS, "autoscaler", {"spec": {"maxSize": "1Pi"}}, namespace=where)
        with pytest.raises(Forbidden, match="cannot delete"):
            metacontroller.delete(*AUTOSCALERS, "autoscaler", namespace=where)
        with pytest.raises(Forbidden, match="cannot list"):
            metacontroller.list("v1", "secrets")


@pytest.mark.parametrize("scenario", scenarios.all, ids=lambda scenario: scenario.__name__)
def test(scenario: Scenario, played: Mapping[Scenario, Played]) -> None:
    played[scenario].check()
