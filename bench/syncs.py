"""What a sync costs: CPU time against `json.loads` of the same body, and how long others wait for the server."""

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import NamedTuple

from bench.load import Server
from bench.rows import Hold, Row

Work = Callable[[bytes], Awaitable[object]]
ROUNDS = 15
SERVERS, SYNCS = 3, 12


# One sync


async def cpu_seconds(work: Work, body: bytes) -> float:
    """What else runs on the machine does not count. The garbage collector does, as in the server."""
    began = time.process_time()
    await work(body)
    return time.process_time() - began


async def load(body: bytes) -> None:
    """The yardstick."""
    json.loads(body)


def yardstick(body: bytes, seconds: Sequence[float]) -> str:
    return f"json.loads of the same {len(body) / 1e6:.1f} MB, {milliseconds(seconds)}"


def milliseconds(seconds: Sequence[float]) -> str:
    return f"{median(seconds) * 1000:.0f} ms"


# What others notice


class Stall(NamedTuple):
    """Seconds that a probe waited."""

    by_the_clock: float
    own: float  # without those in which something else had the server's core


class Probed(NamedTuple):
    stalls: Sequence[Stall]
    peak_bytes: int

    @property
    def worst(self) -> float:
        return max(stall.own for stall in self.stalls)


def probed_during(server: Server, path: str, body: bytes, *, at_once: int = 1, syncs: int = SYNCS) -> Probed:
    """How long the server leaves a probe without an answer while it syncs."""
    stalls: list[Stall] = []
    with ThreadPoolExecutor(at_once) as clients:
        asked = [clients.submit(server.request, "POST", path, body) for _ in range(syncs)]
        while not all(sync.done() for sync in asked):
            stalls.append(_probe(server))
            time.sleep(0.01)
    for sync in asked:
        sync.result()
    return Probed(stalls, server.peak_bytes())


def _probe(server: Server) -> Stall:
    began, queued = time.perf_counter(), server.queued_seconds()
    server.request("GET", "/healthz")
    took = time.perf_counter() - began
    return Stall(took, took - (server.queued_seconds() - queued))


def worst_stall(what: str, servers: Sequence[Probed]) -> Row:
    """The median of several servers."""
    by_the_clock = max(stall.by_the_clock for server in servers for stall in server.stalls)
    peak = max(server.peak_bytes for server in servers)
    return Row(
        what=f"worst /healthz stall during {what}",
        yardstick="",
        measured=f"{', '.join(f'{server.worst:.2f}' for server in servers)} s with {len(servers)} servers, "
        f"{by_the_clock:.2f} s where others had the core too; a server's memory peaked at {peak >> 20} MiB",
        value=median(server.worst for server in servers),
        hold=Hold("at most", 0.5, " s"),
    )
