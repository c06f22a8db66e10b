"""When claims must not grow, or not again: refusals, people who interfere, restarts, and what is left of old claims."""

import time
from collections.abc import Mapping

import pytest

from hooks.kube.metadata import name_of, uid_of
from hooks.volumes import expansions
from hooks.volumes.claims import HISTORY, REQUESTED_AT, REQUESTED_SIZE
from tests.e2e.drivers import RealMetacontroller
from tests.e2e.kube import Object
from tests.e2e.processes import eventually
from tests.e2e.volume_scenarios import Played, Scenario, Scenarios
from tests.e2e.volume_world import API, AUTOSCALERS, EXPANSIONS, POLICY, World, policy_acts

pytestmark = pytest.mark.e2e

scenarios = Scenarios()


@scenarios
def reports_a_step_that_a_quota_refuses_and_takes_it_when_there_is_room(world: World) -> None:
    set_quota(world, "11Gi")
    world.claim(used="9Gi")
    world.autoscale()
    status = world.until_says("ExpandFailed")
    for told in (status.message(), world.events()["ExpandFailed"]):
        assert "10Gi -> 12Gi" in told
        assert "a quota or another admission check refused it" in told
    assert status.condition()["reason"] == "ClaimsBlocked"
    assert (world.request(), world.annotations()) == ("10Gi", {})
    if world.driver.name == RealMetacontroller.name:  # the stand-in sends no Events of its own
        assert "exceeded quota" in world.kubectl("describe", "pvc", "data").partition("Events:")[2]

    set_quota(world, "100Gi")
    world.until_requests("12Gi")
    world.until_says("ResizeInProgress")
    assert world.expansions()["data"]["count"] == 1


def set_quota(world: World, storage: str) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota", "namespace": world.namespace}}
    quotas, hard = ("v1", "resourcequotas"), {"requests.storage": storage}
    if world.admin.list(*quotas, namespace=world.namespace):
        world.admin.patch(*quotas, "quota", {"spec": {"hard": hard}}, namespace=world.namespace)
    else:
        world.admin.create(quota | {"spec": {"hard": hard}})
    eventually(
        lambda: world.admin.get(*quotas, "quota", namespace=world.namespace)["status"].get("hard") == hard,
        what="the quota to hold",
    )


def test_reports_that_the_admission_policy_is_missing_and_grows_when_it_is_there(world: World) -> None:
    claim = world.claim(used="9Gi")
    world.control_plane.kubectl("delete", "--filename", POLICY)
    try:
        eventually(lambda: not policy_acts(world.admin, claim), what="the policy to be gone")
        world.autoscale()
        for told in (world.until_says("ExpandFailed").message(), world.events()["ExpandFailed"]):
            assert "the admission policy is missing" in told
        assert (world.request(), world.annotations()[REQUESTED_SIZE]) == ("10Gi", "12Gi")
    finally:
        world.control_plane.kubectl("apply", "--filename", POLICY)
    eventually(lambda: policy_acts(world.admin, claim), what="the policy to act")
    world.change(maxSize="11Gi")  # what was asked for is above: unless it arrives now, it is decided anew at once
    world.until(lambda: world.request() in ("11Gi", "12Gi"), "the claim to grow")
    world.until_says("ResizeInProgress")
    assert world.expansions()["data"]["count"] == 1


