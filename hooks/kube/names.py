"""Deterministic names of child objects: readable parts, then a hash that tells apart what reading cannot.

A changed name means that Metacontroller deletes one child and creates another, so the algorithm is frozen API.
"""

import re
from dataclasses import dataclass

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193
_HASH_LENGTH = 8
_CUT_MARK = "---"
_SHORTEST_LIMIT = 1 + len(_CUT_MARK) + _HASH_LENGTH
_UNSAFE = re.compile(r"[^a-z0-9-]")
_UPPER_TO_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a kind of object demands of its name."""

    max_length: int
    allows_leading_digit: bool = False

    def __post_init__(self) -> None:
        if self.max_length < _SHORTEST_LIMIT:
            raise ValueError(f"a name limit of {self.max_length} is below {_SHORTEST_LIMIT}")


DEFAULT = Constraint(253, allows_leading_digit=True)
SERVICE = Constraint(63)
POD = Constraint(60)
STATEFUL_SET = Constraint(52)  # 63 less the ordinal and the revision hash of its pods


def safety_hash(*parts: str) -> str:
    """FNV-1a over the parts, each ended by a zero byte: ("a-b", "c") and ("a", "b-c") differ."""
    state = _FNV_OFFSET
    for byte in b"".join(part.encode("utf-8", "surrogatepass") + b"\0" for part in parts):
        state = ((state ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return f"{state:08x}"


def join_name(limit: Constraint, *parts: str) -> str:
    """The parts made DNS-safe and joined by hyphens, with the hash of the original parts at the end."""
    if not parts:
        return ""
    readable = _safe_start("-".join(_safe(part) for part in parts), parts[0], limit)
    suffix = f"-{safety_hash(*parts)}"
    if len(readable) + len(suffix) <= limit.max_length:
        return readable + suffix
    return readable[: limit.max_length - _HASH_LENGTH - len(_CUT_MARK)] + "--" + suffix


def _safe(part: str) -> str:
    return _UNSAFE.sub("-", part.translate(_UPPER_TO_LOWER))


def _safe_start(readable: str, first_part: str, limit: Constraint) -> str:
    start = _safe(first_part[:1])
    is_allowed = start.isalpha() or (start.isdigit() and limit.allows_leading_digit)
    return readable if is_allowed else f"x{readable}"
