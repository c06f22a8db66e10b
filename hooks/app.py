"""Assembles the hooks and the service into the FastAPI app: the one place that knows both sides.

`uvicorn hooks.app:app` runs it; `python -m hooks serve` does so with the connection settings that Metacontroller needs.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_fastapi_instrumentator import Instrumentator
from prometheus_fastapi_instrumentator import metrics as http_metrics
from starlette.types import Receive, Scope, Send

from hooks import (
    __version__,
    examples,
    node_agent,
    node_labeler,
    node_shape,
    storage_data,
    storage_nodes,
    volume_admission,
    volume_autoscaler,
    volume_claim,
)
from hooks.service.endpoint import Ask, Clock, Hook, HookEndpoint
from hooks.service.logs import Logger, make_logger
from hooks.service.metrics import DURATION_BUCKETS, Metrics
from hooks.service.pages import add_pages
from hooks.service.prometheus import Prometheus
from hooks.service.settings import Settings

HOOKS: Sequence[Hook] = (
    Hook(
        name="node-labeler",
        what="Labels and annotations for Nodes, by rules over their names and labels.",
        request=node_labeler.SyncRequest,
        sync=node_labeler.sync,
        customize=node_labeler.customize,
        example=examples.NODE,
    ),
    Hook(
        name="volume-autoscaler",
        what="Claims that grow by themselves: from the usage that Prometheus knows, up to a limit.",
        request=volume_autoscaler.SyncRequest,
        sync=volume_autoscaler.sync,
        customize=volume_autoscaler.customize,
        question=volume_autoscaler.question,
        example=examples.AUTOSCALER,
    ),
    Hook(
        name="volume-claim",
        what="What a claim does for the volume autoscaler: it takes up the step that its VolumeExpansion asks for.",
        request=volume_claim.SyncRequest,
        sync=volume_claim.sync,
        customize=volume_claim.customize,
        admit=volume_admission.admit,
        example=examples.CLAIM,
    ),
    Hook(
        name="node-agent",
        what="One DaemonSet for each group of nodes, with requests and limits that fit these nodes.",
        request=node_agent.SyncRequest,
        sync=node_agent.sync,
        customize=node_agent.customize,
        example=examples.AGENT,
    ),
    Hook(
        name="node-shape",
        what="What the node agent autoscaler knows of a Node, in an object that heartbeats do not touch.",
        request=node_shape.SyncRequest,
        sync=node_shape.sync,
        example=examples.SHAPED_NODE,
    ),
    Hook(
        name="storage-nodes",
        what="The label sds-replicated-volume-node, on Nodes that a ReplicatedStorageClass means or that hold data.",
        request=storage_nodes.SyncRequest,
        sync=storage_nodes.sync,
        customize=storage_nodes.customize,
        example=examples.STORAGE_NODE,
    ),
    Hook(
        name="storage-data",
        what="A label on each DRBDResource with the name of its node, for the guard of the storage nodes.",
        request=storage_data.SyncRequest,
        sync=storage_data.sync,
        example=examples.DRBD_RESOURCE,
    ),
)


class HookApp(FastAPI):
    """Answers the paths of hooks itself, before the layers of the framework: they cost more than a hook does."""

    endpoints: Mapping[str, HookEndpoint] = MappingProxyType({})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.endpoints.get(scope["path"]) if scope["type"] == "http" else None
        await (endpoint or super().__call__)(scope, receive, send)


def create_app(
    settings: Settings | None = None,
    *,
    hooks: Sequence[Hook] = HOOKS,
    registry: CollectorRegistry | None = None,
    clock: Clock = lambda: datetime.now(UTC),
    logger: Logger | None = None,
    ask: Ask | None = None,
) -> HookApp:
    settings = settings or Settings()
    registry = registry or process_registry()
    metrics = Metrics(registry, __version__)
    logger = logger or make_logger(settings)
    prometheus = Prometheus(settings, count=metrics.asked_backend, logger=logger)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await prometheus.aclose()

    app = HookApp(
        title="Metahooks",
        version=__version__,
        description="Kubernetes controllers as pure functions.",
        lifespan=lifespan,
    )
    app.endpoints = {
        f"/{hook.name}/{action}": HookEndpoint(
            hook=hook,
            action=action,
            metrics=metrics,
            logger=logger,
            clock=clock,
            ask=ask or prometheus.ask,
            max_body_bytes=settings.max_body_bytes,
        )
        for hook in hooks
        for action in hook.actions
    }
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


@cache
def _default_app() -> HookApp:
    return create_app()


def __getattr__(name: str) -> HookApp:
    """`app`, for `uvicorn hooks.app:app`: made when asked for, so that to import HOOKS reads no settings."""
    if name == "app":
        return _default_app()
    raise AttributeError(name)
