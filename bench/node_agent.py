"""The node agent autoscaler with up to 5,000 nodes: how long a sync takes, and how long it holds up others."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median

from prometheus_client import CollectorRegistry

from bench.agent_bodies import TYPES, sync_body
from bench.load import serving
from bench.progress import say
from bench.rows import Hold, Row
from bench.syncs import ROUNDS, SERVERS, Probed, cpu_seconds, load, milliseconds, probed_during, worst_stall, yardstick
from hooks.app import create_app
from hooks.service.settings import Settings

PATH = "/node-agent/sync"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
NODES = (100, 1000, 5000)
SYNCS = 6


def sync_times() -> Sequence[Row]:
    return [_sync_time(nodes) for nodes in NODES]


def _sync_time(nodes: int) -> Row:
    body = sync_body(nodes, NOW)
    rounds = asyncio.run(_rounds(body))
    say(f"node agent, sync of {nodes:,} NodeShapes")
    return Row(
        what=f"node-agent sync, {nodes:,} NodeShapes, {len(TYPES)} groups at rest",
        yardstick=yardstick(body, [loaded for loaded, _ in rounds]),
        measured=milliseconds([synced for _, synced in rounds]),
        value=median(synced / loaded for loaded, synced in rounds),
        hold=Hold("at most", 1.5),
    )


async def _rounds(body: bytes) -> Sequence[tuple[float, float]]:
    """CPU seconds of the yardstick and of a sync, from its bytes to those of its answer, with metrics.

    Interleaved, so that a slow moment of the machine hits both.
    """
    app = create_app(Settings(log_level="error"), registry=CollectorRegistry(), clock=lambda: NOW)
    sync = app.endpoints[PATH].answer
    _check_at_rest((await sync(body)).body, body)
    return [(await cpu_seconds(load, body), await cpu_seconds(sync, body)) for _ in range(ROUNDS)]


def _check_at_rest(answer: bytes, body: bytes) -> None:
    told, request = json.loads(answer), json.loads(body)
    reasons = Counter(group["reason"] for group in told["status"]["nodeGroups"])
    is_same = told["status"] | {"observedGeneration": 1} == request["parent"]["status"]
    if reasons != {"Running": len(TYPES)} or len(told["children"]) != len(TYPES) or not is_same:
        raise RuntimeError(f"not the sync that was to be measured: {dict(reasons)}")


def stalls() -> Sequence[Row]:
    body = sync_body(NODES[-1], NOW)
    servers = [_probed(body) for _ in range(SERVERS)]
    say("node agent, stalls")
    return [worst_stall(f"{SYNCS} syncs of {NODES[-1]:,} NodeShapes over HTTP, one after the other", servers)]


def _probed(body: bytes) -> Probed:
    with serving("hooks.app:app") as server:
        return probed_during(server, PATH, body, syncs=SYNCS)
