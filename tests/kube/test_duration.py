from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.duration import InvalidDuration, format_duration, parse_duration

MICROSECOND = timedelta(microseconds=1)
LARGEST = (2**63 - 1) // 1000 * MICROSECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0", timedelta(), id="zero alone needs no unit"),
        pytest.param("-0", timedelta(), id="with a sign too"),
        pytest.param("0s", timedelta(), id="zero with a unit"),
        pytest.param("90s", timedelta(seconds=90), id="seconds"),
        pytest.param("1h30m", timedelta(minutes=90), id="several units"),
        pytest.param("1m1h", timedelta(minutes=61), id="in any order"),
        pytest.param("1s1s", timedelta(seconds=2), id="even twice"),
        pytest.param("1.5h", timedelta(minutes=90), id="a fraction"),
        pytest.param("1.s", timedelta(seconds=1), id="a bare point"),
        pytest.param(".5s", timedelta(milliseconds=500), id="nothing before the point"),
        pytest.param("+5m", timedelta(minutes=5), id="a plus"),
        pytest.param("-1m30s", timedelta(seconds=-90), id="a minus covers all units"),
        pytest.param("20ms", timedelta(milliseconds=20), id="milliseconds"),
        pytest.param("7us", timedelta(microseconds=7), id="microseconds in ASCII"),
        pytest.param("7\u00b5s", timedelta(microseconds=7), id="with the micro sign"),
        pytest.param("7\u03bcs", timedelta(microseconds=7), id="with the Greek letter"),
        pytest.param("3000ns", timedelta(microseconds=3), id="nanoseconds"),
        pytest.param("0" * 5000 + "1s", timedelta(seconds=1), id="leading zeros"),
        pytest.param("0." + "9" * 5000 + "s", timedelta(seconds=1), id="endless decimals"),
    ],
)
def test_reads_what_go_reads(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1ns", 1), ("-1ns", -1), ("1000ns", 1), ("1001ns", 2), ("1.0000001s", 1_000_001), ("0.1ns", 0)],
)
def test_rounds_away_from_zero_below_a_microsecond(text: str, expected: int) -> None:
    assert parse_duration(text) == expected * MICROSECOND


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("+", id="only a sign"),
        pytest.param("5", id="no unit"),
        pytest.param("00", id="two zeros without a unit"),
        pytest.param("1h30", id="no unit at the end"),
        pytest.param("s", id="no number"),
        pytest.param(".s", id="only a point"),
        pytest.param("1d", id="days"),
        pytest.param("1w", id="weeks"),
        pytest.param("1S", id="a capital unit"),
        pytest.param("1hm", id="two units in a row"),
        pytest.param("1h 30m", id="a blank between"),
        pytest.param("1s ", id="a blank after"),
        pytest.param("1s\n", id="a line break after"),
        pytest.param("1.5.5s", id="two points"),
        pytest.param("1h-5m", id="a sign inside"),
        pytest.param("1e3s", id="an exponent"),
        pytest.param("٣s", id="an Arabic digit"),
    ],
)
def test_refuses_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(InvalidDuration, match=r" is not a duration such as 90s, 5m or 1h30m$"):
        parse_duration(text)


def test_says_what_was_wrong() -> None:
    with pytest.raises(InvalidDuration, match=r'^"1d" is not a duration such as 90s, 5m or 1h30m$'):
        parse_duration("1d")
    with pytest.raises(InvalidDuration, match=r'^duration "3000000h" is longer than 292 years$'):
        parse_duration("3000000h")


@pytest.mark.parametrize(
    ("longest", "too_long"),
    [
        ("9223372036854775807ns", "9223372036854775808ns"),
        ("-9223372036854775808ns", "-9223372036854775809ns"),
        ("2562047h47m16.854775807s", "2562047h47m16.854775808s"),
        ("2562047h", "9" * 5000 + "h"),
    ],
)
def test_stops_where_go_overflows(longest: str, too_long: str) -> None:
    assert parse_duration(longest)
    with pytest.raises(InvalidDuration, match=r" is longer than 292 years$"):
        parse_duration(too_long)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(), "0s"),
        (timedelta(microseconds=1), "1\u00b5s"),
        (timedelta(microseconds=999), "999\u00b5s"),
        (timedelta(microseconds=1000), "1ms"),
        (timedelta(microseconds=1500), "1.5ms"),
        (timedelta(milliseconds=999), "999ms"),
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(seconds=10), "10s"),
        (timedelta(seconds=59.999999), "59.999999s"),
        (timedelta(minutes=1), "1m0s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(minutes=5), "5m0s"),
        (timedelta(hours=1), "1h0m0s"),
        (timedelta(days=2), "48h0m0s"),
        (timedelta(seconds=-90), "-1m30s"),
    ],
)
def test_writes_as_go_does(value: timedelta, expected: str) -> None:
    assert format_duration(value) == expected


def test_refuses_to_write_what_go_cannot_hold() -> None:
    assert parse_duration(format_duration(LARGEST)) == LARGEST
    for value in (LARGEST + MICROSECOND, -LARGEST - MICROSECOND, timedelta.max, timedelta.min):
        with pytest.raises(InvalidDuration, match=r" is longer than 292 years$"):
            format_duration(value)


@given(st.timedeltas(min_value=-LARGEST, max_value=LARGEST))
def test_what_is_written_reads_the_same(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


@given(st.text() | st.text("0123456789.+-nu\u00b5msh"))
def test_any_text_is_a_duration_or_an_invalid_one(text: str) -> None:
    with suppress(InvalidDuration):
        parse_duration(text)
