"""A row of the table: what was measured, against what, and what we hold."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

SLACK = 0.25
"""A hold that is missed by more than this part of it fails the run."""
HEADER = "| what | yardstick in the same run | measured | ratio or count | hold | |\n|---|---|---|---|---|---|"


class Hold(NamedTuple):
    bound: Literal["at least", "at most"]
    limit: float
    unit: str = ""

    def is_kept(self, value: float, slack: float = 0) -> bool:
        if self.bound == "at least":
            return value >= self.limit * (1 - slack)
        return value <= self.limit * (1 + slack)

    def __str__(self) -> str:
        return f"{self.bound} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Row:
    what: str
    yardstick: str
    measured: str
    value: float | None  # None if it could not be measured: `measured` says why
    hold: Hold

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.hold.is_kept(self.value):
            return "held"
        return "missed, within a quarter" if self.hold.is_kept(self.value, SLACK) else "MISSED"

    def __str__(self) -> str:
        value = "" if self.value is None else f"{self.value:.3g}{self.hold.unit}"
        return f"| {self.what} | {self.yardstick} | {self.measured} | {value} | {self.hold} | {self.verdict} |"