@scenarios
def does_not_overrule_a_person_who_lowers_the_request(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale(increasePercent=100)
    world.until_requests("20Gi")
    world.until_remembered()
    world.set_request("15Gi")
    world.finish_resize(used="14Gi")
    world.until_says("Cooldown")
    world.poll()
    assert world.request() == "15Gi"

    world.change(cooldownPeriod="1s")
    world.until_requests("30Gi")
    world.change(cooldownPeriod="10m")
    world.until_says("ResizeInProgress")


@scenarios
def a_claim_that_is_recreated_under_the_same_name_stays_small(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale()
    world.until_requests("12Gi")
    world.change(pollInterval="1h")
    world.delete_claim()
    assert world.expansions()["data"]["size"] == "12Gi", "it still asks for the claim that is gone"
    time.sleep(1)  # when things were created is told in whole seconds: it must be another one
    world.claim(size="5Gi", used="4Gi")
    world.until_says("NewClaim")
    world.poll()
    assert (world.request(), world.annotations()) == ("5Gi", {})

    world.delete_autoscaler()
    world.autoscale("successor")  # it never knew the claim that is gone
    world.until_requests("6Gi", of="successor")
    world.until_says("ResizeInProgress", of="successor")


RESTORED = {
    "old": {REQUESTED_SIZE: "50Gi", REQUESTED_AT: "2020-01-01T00:00:00Z"},
    "from-the-future": {REQUESTED_SIZE: "50Gi", REQUESTED_AT: "2999-01-01T00:00:00Z"},
    "garbage": {REQUESTED_SIZE: "lots", REQUESTED_AT: "yesterday", HISTORY: "{"},
}


@scenarios
def a_claim_that_was_restored_with_old_annotations_is_not_stuck(world: World) -> None:
    for name, annotations in RESTORED.items():
        world.claim(name, used="9Gi", annotations=annotations)
    for name in RESTORED:
        world.autoscale(name, claim=name)
    for name in RESTORED:
        world.until_requests("12Gi", claim=name, of=name)
        world.until_says("ResizeInProgress", claim=name, of=name)
    assert {world.annotations(name)[REQUESTED_SIZE] for name in RESTORED} == {"12Gi"}


def test_remembers_the_cooldown_when_everything_restarts(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale()
    world.until_requests("12Gi")
    world.finish_resize(used="11Gi")
    cooldown = world.until_says("Cooldown").message()

    world.hooks.stop()
    world.backend.prometheus.stop()
    world.driver.restart()
    world.admin.patch(*AUTOSCALERS, "autoscaler", {"status": None}, namespace=world.namespace, subresource="status")
    assert world.status() == {}
    world.backend.prometheus.start()
    world.hooks.start()
    world.until_scraped()

    assert world.until_says("Cooldown").message() == cooldown
    assert world.request() == "12Gi"
    world.change(cooldownPeriod="1s")
    world.until_requests("15Gi")
    world.change(cooldownPeriod="10m")
    assert world.until_says("ResizeInProgress")["totalScaleEvents"] == 2


@scenarios
def an_expansion_that_somebody_wrote_by_hand_grows_nothing(world: World) -> None:
    claim, before = world.claim(used="5Gi"), world.hooks.decided("volume_claim", "NotOwned")
    world.admin.create(unowned_expansion(world, claim, name="by-hand", size="99Gi"))
    world.until(lambda: world.hooks.decided("volume_claim", "NotOwned") > before, "the expansion to be seen")
    assert world.get_claim() == claim


@pytest.mark.xfail(strict=True, reason="an expansion without an owner counts as a rival, and takes the name of ours")
def test_a_namespace_that_was_restored_without_owners_is_not_stuck(world: World) -> None:
    """Backup tools keep neither UIDs nor owner references."""
    claim = world.claim(used="9Gi", annotations=RESTORED["old"])
    name = expansions.name_for("autoscaler", "data")
    world.admin.create(unowned_expansion(world, claim, name=name, size="50Gi", claimUID="of the claim of old"))
    world.autoscale()
    for _ in range(3):
        status = world.poll()
    assert (status.entry()["reason"], world.request()) == ("ResizeInProgress", "12Gi")


def unowned_expansion(world: World, claim: Object, *, name: str, **spec: str) -> Object:
    metadata = {"name": name, "namespace": world.namespace, "labels": {expansions.CLAIM_LABEL: name_of(claim)}}
    step = {"claimName": name_of(claim), "claimUID": uid_of(claim), "fromSize": "10Gi", "size": "99Gi", "count": 1}
    step["requestedAt"] = "2020-01-01T00:00:00Z"
    return {"apiVersion": API, "kind": "VolumeExpansion", "metadata": metadata, "spec": step | spec}


@scenarios
def what_somebody_does_to_an_expansion_is_undone(world: World) -> None:
    world.claim(used="9Gi")
    world.autoscale()
    world.until_requests("12Gi")
    world.finish_resize(used="11Gi")
    cooldown = world.until_says("Cooldown").message()
    name = expansions.name_for("autoscaler", "data")
    world.admin.patch(*EXPANSIONS, name, {"spec": {"size": "99Gi"}}, namespace=world.namespace)
    world.until(lambda: world.expansions()["data"]["size"] == "12Gi", "the size to be put back")
    world.admin.delete(*EXPANSIONS, name, namespace=world.namespace)
    world.until(lambda: "data" in world.expansions(), "the expansion to be back")
    status = world.poll()

    assert world.request() == "12Gi"
    assert (status.message(), status["totalScaleEvents"]) == (cooldown, 1)


@pytest.mark.parametrize("scenario", scenarios.all, ids=lambda scenario: scenario.__name__)
def test(scenario: Scenario, played: Mapping[Scenario, Played]) -> None:
    played[scenario].check()
