"""Groups of nodes by the value of one label, and a name for each that depends on its value alone."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hooks.agents.shapes import NodeShape
from hooks.agents.sizes import Amount, smallest

LONGEST_READABLE = 50
LONGEST_PREFIX, LONGEST_NAME = 40, 63
"""A DaemonSet's name is also the value of the label by which it knows its pods."""
_HASH_LENGTH = 6
_UNSAFE = re.compile(r"[^a-zA-Z0-9]+")
_LOOKS_HASHED = re.compile(r"-[0-9a-f]{6}$")
_NO_LABEL = "\0"  # no label can have this value


@dataclass(frozen=True)
class Group:
    """The nodes whose label has this value; None: those that have no such label."""

    value: str | None
    shapes: Sequence[NodeShape] = ()

    @property
    def allocatable(self) -> Amount | None:
        """Of the smallest node; None if no node says what it can allocate."""
        known = [amount for shape in self.shapes if (amount := shape.allocatable)]
        return smallest(known) if known else None

    def __str__(self) -> str:
        return show(self.value)


def show(value: str | None) -> str:
    return "nodes without the label" if value is None else f'"{value}"'


def group_nodes(shapes: Iterable[NodeShape], label: str) -> Mapping[str | None, Group]:
    """Nodes without the label first, then by value."""
    members: dict[str | None, list[NodeShape]] = {}
    for shape in shapes:
        members.setdefault(shape.labels.get(label), []).append(shape)
    ordered = sorted(members, key=lambda value: (value is not None, value or ""))
    return {value: Group(value, members[value]) for value in ordered}


def name_for(prefix: str, value: str | None) -> str:
    """The value made DNS-safe as the original does; with a hash wherever that loses something.

    So a name never depends on which other groups there are, and no two values share one: what looks like a name with a
    hash gets another hash.
    """
    readable = _readable(value)
    if readable == value and not _LOOKS_HASHED.search(readable) and len(prefix) + 1 + len(readable) <= LONGEST_NAME:
        return f"{prefix}-{readable}"
    room = LONGEST_NAME - len(prefix) - _HASH_LENGTH - 2
    return f"{prefix}-{readable[:room].strip('-')}-{_hash(value)}"


def plain_name(prefix: str, value: str | None) -> str:
    """The name that the original gives, if no other group of its would have the same."""
    return f"{prefix}-{_readable(value)}"


def _readable(value: str | None) -> str:
    return _UNSAFE.sub("-", value or "").lower().strip("-")[:LONGEST_READABLE].strip("-") or "default"


def _hash(value: str | None) -> str:
    return hashlib.sha256((_NO_LABEL if value is None else value).encode()).hexdigest()[:_HASH_LENGTH]
