"""The laws of the volume autoscaler over simulated weeks, and scenarios with exact expectations."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from hooks.kube.metadata import annotations_of, uid_of
from hooks.volumes.claims import HISTORY, REQUESTED_AT, REQUESTED_BY, REQUESTED_SIZE
from hooks.volumes.expansions import name_for
from hooks.volumes.policy import GIB
from tests.simulation.exam import live
from tests.simulation.ground import AUTOSCALERS, CLAIMS, DAY, EXPANSIONS, HOUR, MINUTE, request_of
from tests.simulation.laws import Broken
from tests.simulation.storage import Driver
from tests.simulation.world import World

# Lives of chance: `python -m tests.simulation --seeds 1000` for more


lived = cache(live)


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_laws_hold_for_a_week_of_faults(seed: int) -> None:
    assert lived(seed).laws.raises


def test_every_step_is_counted_once_in_a_week_without_faults() -> None:
    world = live(1, faults=0)
    assert world.laws.raises
    assert world.status()["totalScaleEvents"] == len(world.laws.raises) == sum(world.laws.decisions.values())


def test_the_same_seed_is_the_same_life() -> None:
    first, second = live(2), lived(2)
    assert (first.laws.raises, first.log, first.server.writes) == (second.laws.raises, second.log, second.server.writes)


# The laws themselves


def lowered(world: World) -> None:
    claim = world.server.read(world.claim()) or {}
    claim["spec"]["resources"]["requests"]["storage"] = "9Gi"
    world.server.update(claim)


def deleted(world: World) -> None:
    world.server.delete(world.claim())


def owned(world: World) -> None:
    claim = world.server.read(world.claim()) or {}
    claim["metadata"]["ownerReferences"] = [{"uid": "uid-db", "controller": True}]
    world.server.update(claim)


@pytest.mark.parametrize(
    ("crime", "law"),
    [
        (lowered, "1: the request was lowered"),
        (deleted, "4: the loop created or deleted"),
        (owned, "4: .* has an owner"),
    ],
)
def test_a_law_that_is_broken_is_told_with_seed_and_time(crime: Callable[[World], None], law: str) -> None:
    world = World(7)
    world.add_claim()
    world.run(minutes=2)
    with pytest.raises(Broken, match=rf"seed 7, day 0 0:02:00 \(2026-11-16T03:02:00Z\): {law}"):
        crime(world)


# What the originals got wrong


def test_it_does_not_run_away_while_metrics_lag_behind() -> None:
    world = World(pollInterval="10s", cooldownPeriod="0s")
    world.add_claim(percent=90, driver=Driver(delay=(5, 5)), copies=[({"node": "a"}, 290.0)])
    world.run(minutes=5)
    assert world.sizes() == ["12Gi"]
    world.run(minutes=4)
    assert (world.sizes(), world.reason()) == (["12Gi"], "StaleMetrics")
    world.run(minutes=2)
    assert (world.sizes(), world.reason()) == (["12Gi"], "BelowThreshold")


def test_the_cooldown_survives_an_outage_of_prometheus() -> None:
    world = World()
    world.add_claim(percent=90)
    world.run(minutes=4)
    world.fill(95)
    world.begin("outage", 2 * MINUTE)
    world.run(minutes=1)
    assert (world.sizes(), world.reason()) == (["12Gi"], "PrometheusUnreachable")
    world.run(minutes=2)
    assert (world.sizes(), world.reason()) == (["12Gi"], "Cooldown")
    world.run(minutes=2)
    assert world.sizes() == ["12Gi", "15Gi"]
    first, second = (round(at / MINUTE) for at, _, _ in world.laws.raises)
    assert second - first == 5


def test_a_larger_request_of_a_person_is_not_lowered() -> None:
    world = World()
    world.add_claim(percent=90, driver=Driver(delay=(HOUR, HOUR), tells=False))
    world.run(seconds=30)
    world.set_request("50Gi")
    world.run(minutes=50)
    assert (world.request(), world.sizes(), world.reason()) == ("50Gi", [], "ResizeInProgress")


def test_several_series_for_one_claim_make_one_step_and_one_entry() -> None:
    world = World()
    copies = [({"node": node, "prometheus_replica": copy}, lag) for node, copy, lag in SERIES]
    world.add_claim(percent=90, copies=copies)
    world.run(minutes=20)
    assert (world.sizes(), world.reason()) == (["12Gi"], "BelowThreshold")
    assert [entry["name"] for entry in world.status()["pvcs"]] == ["data-0"]


SERIES = (("a", "0", 60.0), ("a", "1", 70.0), ("b", "0", 170.0), ("b", "1", 180.0))


def test_a_capacity_that_never_follows_makes_one_step_that_is_counted_once() -> None:
    world = World()
    world.add_claim(percent=95, driver=Driver(delay=(9 * DAY, 9 * DAY), tells=False))
    world.run(minutes=20)
    assert (world.condition("Ready")["status"], world.reason()) == ("True", "ResizeInProgress")
    world.run(hours=3)
    assert (world.sizes(), world.request()) == (["12Gi"], "12Gi")
    assert world.server.writes.count("update PersistentVolumeClaim") == 2  # it asks, and notes that it got it
    assert world.status()["totalScaleEvents"] == 1
    assert (world.condition("Ready")["status"], world.condition("Ready")["reason"]) == ("False", "ClaimsBlocked")


def test_inodes_alone_make_a_claim_grow() -> None:
    world = World(inodeThresholdPercent=90, cooldownPeriod="1h")
    world.add_claim(percent=40, inode_percent=95)
    world.run(minutes=30)
    assert world.sizes() == ["12Gi"]


# Providers that limit changes


def always_full(world: World) -> None:
    world.add_claim(percent=90, driver=Driver(most_per_day=4, delay=(60, 300)))
    world.fill(90, per_hour=60)


def test_with_the_budget_of_the_provider_it_never_refuses() -> None:
    window = {"count": 4, "window": "24h"}
    world = World(pollInterval="15m", cooldownPeriod="30m", maxSize="10Ti", resizeBudget=window, events=False)
    always_full(world)
    world.run(days=2.5)
    assert (world.driver().refusals, len(world.sizes())) == (0, 12)


def test_without_a_budget_the_provider_refuses_and_all_goes_on_a_day_later() -> None:
    world = World(pollInterval="15m", cooldownPeriod="30m", maxSize="10Ti", events=False)
    always_full(world)
    world.run(hours=6)
    assert (world.sizes(), world.reason()) == (["12Gi", "15Gi", "18Gi", "22Gi", "27Gi"], "ResizeFailed")
    assert "maximum modification rate" in world.condition("Expandable")["message"]
    assert world.condition("Ready")["status"] == "False"
    world.run(hours=24)
    assert world.driver().refusals > 0
    assert len(world.sizes()) == 9  # the one that was refused was carried out, and four more
    assert world.status()["totalScaleEvents"] == 9


# Steps that do not arrive


def refused_by_quota(**spec: Any) -> World:
    world = World(**spec)
    world.add_claim(percent=90)
    world.server.quota = 10 * GIB
    world.begin("quota")
    world.run(minutes=4)
    assert (world.request(), world.reason()) == ("10Gi", "ExpandFailed")
    return world


def test_a_step_that_a_quota_refuses_is_told_and_made_up_for() -> None:
    world = refused_by_quota()
    assert (world.condition("Ready")["status"], world.condition("Expandable")["status"]) == ("False", "False")
    assert "data-0: ExpandFailed" in world.condition("Expandable")["message"]
    assert REQUESTED_AT not in annotations_of(world.claim())
    world.end("quota")
    world.run(minutes=7)
    assert (world.sizes(), world.status()["totalScaleEvents"]) == (["12Gi"], 1)
    world.run(minutes=5)
    assert world.condition("Ready")["status"] == "True"


def test_a_step_that_a_quota_refuses_is_not_tried_all_the_time() -> None:
    world = refused_by_quota()
    world.run(hours=1)
    assert world.server.refusals < 60


def test_a_claim_that_cannot_grow_is_told_all_the_time() -> None:
    world = refused_by_quota()
    since = world.condition("Ready")["lastTransitionTime"]
    world.run(minutes=30)
    assert (world.condition("Ready")["status"], world.condition("Ready")["lastTransitionTime"]) == ("False", since)


def test_a_step_that_did_not_arrive_is_not_taken_while_the_claim_is_paused() -> None:
    world = refused_by_quota()
    world.annotate(paused="for a move")
    world.end("quota")
    world.run(minutes=20)
    assert (world.sizes(), world.reason()) == ([], "Paused")
    world.annotate(paused=None)
    world.run(minutes=7)
    assert (world.sizes(), world.status()["totalScaleEvents"]) == (["12Gi"], 1)


def test_a_step_that_did_not_arrive_is_not_taken_once_it_is_not_needed() -> None:
    world = refused_by_quota()
    world.fill(30)
    world.run(minutes=4)
    world.end("quota")
    world.run(hours=1)
    assert (world.sizes(), world.reason()) == ([], "BelowThreshold")


def test_a_step_that_did_not_arrive_is_not_taken_beside_a_rival() -> None:
    world = refused_by_quota()
    world.add_autoscaler("rival")
    world.run(seconds=5)
    world.end("quota")
    world.run(minutes=20)
    assert (world.sizes(), world.reason(), world.reason(of="rival")) == ([], "Ambiguous", "Ambiguous")
    world.remove_autoscaler("rival")
    world.run(minutes=8)
    assert world.sizes() == ["12Gi"]


def test_a_step_that_did_not_arrive_is_not_taken_in_mode_observe() -> None:
    world = refused_by_quota()
    world.edit_autoscaler(mode="Observe")
    world.run(hours=1)
    world.end("quota")
    world.run(minutes=20)
    assert world.sizes() == []


def test_a_step_that_did_not_arrive_is_not_taken_once_max_size_forbids_it() -> None:
    world = refused_by_quota()
    world.edit_autoscaler(maxSize="10Gi")
    world.run(hours=1)
    world.end("quota")
    world.run(minutes=20)
    assert world.sizes() == []


def test_the_cooldown_begins_when_a_step_arrives() -> None:
    world = refused_by_quota(cooldownPeriod="2h")
    world.run(minutes=110)
    world.end("quota")
    world.fill(95, per_hour=200)
    world.run(hours=4)
    first, second = (at for at, _, _ in world.laws.raises[:2])
    assert second - first >= 2 * HOUR


def test_once_the_admission_policy_is_installed_it_recovers_within_a_cooldown() -> None:
    world = World()
    world.begin("no policy")
    world.add_claim(percent=90)
    world.run(minutes=4)
    assert annotations_of(world.claim())[REQUESTED_SIZE] == "12Gi"
    assert (world.request(), world.reason(), world.condition("Ready")["status"]) == ("10Gi", "ExpandFailed", "False")
    world.end("no policy")
    world.run(minutes=5)
    assert (world.sizes(), world.status()["totalScaleEvents"]) == (["12Gi"], 1)


def test_a_lost_reply_is_no_second_step() -> None:
    world = World(cooldownPeriod="0s")
    world.begin("lost replies", 10 * MINUTE)
    world.add_claim(percent=90, driver=Driver(delay=(200, 200)))
    world.run(minutes=20)
    assert world.sizes() == ["12Gi"]


# The driver


def test_a_driver_that_refuses_is_told_and_waited_for() -> None:
    world = World()
    world.add_claim(percent=90, driver=Driver(says_infeasible=True))
    world.begin("refuse", uid=uid_of(world.claim()))
    world.run(minutes=4)
    assert (world.request(), world.reason(), world.condition("Ready")["status"]) == ("12Gi", "ResizeFailed", "False")
    assert "the pool has no space left" in world.condition("Expandable")["message"]
    world.run(hours=2)
    world.end("refuse")
    world.run(minutes=12)
    assert (world.sizes(), world.reason(), world.condition("Ready")["status"]) == (["12Gi"], "BelowThreshold", "True")


def test_a_resize_that_waits_for_a_pod_is_told_after_half_an_hour() -> None:
    world = World()
    world.add_claim(percent=90)
    world.begin("no pod", uid=uid_of(world.claim()))
    world.run(minutes=10)
    assert "waits for a pod" in world.entry()["message"]
    assert world.condition("Ready")["status"] == "True"
    world.run(minutes=30)
    assert world.condition("Ready")["status"] == "False"
    world.end("no pod")
    world.run(minutes=6)
    assert (world.sizes(), world.reason(), world.condition("Ready")["status"]) == (["12Gi"], "BelowThreshold", "True")


def test_a_driver_that_rounds_up_is_the_base_of_the_next_step() -> None:
    world = World()
    world.add_claim(percent=90, driver=Driver(unit=8 * GIB))
    world.run(minutes=6)
    world.fill(90)
    world.run(minutes=10)
    assert world.sizes() == ["12Gi", "20Gi"]  # the driver gave 16Gi for 12Gi


# Metrics that are lost


def metrics_lost_while_full(on_metrics_lost: str) -> World:
    """Full again within the cooldown of its first step; then the series end."""
    world = World(onMetricsLost=on_metrics_lost)
    world.add_claim("other")
    world.add_claim(percent=90)
    world.run(minutes=4)
    world.fill(97)
    world.run(minutes=3)
    assert (world.sizes(), world.reason()) == (["12Gi"], "Cooldown")
    world.begin("no series", uid=uid_of(world.claim()))
    world.run(hours=2)
    return world


def test_metrics_lost_with_step_once_make_exactly_one_step() -> None:
    world = metrics_lost_while_full("StepOnce")
    assert (world.sizes(), world.reason()) == (["12Gi", "15Gi"], "MetricsLost")


def test_metrics_lost_without_step_once_make_none() -> None:
    world = metrics_lost_while_full("Wait")
    assert (world.sizes(), world.reason(), world.entry()["usagePercent"]) == (["12Gi"], "MetricsLost", 96)


def test_an_empty_answer_for_all_claims_makes_no_step() -> None:
    world = World(onMetricsLost="StepOnce")
    world.add_claim(percent=79)
    world.add_claim("other")
    world.run(minutes=5)
    world.begin("empty")
    world.fill(99)
    world.run(hours=1)
    assert (world.sizes(), world.reason()) == ([], "NoMetricsForAnyClaim")


# What is remembered


def test_the_memory_survives_the_autoscaler_and_its_cooldown_holds() -> None:
    world = World(cooldownPeriod="1h")
    world.add_claim(percent=90)
    world.run(minutes=4)
    remembered = annotations_of(world.claim())
    assert remembered.keys() == {REQUESTED_SIZE, REQUESTED_AT, REQUESTED_BY, HISTORY}
    world.remove_autoscaler()
    world.run(minutes=5)
    assert (dict(world.objects(EXPANSIONS)), annotations_of(world.claim())) == ({}, remembered)
    world.add_autoscaler(cooldownPeriod="1h")
    world.fill(95)
    world.run(minutes=45)
    assert (world.sizes(), world.reason(), world.status()["totalScaleEvents"]) == (["12Gi"], "Cooldown", 0)
    world.run(minutes=15)
    assert (world.sizes(), world.status()["totalScaleEvents"]) == (["12Gi", "15Gi"], 1)


def test_a_wiped_status_costs_a_poll_and_nothing_else() -> None:
    world = World(cooldownPeriod="1h")
    world.add_claim(percent=90)
    world.run(minutes=4)
    world.fill(95)
    world.server.set_status(world.autoscaler(), {})
    world.run(minutes=30)
    assert (world.sizes(), world.reason(), world.status()["totalScaleEvents"]) == (["12Gi"], "Cooldown", 1)


def test_the_count_of_steps_does_not_fall_while_a_cache_lags() -> None:
    world = World(pollInterval="10m")
    world.add_claim()
    world.run(minutes=12)
    world.prometheus.forget()
    world.fill(90)
    world.run(minutes=2)
    world.metacontroller.freeze(AUTOSCALERS, 2)
    world.add_claim("data-1")  # makes it poll, and the full one take its step
    world.run(minutes=1)
    assert (world.sizes(), world.status()["totalScaleEvents"]) == (["12Gi"], 1)


def test_the_steps_of_a_claim_that_is_gone_are_counted_once() -> None:
    world = World()
    world.add_claim(percent=90)
    world.run(minutes=5)
    world.begin("no deletes", 10 * MINUTE)
    world.remove_claim()
    world.run(minutes=20)
    assert world.status()["totalScaleEvents"] == 1


def test_the_steps_of_a_claim_that_is_gone_are_counted_once_if_a_write_is_dropped() -> None:
    world = World()
    world.add_claim(percent=90)
    world.run(minutes=5)
    world.begin("conflicts", 10 * MINUTE, uid=name_for("db", "data-0"))
    world.remove_claim()
    world.run(minutes=20)
    assert world.status()["totalScaleEvents"] == 1


def test_a_claim_that_is_recreated_keeps_its_size_until_it_is_full_itself() -> None:
    world = World()
    world.add_claim(size="50Gi", percent=90)
    world.run(minutes=20)
    assert world.sizes() == ["60Gi"]
    world.remove_claim()
    world.run(minutes=10)
    world.add_claim(percent=20)
    world.run(hours=1)
    assert (world.request(), world.status()["totalScaleEvents"]) == ("10Gi", 1)
    world.fill(90)
    world.run(minutes=5)
    assert (world.request(), world.status()["totalScaleEvents"]) == ("12Gi", 2)


@pytest.mark.parametrize(("linger", "spec"), [(150.0, {}), (45.0, {"onMetricsLost": "StepOnce"})])
def test_a_claim_that_is_recreated_does_not_inherit_the_usage(linger: float, spec: dict[str, Any]) -> None:
    world = World(maxSize="12Gi", **spec)
    world.add_claim("other")
    world.add_claim(size="12Gi", percent=95)
    world.run(minutes=12)
    world.remove_claim(series_linger=linger)
    world.run(seconds=31)
    world.add_claim(percent=0)
    world.begin("no series", 10 * MINUTE, uid=uid_of(world.claim()))  # its pod is not there yet
    world.run(minutes=20)
    assert (world.request(), world.sizes()) == ("10Gi", [])


def test_a_claim_that_is_recreated_does_not_inherit_the_status() -> None:
    world = World(maxSize="12Gi", onMetricsLost="StepOnce", pollInterval="5m")
    world.add_claim("other")
    world.add_claim(size="12Gi", percent=97)
    world.run(minutes=22)
    world.remove_claim()
    world.run(seconds=5)
    world.prometheus.forget()
    world.metacontroller.freeze(AUTOSCALERS, 2)
    world.add_claim(percent=0)
    world.begin("no series", uid=uid_of(world.claim()))
    world.run(minutes=20)
    assert (world.request(), world.sizes()) == ("10Gi", [])


# Limits and modes


def test_at_its_limit_a_full_claim_is_told_and_grows_once_the_limit_is_raised() -> None:
    world = World(maxSize="12Gi")
    world.add_claim(percent=90)
    world.run(minutes=4)
    world.fill(95)
    world.run(minutes=4)
    assert (world.sizes(), world.reason(), world.condition("Ready")["status"]) == (["12Gi"], "MaxSizeReached", "False")
    assert "data-0: MaxSizeReached" in world.condition("Expandable")["message"]
    world.edit_autoscaler(maxSize="20Gi")
    world.run(seconds=5)
    assert world.sizes() == ["12Gi", "15Gi"]


def test_mode_observe_shows_the_step_and_takes_none() -> None:
    world = World(mode="Observe")
    world.add_claim(percent=90)
    world.run(hours=1)
    assert (world.sizes(), world.reason(), world.entry()["desiredSize"]) == ([], "WouldExpand", "12Gi")
    assert not world.objects(EXPANSIONS)
    world.edit_autoscaler(mode="Apply")
    world.run(seconds=5)
    assert world.sizes() == ["12Gi"]


def test_two_autoscalers_for_one_claim_grow_nothing_until_one_is_gone() -> None:
    world = World()
    world.add_autoscaler("rival")
    world.add_claim(percent=90)
    world.run(hours=1)
    assert (world.sizes(), world.reason(), world.reason(of="rival")) == ([], "Ambiguous", "Ambiguous")
    world.remove_autoscaler("rival")
    world.run(minutes=2)
    assert world.sizes() == ["12Gi"]


# At rest


def test_between_polls_nothing_is_asked_and_nothing_written() -> None:
    world = World()
    for name in ("data-0", "data-1"):
        world.add_claim(name, percent=60)
    world.run(hours=2, seconds=20)
    before = world.prometheus.questions, len(world.server.writes)
    for key in world.metacontroller.parents() * 5:
        assert world.metacontroller.sync(key) == []
    assert (world.prometheus.questions, len(world.server.writes)) == before
    world.run(minutes=10)
    assert world.server.writes[before[1] :] == ["update status of VolumeAutoscaler"] * 10
    assert world.prometheus.questions == before[0] + 10


def test_two_metacontrollers_at_once_make_one_step() -> None:
    world = World(skews=(0.0, 3.0, -3.0), cooldownPeriod="0s")
    world.add_claim(percent=90, driver=Driver(delay=(30, 30)))
    for _ in range(40):
        world.run(seconds=10)
        for key in world.metacontroller.parents():
            world.metacontroller.sync(key, times=2)
    assert world.sizes() == ["12Gi"]
    assert [request_of(claim) for claim in world.objects(CLAIMS).values()] == [12 * GIB]
