from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.times import InvalidTime, format_time, parse_time

offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
times = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31), timezones=offsets)  # noqa: DTZ001  # hypothesis adds the zone


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, 999999, tzinfo=UTC), "2026-01-02T03:04:05Z"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5))), "2026-01-01T22:04:05Z"),
        (datetime(33, 1, 2, tzinfo=UTC), "0033-01-02T00:00:00Z"),
    ],
)
def test_writes_utc_in_whole_seconds(now: datetime, expected: str) -> None:
    assert format_time(now) == expected


def test_refuses_a_time_without_a_zone() -> None:
    with pytest.raises(InvalidTime, match=r"^a time without a time zone has no place in Kubernetes$"):
        format_time(datetime(2026, 1, 2))  # noqa: DTZ001  # that is the mistake


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.5Z", datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=UTC)),
        ("2026-01-02T03:04:05.123456789Z", datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05.25-00:30", datetime(2026, 1, 2, 3, 34, 5, 250000, tzinfo=UTC)),
    ],
)
def test_reads_rfc_3339(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("2026-01-02", id="a date alone"),
        pytest.param("2026-01-02T03:04:05", id="no zone"),
        pytest.param("2026-01-02 03:04:05Z", id="a blank for the T"),
        pytest.param("2026-01-02T03:04:05z", id="a small z"),
        pytest.param("2026-01-02T24:00:00Z", id="hour 24"),
        pytest.param("2026-01-02T03:04:60Z", id="second 60"),
        pytest.param("2026-02-30T03:04:05Z", id="a day that is not"),
        pytest.param("2026-W01-1T03:04:05Z", id="a week date"),
        pytest.param("2026-01-02T03:04:05+24:00", id="an offset of a day"),
        pytest.param("2026-01-02T03:04:05.Z", id="a point without digits"),
        pytest.param("2026-01-02T03:04:05Z\n", id="a line break after"),
        pytest.param("0001-01-01T00:00:00+01:00", id="before the first year"),
    ],
)
def test_refuses_what_is_not_rfc_3339(text: str) -> None:
    with pytest.raises(InvalidTime, match=r" is not a time such as 2026-01-02T03:04:05Z$"):
        parse_time(text)


@given(times)
def test_what_is_written_reads_the_same_to_the_second(now: datetime) -> None:
    assert parse_time(format_time(now)) == now.astimezone(UTC).replace(microsecond=0)
    assert parse_time(now.isoformat(timespec="microseconds")) == now


@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]*)?(Z|[+-][0-9:]{5})", fullmatch=True))
def test_any_text_is_a_time_or_an_invalid_one(text: str) -> None:
    with suppress(InvalidTime):
        parse_time(text)
