"""The node labeler over HTTP, against the fastest that its server can be."""

from collections.abc import Sequence
from statistics import median

from bench.bodies import node_sync_body
from bench.load import Rate, measure, serving
from bench.progress import say
from bench.rows import Hold, Row

ROUNDS = 5


def throughput(seconds: float) -> Row:
    """Interleaved, so that a slow moment of the machine hits both."""
    body, path = node_sync_body(), "/node-labeler/sync"
    bare: list[Rate] = []
    ours: list[Rate] = []
    for number in range(1, ROUNDS + 1):
        for app, rates in (("bench.yardstick:app", bare), ("hooks.app:app", ours)):
            with serving(app) as server:
                rates.append(measure(server, path, body, seconds))
        say(f"node labeler, round {number} of {ROUNDS}")
    return Row(
        what=f"node-labeler sync, {len(body) / 1000:.0f} KB Node, metrics on",
        yardstick=f"bare ASGI app, {_rate(bare)}",
        measured=_rate(ours),
        value=median(mine.per_cpu_second / yours.per_cpu_second for mine, yours in zip(ours, bare, strict=True)),
        hold=Hold("at least", 0.25),
    )


def _rate(rates: Sequence[Rate]) -> str:
    per_second, busy = (
        median(values) for values in zip(*((r.requests_per_second, r.server_busy) for r in rates), strict=True)
    )
    return f"{per_second:,.0f} req/s (core {busy:.0%} busy)"
