"""How much an agent gets on the nodes of a group: percentages of what the smallest of them can allocate, within bounds.

The arithmetic is the original's, to the last unit: whole millicores and whole bytes, rounded down.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from hooks.kube.metadata import JsonObject
from hooks.kube.quantity import format_binary, format_milli

KIB, MIB = 2**10, 2**20
WORTH_A_ROLLOUT = Fraction(5, 100)
"""Nodes of one type differ by about one percent: to swap one for another must not restart the agent everywhere."""


@dataclass(frozen=True)
class Amount:
    """CPU and memory of a node, or of a part of it."""

    cpu_milli: int
    memory_bytes: int

    def part(self, cpu_percent: Fraction, memory_percent: Fraction) -> "Amount":
        return Amount(int(self.cpu_milli * cpu_percent / 100), int(self.memory_bytes * memory_percent / 100))

    def within(self, least: "Amount", most: "Amount") -> "Amount":
        return Amount(
            max(least.cpu_milli, min(self.cpu_milli, most.cpu_milli)),
            max(least.memory_bytes, min(self.memory_bytes, most.memory_bytes)),
        )

    def at_least(self, other: "Amount") -> "Amount":
        return Amount(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))

    def rounded(self, least: "Amount") -> "Amount":
        """Memory in whole Mi (Ki, bytes if there is less), but not below the least."""
        unit = MIB if self.memory_bytes >= MIB else KIB if self.memory_bytes >= KIB else 1
        return Amount(self.cpu_milli, self.memory_bytes - self.memory_bytes % unit).at_least(least)

    def resources(self) -> JsonObject:
        """In the form in which Kubernetes stores it."""
        return {"cpu": format_milli(self.cpu_milli), "memory": format_binary(self.memory_bytes)}


def smallest(amounts: Iterable[Amount]) -> Amount:
    """Of each the least: a node with little memory need not be the one with few cores."""
    known = list(amounts)
    return Amount(min(a.cpu_milli for a in known), min(a.memory_bytes for a in known))


@dataclass(frozen=True)
class Percentages:
    request_cpu: Fraction
    request_memory: Fraction
    limit_cpu: Fraction
    limit_memory: Fraction


@dataclass(frozen=True)
class Bounds:
    percentages: Percentages
    least: Amount
    most: Amount
    go_mem_limit_percent: Fraction


@dataclass(frozen=True)
class Size:
    requests: Amount
    limits: Amount
    go_mem_limit_mib: int

    @property
    def go_mem_limit(self) -> str:
        return f"{self.go_mem_limit_mib}MiB"

    def resources(self) -> JsonObject:
        return {"requests": self.requests.resources(), "limits": self.limits.resources()}

    def __str__(self) -> str:
        asked, most = self.requests.resources(), self.limits.resources()
        return f"{asked['cpu']} CPU and {asked['memory']}, at most {most['cpu']} and {most['memory']}"

    def is_close_to(self, other: "Size") -> bool:
        """Whether no figure differs by more than what is worth a rollout."""
        return all(
            abs(mine - theirs) <= theirs * WORTH_A_ROLLOUT
            for mine, theirs in zip(self._figures(), other._figures(), strict=True)
        )

    def _figures(self) -> tuple[int, int, int, int]:
        return (
            self.requests.cpu_milli,
            self.requests.memory_bytes,
            self.limits.cpu_milli,
            self.limits.memory_bytes,
        )


def size_for(allocatable: Amount, bounds: Bounds) -> Size:
    """Requests and limits share the bounds; a limit is never below its request."""
    shares = bounds.percentages
    requests = allocatable.part(shares.request_cpu, shares.request_memory).within(bounds.least, bounds.most)
    limits = allocatable.part(shares.limit_cpu, shares.limit_memory).within(bounds.least, bounds.most)
    limits = limits.at_least(requests)
    go_mem_limit = max(1, int(limits.memory_bytes * bounds.go_mem_limit_percent / 100) // MIB)
    return Size(requests.rounded(bounds.least), limits.rounded(bounds.least), go_mem_limit)
