"""`python -m bench`: a Markdown table of ratios; ends with 1 if one that we hold is missed by more than a quarter."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.bodies import node_sync_body
from bench.load import Rate, measure, serving

ROUNDS = 5
TOLERANCE = 0.75


@dataclass(frozen=True)
class Row:
    what: str
    yardstick: str
    measured: str
    ratio: float
    hold: float

    @property
    def verdict(self) -> str:
        if self.ratio >= self.hold:
            return "held"
        return "missed, within a quarter" if self.ratio >= self.hold * TOLERANCE else "MISSED"


def node_labeler(seconds: float) -> Row:
    """Interleaved, so that a slow moment of the machine hits both."""
    body, path = node_sync_body(), "/node-labeler/sync"
    bare: list[Rate] = []
    ours: list[Rate] = []
    for number in range(1, ROUNDS + 1):
        for app, rates in (("bench.yardstick:app", bare), ("hooks.app:app", ours)):
            with serving(app) as server:
                rates.append(measure(server, path, body, seconds))
        print(f"bench: round {number} of {ROUNDS}", file=sys.stderr, flush=True)
    ratio = median(mine.per_cpu_second / yours.per_cpu_second for mine, yours in zip(ours, bare, strict=True))
    return Row(
        what=f"node-labeler sync, {len(body) / 1000:.0f} KB Node, metrics on",
        yardstick=f"bare ASGI app, {_rate(bare)}",
        measured=_rate(ours),
        ratio=ratio,
        hold=0.25,
    )


def _rate(rates: Sequence[Rate]) -> str:
    per_second, busy = (
        median(values) for values in zip(*((r.requests_per_second, r.server_busy) for r in rates), strict=True)
    )
    return f"{per_second:,.0f} req/s (core {busy:.0%} busy)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each round of each server takes (2)")
    rows = [node_labeler(parser.parse_args().seconds)]
    print("| what | yardstick in the same run | measured | ratio | hold | |\n|---|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.what} | {row.yardstick} | {row.measured} | {row.ratio:.2f} | at least {row.hold} | {row.verdict} |"
        )
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
