"""Gauges of objects that several servers share: shown until they are too old, and never twice."""

from prometheus_client import CollectorRegistry

from hooks import wire
from hooks.service.metrics import Metrics

USAGE = "volume_autoscaler_pvc_usage_percent"


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def usage(percent: int, *, pvc: str = "a") -> wire.Measurement:
    return wire.Measurement(USAGE, percent, {"namespace": "db", "pvc": pvc, "volumeautoscaler": "all"})


def report(metrics: Metrics, *values: wire.Measurement, source: str = "db/all") -> None:
    gauges = wire.Gauges(source=source, lasts_seconds=120, values=values)
    metrics.decided("volume_autoscaler", wire.Outcome(response=wire.DecoratorResponse(), gauges=gauges))


def shown(registry: CollectorRegistry) -> dict[str, float]:
    families = [family for family in registry.collect() if family.name == USAGE]
    return {sample.labels["pvc"]: sample.value for family in families for sample in family.samples}


def test_shows_what_was_seen_last() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "1", Clock())
    report(metrics, usage(50), usage(60, pvc="b"))
    assert shown(registry) == {"a": 50, "b": 60}
    report(metrics, usage(70))

    assert shown(registry) == {"a": 70}, "b is gone, or another server looks after it"


def test_drops_what_was_not_seen_again_within_two_polls() -> None:
    registry, clock = CollectorRegistry(), Clock()
    metrics = Metrics(registry, "1", clock)
    report(metrics, usage(50))
    clock.seconds = 119
    assert shown(registry) == {"a": 50}
    clock.seconds = 120

    assert shown(registry) == {}


def test_objects_do_not_replace_each_other() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "1", Clock())
    report(metrics, usage(50))
    report(metrics, usage(60, pvc="b"), source="db/other")

    assert shown(registry) == {"a": 50, "b": 60}


def test_counts_what_is_asked_of_the_backend() -> None:
    registry = CollectorRegistry()
    Metrics(registry, "1").asked_backend("200", 0.5)

    assert registry.get_sample_value("volume_autoscaler_backend_requests_total", {"code": "200"}) == 1
    assert registry.get_sample_value("volume_autoscaler_backend_duration_seconds_sum") == 0.5


def test_only_syncs_of_volume_autoscalers_are_reconciles() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, "1")
    metrics.answered("volume_autoscaler", "sync", "ok", 0.25)
    metrics.answered("volume_autoscaler", "customize", "ok", 1)
    metrics.answered("volume_claim", "sync", "ok", 1)

    assert registry.get_sample_value("volume_autoscaler_reconcile_duration_seconds_sum") == 0.25


def step(pvc: str) -> wire.Measurement:
    labels = {"namespace": "db", "volumeautoscaler": "all", "pvc": pvc}
    return wire.Measurement("volume_autoscaler_scale_events_total", 1, labels)


def test_counters_of_claims_that_are_gone_are_dropped_after_a_day() -> None:
    registry, clock = CollectorRegistry(), Clock()
    metrics = Metrics(registry, "1", clock)
    metrics.measured([step("gone"), step("busy")])
    clock.seconds = 24 * 3600
    metrics.measured([step("busy")])
    clock.seconds = 24 * 3600 + 1
    metrics.measured([step("new")])

    counted = {
        sample.labels["pvc"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "volume_autoscaler_scale_events_total"
    }
    assert counted == {"busy": 2, "new": 1}


def test_what_nobody_scrapes_does_not_pile_up() -> None:
    clock = Clock()
    metrics = Metrics(CollectorRegistry(), "1", clock)
    for number in range(1000):
        clock.seconds += 1
        report(metrics, usage(1), source=f"db/{number}")

    assert len(metrics.seen._reports) < 400, "120 are fresh"
