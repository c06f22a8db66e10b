"""Durations as Go writes and reads them: 90s, 5m0s, 1h30m, 1.5s, 100ms. There are no days."""

import re
from datetime import timedelta

from hooks.kube.quote import quote

_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,  # U+03BC, the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^.0-9]+)")
_LIMIT_NS = 2**63
_LIMIT_DIGITS = 19  # of an int64; also far finer than a nanosecond of an hour
_SCALE: int = 10**_LIMIT_DIGITS
_MICROSECOND = timedelta(microseconds=1)


class InvalidDuration(ValueError):
    """The text is not a duration, or the duration does not fit in Go's int64 nanoseconds (292 years)."""


def parse_duration(text: str) -> timedelta:
    """What Go's time.ParseDuration accepts. Below a microsecond it rounds away from zero: 1ns is not nothing."""
    magnitude = text[1:] if text[:1] in ("+", "-") else text
    nanoseconds = 0 if magnitude == "0" else _nanoseconds(magnitude, text)
    is_negative = text.startswith("-")
    if nanoseconds > _LIMIT_NS - (not is_negative):
        raise _too_long(text)
    microseconds = -(-nanoseconds // 1000)
    return timedelta(microseconds=-microseconds if is_negative else microseconds)


def format_duration(value: timedelta) -> str:
    """Go's Duration.String(): 1m30s, 5m0s, 1.5s, 20ms, 0s."""
    microseconds = value // _MICROSECOND
    magnitude = abs(microseconds)
    if magnitude * 1000 > _LIMIT_NS - (microseconds >= 0):
        raise _too_long(str(value))
    return ("-" if microseconds < 0 else "") + (_clock(magnitude) if magnitude >= 10**6 else _below_second(magnitude))


def _nanoseconds(magnitude: str, text: str) -> int:
    total, position = 0, 0
    while position < len(magnitude) or not position:
        match = _PART.match(magnitude, position)
        if match is None:
            raise _malformed(text)
        total += _part_ns(match, text)
        position = match.end()
    return total


def _part_ns(match: re.Match[str], text: str) -> int:
    whole, fraction, unit = match[1].lstrip("0"), (match[2] or "")[:_LIMIT_DIGITS], _UNITS_NS.get(match[3])
    if unit is None or not (match[1] or fraction):
        raise _malformed(text)
    if len(whole) > _LIMIT_DIGITS:
        raise _too_long(text)
    return (int(whole or "0") * _SCALE + int(fraction.ljust(_LIMIT_DIGITS, "0"))) * unit // _SCALE


def _below_second(microseconds: int) -> str:
    if microseconds == 0:
        return "0s"
    if microseconds < 1000:
        return f"{microseconds}µs"
    return f"{_decimal(microseconds, places=3)}ms"


def _clock(microseconds: int) -> str:
    minutes, rest = divmod(microseconds, 60 * 10**6)
    seconds = f"{_decimal(rest, places=6)}s"
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def _decimal(number: int, *, places: int) -> str:
    whole, fraction = divmod(number, 10**places)
    return f"{whole}.{fraction:0{places}}".rstrip("0").rstrip(".")


def _malformed(text: str) -> InvalidDuration:
    return InvalidDuration(f"{quote(text)} is not a duration such as 90s, 5m or 1h30m")


def _too_long(text: str) -> InvalidDuration:
    return InvalidDuration(f"duration {quote(text)} is longer than 292 years")
