"""The volume autoscaler with 1,000 claims: how long a sync takes, how long it holds up others, how often it asks."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from bench.backend import Backend, answering
from bench.load import Server, serving
from bench.progress import say
from bench.rows import Hold, Row
from bench.syncs import (
    ROUNDS,
    SERVERS,
    SYNCS,
    Probed,
    cpu_seconds,
    load,
    milliseconds,
    probed_during,
    worst_stall,
    yardstick,
)
from bench.volume_bodies import POLL, Fleet, metrics_answer, sync_body, usages
from hooks.app import create_app
from hooks.service.endpoint import Answer
from hooks.service.settings import Settings
from hooks.volumes.usage import Question, Usages

PATH = "/volume-autoscaler/sync"
NOW = datetime(2026, 6, 1, tzinfo=UTC)
MANY = 1000


# One sync


class Times(NamedTuple):
    """CPU seconds."""

    yardstick: float
    poll: float
    extra: float


def sync_times() -> Sequence[Row]:
    body = sync_body(Fleet(MANY), NOW)
    rounds = asyncio.run(_rounds(body))
    against = yardstick(body, [times.yardstick for times in rounds])
    say("volume autoscaler, sync")
    return [
        Row(
            what=f"volume-autoscaler sync that polls, {MANY:,} claims, usage cached, every tenth grows",
            yardstick=against,
            measured=milliseconds([times.poll for times in rounds]),
            value=median(times.poll / times.yardstick for times in rounds),
            hold=Hold("at most", 1.5),
        ),
        Row(
            what="the same, an extra sync between polls",
            yardstick=against,
            measured=milliseconds([times.extra for times in rounds]),
            value=median(times.extra / times.yardstick for times in rounds),
            hold=Hold("at most", 1.5),
        ),
    ]


async def _rounds(body: bytes) -> Sequence[Times]:
    """Interleaved, so that a slow moment of the machine hits all."""
    poll, extra = _endpoint(NOW), _endpoint(NOW - POLL + timedelta(seconds=5))
    grown, rested = _reasons((await poll(body)).body), _reasons((await extra(body)).body)
    if grown.get("ExpandRequested") != MANY // 10 or "ExpandRequested" in rested:
        raise RuntimeError(f"not the syncs that were to be measured: {grown}, {rested}")
    return [
        Times(await cpu_seconds(load, body), await cpu_seconds(poll, body), await cpu_seconds(extra, body))
        for _ in range(ROUNDS)
    ]


def _endpoint(now: datetime) -> Callable[[bytes], Awaitable[Answer]]:
    """From the bytes of a request to those of its answer, with metrics, as the server does."""
    known = usages(Fleet(MANY))

    async def ask(_: Question) -> Usages:
        return known

    app = create_app(Settings(log_level="error"), registry=CollectorRegistry(), clock=lambda: now, ask=ask)
    return app.endpoints[PATH].answer


def _reasons(answer: bytes) -> Mapping[str, int]:
    reasons: Mapping[str, int] = json.loads(answer)["status"]["claimsByReason"]
    return reasons


# What others notice


def stalls() -> Sequence[Row]:
    """Each server asks the backend first."""
    now, fleet = _now(), Fleet(MANY)
    body, known = sync_body(fleet, now), metrics_answer([fleet], now)
    return [_worst_stall(body, known, at_once=at_once) for at_once in (1, 4)]


def _worst_stall(body: bytes, known: bytes, *, at_once: int) -> Row:
    servers = [_probed(body, known, at_once) for _ in range(SERVERS)]
    say(f"volume autoscaler, stalls with {at_once} at once")
    return worst_stall(f"{SYNCS} such syncs over HTTP, {at_once} at once", servers)


def _probed(body: bytes, known: bytes, at_once: int) -> Probed:
    with answering(known) as backend, _serving(backend) as server:
        return probed_during(server, PATH, body, at_once=at_once)


# What the backend notices


def backend_queries() -> Sequence[Row]:
    parts = [Fleet(MANY // 10, autoscaler=f"part-{n}", first=n * MANY // 10) for n in range(10)]
    rows = [_queries(f"{size:,} claims", [Fleet(size)]) for size in (10, 100, MANY)]
    rows.append(_queries(f"{MANY:,} claims of {len(parts)} VolumeAutoscalers that poll at once", parts))
    say("volume autoscaler, queries")
    return rows


def _queries(what: str, fleets: Sequence[Fleet]) -> Row:
    now = _now()
    bodies = [sync_body(fleet, now) for fleet in fleets]
    with answering(metrics_answer(fleets, now)) as backend, _serving(backend) as server:
        with ThreadPoolExecutor(len(bodies)) as clients:
            answers = [*clients.map(lambda body: server.request("POST", PATH, body), bodies)]
        queries = backend.queries
    grown = sum(_reasons(answer)["ExpandRequested"] for answer in answers)
    if grown * 10 != sum(fleet.size for fleet in fleets):
        raise RuntimeError(f"the syncs did not see the usage: {grown} claims were to grow")
    return Row(
        what=f"backend queries per poll, {what}",
        yardstick="",
        measured="counted at the backend",
        value=queries,
        hold=Hold("at most", 1),
    )


def _now() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def _serving(backend: Backend) -> AbstractContextManager[Server]:
    return serving("hooks.app:app", {"METAHOOKS_PROMETHEUS_URL": backend.url})
