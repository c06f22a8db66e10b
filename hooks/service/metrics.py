"""Every metric that this service adds to those of prometheus-fastapi-instrumentator.

Names that the operators before us used are kept, so that dashboards and alerts go on working.
"""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from hooks import wire

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Up to 10 seconds, when Metacontroller gives up on a hook."""


class Metrics:
    """The metrics of one server; each has a registry of its own, so that tests do not share counts."""

    def __init__(self, registry: CollectorRegistry, version: str) -> None:
        self.registry = registry
        self.requests = Counter(
            "metahooks_hook_requests_total",
            "Requests to a hook by result: ok, retry_later, invalid, too_large, error.",
            ["hook", "result"],
            registry=registry,
        )
        self.duration = Histogram(
            "metahooks_hook_duration_seconds",
            "Time from the whole request body to the answer.",
            ["hook"],
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.decisions = Counter(
            "metahooks_decisions_total",
            "Decisions in answers, by reason; those that change nothing count too.",
            ["hook", "reason"],
            registry=registry,
        )
        build = Gauge("metahooks_build_info", "Always 1; the version is in the label.", ["version"], registry=registry)
        build.labels(version).set(1)
        self.of_hooks = {
            "node_labeler_labels_applied_total": Counter(
                "node_labeler_labels_applied_total", "Labels that an answer added to a Node.", registry=registry
            ),
            "node_labeler_errors_total": Counter(
                "node_labeler_errors_total", "Syncs of Nodes that were answered with an error.", registry=registry
            ),
        }

    def answered(self, hook: str, action: str, result: str, seconds: float) -> None:
        self.requests.labels(hook, result).inc()
        self.duration.labels(hook).observe(seconds)
        if result != "ok" and action == "sync" and (errors := self.of_hooks.get(f"{hook}_errors_total")):
            errors.inc()

    def decided(self, hook: str, outcome: wire.Outcome) -> None:
        for decision in outcome.decisions:
            self.decisions.labels(hook, decision.reason).inc()
        self.measured(outcome.measurements)

    def measured(self, measurements: Sequence[wire.Measurement]) -> None:
        for measurement in measurements:
            counter = self.of_hooks[measurement.metric]
            (counter.labels(**measurement.labels) if measurement.labels else counter).inc(measurement.value)
