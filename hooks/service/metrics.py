"""Every metric that this service adds to those of prometheus-fastapi-instrumentator.

Names that the operators before us used are kept, so that dashboards and alerts go on working.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hooks import wire

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Up to 10 seconds, when Metacontroller gives up on a hook."""
LONGEST_COUNTED_SECONDS = 24 * 3600


class Metrics:
    """The metrics of one server; each has a registry of its own, so that tests do not share counts."""

    def __init__(
        self, registry: CollectorRegistry, version: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
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
            "storage_nodes_labels_applied_total": Counter(
                "storage_nodes_labels_applied_total", "Nodes that an answer labelled.", registry=registry
            ),
            "storage_nodes_labels_removed_total": Counter(
                "storage_nodes_labels_removed_total", "Nodes that an answer took the label off.", registry=registry
            ),
            "storage_nodes_errors_total": Counter(
                "storage_nodes_errors_total", "Syncs of Nodes that were answered with an error.", registry=registry
            ),
            "volume_autoscaler_scale_events_total": Counter(
                "volume_autoscaler_scale_events_total",
                "Steps that were decided; a step that takes the place of one that came to nothing is not counted.",
                ["namespace", "pvc", "volumeautoscaler"],
                registry=registry,
            ),
            "volume_autoscaler_poll_errors_total": Counter(
                "volume_autoscaler_poll_errors_total",
                "What went wrong in polls: resolve_pvcs (the target cannot be used, or the named claim is missing), "
                "prometheus_query (claims whose usage is not known), patch_pvc (steps that were found refused).",
                ["namespace", "volumeautoscaler", "reason"],
                registry=registry,
            ),
            "node_agent_autoscaler_resizes_total": Counter(
                "node_agent_autoscaler_resizes_total",
                "DaemonSets that got another size because their smallest node is another one.",
                ["namespace", "nodeagentautoscaler"],
                registry=registry,
            ),
            "node_agent_autoscaler_render_errors_total": Counter(
                "node_agent_autoscaler_render_errors_total",
                "Syncs whose template was missing or no DaemonSet could be made of; once per group if only some fail.",
                ["namespace", "nodeagentautoscaler"],
                registry=registry,
            ),
        }
        self.reconciles = Histogram(
            "volume_autoscaler_reconcile_duration_seconds",
            "Time that a sync of a VolumeAutoscaler took, the question to Prometheus included.",
            registry=registry,
        )
        self.backend_requests = Counter(
            "volume_autoscaler_backend_requests_total",
            "Requests to the metrics backend, by HTTP status, or timeout, or error.",
            ["code"],
            registry=registry,
        )
        self.backend_duration = Histogram(
            "volume_autoscaler_backend_duration_seconds",
            "Time that a request to the metrics backend took.",
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.seen = Seen(monotonic)
        registry.register(self.seen)
        self._monotonic = monotonic
        self._counted: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def answered(self, hook: str, action: str, result: str, seconds: float) -> None:
        self.requests.labels(hook, result).inc()
        self.duration.labels(hook).observe(seconds)
        if hook == "volume_autoscaler" and action == "sync":
            self.reconciles.observe(seconds)
        if result != "ok" and action == "sync" and (errors := self.of_hooks.get(f"{hook}_errors_total")):
            errors.inc()

    def decided(self, hook: str, outcome: wire.Outcome) -> None:
        for decision in outcome.decisions:
            self.decisions.labels(hook, decision.reason).inc()
        self.measured(outcome.measurements)
        if outcome.gauges:
            self.seen.report(outcome.gauges)

    def asked_backend(self, code: str, seconds: float) -> None:
        self.backend_requests.labels(code).inc()
        self.backend_duration.observe(seconds)

    def measured(self, measurements: Sequence[wire.Measurement]) -> None:
        for measurement in measurements:
            counter = self.of_hooks[measurement.metric]
            if measurement.labels:
                counter.labels(**measurement.labels).inc(measurement.value)
                self._remember(measurement)
            else:
                counter.inc(measurement.value)

    def _remember(self, measurement: wire.Measurement) -> None:
        """Claims come and go, so a series that was not counted for a day is dropped.

        Not sooner: a series that comes back begins at one, and what made it one is then lost to `increase`.
        """
        key, now = (measurement.metric, tuple(measurement.labels.items())), self._monotonic()
        self._counted.pop(key, None)
        self._counted[key] = now
        while now - self._counted[oldest := next(iter(self._counted))] > LONGEST_COUNTED_SECONDS:
            del self._counted[oldest]
            self.of_hooks[oldest[0]].remove_by_labels(dict(oldest[1]))


GAUGES: Mapping[str, tuple[str, Sequence[str]]] = {
    "volume_autoscaler_pvc_usage_percent": (
        "How full a claim's file system is.",
        ["namespace", "pvc", "volumeautoscaler"],
    ),
    "volume_autoscaler_stuck_seconds": (
        "For how long a claim has been asked to grow without effect; absent if it is not.",
        ["namespace", "pvc", "volumeautoscaler"],
    ),
    "volume_autoscaler_claims": (
        "Claims by what was last decided about them. Replicas share the work: take the maximum over them, then sum.",
        ["namespace", "volumeautoscaler", "reason"],
    ),
    "node_agent_autoscaler_groups": (
        "Groups of nodes by what was last decided about their DaemonSet.",
        ["namespace", "nodeagentautoscaler", "reason"],
    ),
    "node_agent_autoscaler_nodes": (
        "Nodes of a group.",
        ["namespace", "nodeagentautoscaler", "group"],
    ),
}


class Seen(Collector):
    """What hooks saw last, until it is too old: see `wire.Gauges`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._reports: dict[str, tuple[float, wire.Gauges]] = {}
        self._most = 100

    def report(self, gauges: wire.Gauges) -> None:
        self._reports[gauges.source] = (self._now() + gauges.lasts_seconds, gauges)
        if len(self._reports) > self._most:  # seldom: nobody may be scraping
            self._forget_old()
            self._most = 2 * len(self._reports) + 100

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self._forget_old()
        families = {name: GaugeMetricFamily(name, text, labels=labels) for name, (text, labels) in GAUGES.items()}
        for _, gauges in self._reports.values():
            for value in gauges.values:
                labels = GAUGES[value.metric][1]
                families[value.metric].add_metric([value.labels[label] for label in labels], value.value)
        yield from families.values()

    def _forget_old(self) -> None:
        now = self._now()
        self._reports = {source: held for source, held in self._reports.items() if held[0] > now}
