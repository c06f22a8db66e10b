"""Assembles the hooks and the service into the FastAPI app: the one place that knows both sides.

`uvicorn hooks.app:app` runs it; `python -m hooks serve` does so with the connection settings that Metacontroller needs.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_fastapi_instrumentator import Instrumentator
from prometheus_fastapi_instrumentator import metrics as http_metrics
from starlette.routing import Route

from hooks import __version__, node_labeler
from hooks.service.endpoint import Action, Clock, Hook, HookEndpoint
from hooks.service.logs import Logger, make_logger
from hooks.service.metrics import DURATION_BUCKETS, Metrics
from hooks.service.pages import add_pages
from hooks.service.settings import Settings

HOOKS: Sequence[Hook] = (
    Hook(
        name="node-labeler",
        what="Labels and annotations for Nodes, by rules over their names and labels.",
        request=node_labeler.SyncRequest,
        sync=node_labeler.sync,
        customize=node_labeler.customize,
        example={"object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "rke2-prod-compute-x7k2p"}}},
    ),
)
ACTIONS: Sequence[Action] = ("sync", "customize")


def create_app(
    settings: Settings | None = None,
    *,
    hooks: Sequence[Hook] = HOOKS,
    registry: CollectorRegistry | None = None,
    clock: Clock = lambda: datetime.now(UTC),
    logger: Logger | None = None,
) -> FastAPI:
    settings = settings or Settings()
    registry = registry or process_registry()
    metrics = Metrics(registry, __version__)
    logger = logger or make_logger(settings)
    app = FastAPI(title="Metahooks", version=__version__, description="Kubernetes controllers as pure functions.")
    for hook in hooks:
        for action in ACTIONS:
            endpoint = HookEndpoint(
                hook=hook,
                action=action,
                metrics=metrics,
                logger=logger,
                clock=clock,
                max_body_bytes=settings.max_body_bytes,
            )
            # Before FastAPI's own routes: the ones that are asked for most are looked at first.
            app.router.routes.insert(0, Route(f"/{hook.name}/{action}", endpoint, methods=["POST"], name=hook.name))
    add_pages(app, hooks)
    instrument(app, registry)
    return app


def process_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    return registry


def instrument(app: FastAPI, registry: CollectorRegistry) -> None:
    instrumentator = Instrumentator(registry=registry, should_group_status_codes=False)
    instrumentator.add(
        http_metrics.requests(registry=registry),
        http_metrics.latency(registry=registry, buckets=DURATION_BUCKETS),
    )
    instrumentator.instrument(app).expose(app, tags=["operations"], summary="Metrics for Prometheus")


app = create_app()
