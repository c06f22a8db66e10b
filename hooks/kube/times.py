"""Points in time as Kubernetes writes them: RFC 3339, UTC, whole seconds."""

import re
from datetime import UTC, datetime

from hooks.kube.quote import quote

# Python's own reader takes more than RFC 3339: week dates, 24:00, blanks. Years and days are left to it.
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)


class InvalidTime(ValueError):
    """The text is not an RFC 3339 time."""


def format_time(now: datetime) -> str:
    """2026-01-02T03:04:05Z; a fraction of a second is dropped."""
    if now.tzinfo is None:
        raise InvalidTime("a time without a time zone has no place in Kubernetes")
    return now.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_time(text: str) -> datetime:
    """Aware, in UTC; digits finer than a microsecond are dropped."""
    try:
        if not _RFC_3339.fullmatch(text):
            raise ValueError("not RFC 3339")
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(f"{quote(text)} is not a time such as 2026-01-02T03:04:05Z") from error
