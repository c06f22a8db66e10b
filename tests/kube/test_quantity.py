import re
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hooks.kube.quantity import (
    InvalidQuantity,
    canonical,
    format_binary,
    format_milli,
    format_quantity,
    parse_quantity,
    whole_bytes,
)

SUFFIXES = [*"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "", "e3", "E3", "e-3", "E+2", "e0", "e-12", "e30"]

numbers = st.from_regex(r"[+-]?([0-9]{1,22}(\.[0-9]{0,12})?|\.[0-9]{1,12})", fullmatch=True)
quantities = st.builds("{}{}".format, numbers, st.sampled_from(SUFFIXES)).filter(lambda text: _is_quantity(text))


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        pytest.param("0", "0", "0", id="zero"),
        pytest.param("0Gi", "0", "0", id="zero loses its suffix"),
        pytest.param("-0", "0", "0", id="zero loses its sign"),
        pytest.param("5", "5", "5", id="a plain number"),
        pytest.param("2000", "2000", "2k", id="thousands get a suffix"),
        pytest.param("1500", "1500", "1500", id="but only whole ones"),
        pytest.param("1.5", "1.5", "1500m", id="a fraction becomes milli"),
        pytest.param("1.", "1", "1.", id="Go keeps a bare point"),
        pytest.param(".5", "0.5", "500m", id="nothing before the point"),
        pytest.param("+5", "5", "+5", id="Go keeps a plus"),
        pytest.param("007", "7", "007", id="Go keeps leading zeros"),
        pytest.param("1.500", "1.5", "1.500", id="Go keeps three decimals"),
        pytest.param("0.500", "0.5", "500m", id="unless a zero stands before them"),
        pytest.param("-1500m", "-1.5", "-1500m", id="a negative number"),
        pytest.param("1000m", "1", "1", id="whole milli"),
        pytest.param("1n", "0.000000001", "1n", id="nano"),
        pytest.param("1u", "0.000001", "1u", id="micro"),
        pytest.param("1k", "1000", "1k", id="kilo"),
        pytest.param("1E", "1000000000000000000", "1E", id="E alone is exa"),
        pytest.param("1E3", "1000", "1E3", id="E with digits is an exponent"),
        pytest.param("1000e3", "1000000", "1e6", id="an exponent stays an exponent"),
        pytest.param("12e-1", "1.2", "1200e-3", id="exponents are multiples of three"),
        pytest.param("1e+2", "100", "100", id="exponent zero is not written"),
        pytest.param("1024Mi", "1073741824", "1Gi", id="the largest binary suffix"),
        pytest.param("0.5Gi", "536870912", "512Mi", id="a binary fraction"),
        pytest.param("1.5Gi", "1610612736", "1536Mi", id="a binary number above one"),
        pytest.param("0.1Gi", "107374182.4", "107374182400m", id="bytes that are not whole become decimal"),
        pytest.param("0.5Ki", "512", "512", id="below 1024 there is no binary suffix"),
        pytest.param("1.953125Ki", "2000", "2k", id="bytes that are no multiple of 1024 become decimal"),
    ],
)
def test_reads_and_prints_as_go_does(text: str, value: str, printed: str) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert canonical(text) == printed


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        pytest.param("1e-9", "1e-9", "1e-9", id="nano is the finest step"),
        pytest.param("1e-10", "1e-9", "1e-9", id="less than nano is rounded up"),
        pytest.param("-1e-10", "-1e-9", "-1e-9", id="or down below zero"),
        pytest.param("1.0000000001", "1.000000001", "1000000001n", id="so is the rest of a number"),
        pytest.param("1.1e-100", "1e-9", "1e-9", id="however small it is"),
    ],
)
def test_rounds_away_from_zero_to_nano(text: str, value: str, printed: str) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert canonical(text) == printed


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        pytest.param("7Ei", "8070450532247928832", "7Ei", id="below 2**63"),
        pytest.param("8Ei", "9223372036854775807", "9223372036854775807", id="binary stops below 2**63"),
        pytest.param("-100Ei", "-9223372036854775807", "-9223372036854775807", id="on both sides"),
        pytest.param("9223372036854775808", "9223372036854775808", "9223372036854775808", id="decimal does not stop"),
        pytest.param("1e30", "1e30", "1e30", id="nor do exponents"),
        pytest.param("1500E", "1500e18", "1500E", id="exa is the last suffix"),
        pytest.param("9e99", "9e99", "9e99", id="below 10**100"),
    ],
)
def test_large_values(text: str, value: str, printed: str) -> None:
    assert parse_quantity(text) == Decimal(value)
    assert canonical(text) == printed


@pytest.mark.parametrize("text", ["1000E", "1" + "0" * 21, "-2000E", "10e99", "9" * 101, "0.1e101"])
def test_refuses_what_is_too_large(text: str) -> None:
    with pytest.raises(InvalidQuantity, match=r"is too large for a quantity$|is beyond 100$"):
        parse_quantity(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("Gi", id="no digits, which Go reads as zero"),
        pytest.param("+", id="only a sign, which Go reads as zero"),
        pytest.param(".", id="only a point, which Go reads as zero"),
        pytest.param("1 Gi", id="a blank inside"),
        pytest.param(" 1Gi", id="a blank before"),
        pytest.param("1Gi\n", id="a line break after"),
        pytest.param("1K", id="a capital kilo"),
        pytest.param("1ki", id="a small kibi"),
        pytest.param("1Zi", id="an unknown suffix"),
        pytest.param("1GiB", id="bytes are not spelled out"),
        pytest.param("1e", id="an exponent without digits"),
        pytest.param("1e1.5", id="an exponent with a fraction"),
        pytest.param("1_000", id="an underscore"),
        pytest.param("1,5", id="a comma"),
        pytest.param("1.2.3", id="two points"),
        pytest.param("--1", id="two signs"),
        pytest.param("Infinity", id="infinity"),
        pytest.param("NaN", id="not a number"),
        pytest.param("0x10", id="hexadecimal"),
        pytest.param("٣Gi", id="an Arabic digit"),
        pytest.param("\uff11Gi", id="a full-width digit"),
    ],
)
def test_refuses_what_is_not_a_quantity(text: str) -> None:
    for function in (parse_quantity, canonical, whole_bytes):
        with pytest.raises(InvalidQuantity, match=r" is not a quantity such as 10Gi, 250m or 1\.5$"):
            function(text)


def test_says_what_was_wrong() -> None:
    with pytest.raises(InvalidQuantity, match=r'^"1 Gi" is not a quantity such as 10Gi, 250m or 1\.5$'):
        parse_quantity("1 Gi")
    with pytest.raises(InvalidQuantity, match=r'^"1000E" is too large for a quantity$'):
        parse_quantity("1000E")


@pytest.mark.parametrize("exponent", ["101", "-101", "999999999", "-999999999", "4294967296", "9" * 100])
def test_hostile_exponents_cost_nothing(exponent: str) -> None:
    with pytest.raises(InvalidQuantity, match=r'^exponent ".*" is beyond 100$'):
        parse_quantity(f"1e{exponent}")


def test_hostile_length_costs_nothing() -> None:
    assert parse_quantity("0" * 127 + "1") == 1
    with pytest.raises(InvalidQuantity, match="is not a quantity"):
        parse_quantity("0" * 128 + "1")
    with pytest.raises(InvalidQuantity, match="is not a quantity"):
        parse_quantity("9" * 10_000_000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10Gi", 10737418240), ("1.5", 2), ("1", 1), ("1m", 1), ("0.1Gi", 107374183), ("-1500m", -2), ("1e20", 10**20)],
)
def test_whole_bytes_are_rounded_up(text: str, expected: int) -> None:
    assert whole_bytes(text) == expected


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [
        (0, "0"),
        (1000, "1k"),
        (1023, "1023"),
        (1024, "1Ki"),
        (1025, "1025"),
        (10737418240, "10Gi"),
        (1536 * 2**20, "1536Mi"),
        (-2048, "-2Ki"),
        (2**60, "1Ei"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_formats_bytes(n_bytes: int, expected: str) -> None:
    assert format_binary(n_bytes) == expected


@pytest.mark.parametrize(
    ("milli", "expected"), [(0, "0"), (80, "80m"), (1500, "1500m"), (2000, "2"), (2_000_000, "2k")]
)
def test_formats_thousandths(milli: int, expected: str) -> None:
    assert format_milli(milli) == expected


@pytest.mark.parametrize(
    ("value", "like", "expected"),
    [
        ("1073741824", "5Mi", "1Gi"),
        ("1073741824", "5M", "1073741824"),
        ("1000000", "", "1M"),
        ("1000000", "1e3", "1e6"),
        ("0.00000000001", "", "1n"),
        ("-0.25", "", "-250m"),
    ],
)
def test_formats_in_the_notation_of_another(value: str, like: str, expected: str) -> None:
    assert format_quantity(Decimal(value), like) == expected


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity", "1e999999999", "1e-999999999"])
def test_values_without_a_form_are_refused(value: str) -> None:
    with pytest.raises(InvalidQuantity, match=f"^{re.escape(chr(34))}.* has no form as a quantity$"):
        format_quantity(Decimal(value))


def test_formatting_refuses_what_could_not_be_read_back() -> None:
    for too_many in (2**63, -(2**63), 10**5000):
        with pytest.raises(InvalidQuantity, match=r"^the value is too large for a quantity$"):
            format_binary(too_many)
    with pytest.raises(InvalidQuantity, match=r"^the value is too large for a quantity$"):
        format_milli(10**24)


@given(quantities)
@example("0.1Gi")
@example("1.953125Ki")
@example("1000e96")
@example("0.1e100")
def test_canonical_keeps_the_value_and_is_final(text: str) -> None:
    printed = canonical(text)
    assert parse_quantity(printed) == parse_quantity(text)
    assert canonical(printed) == printed


@given(quantities, st.sampled_from(["", "1Ki", "1e3"]))
def test_equal_values_have_one_form_in_each_notation(text: str, like: str) -> None:
    value = parse_quantity(text)
    try:
        printed = format_quantity(value, like)
    except InvalidQuantity:
        return
    assert parse_quantity(printed) == value
    assert canonical(printed) == printed


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_bytes_round_trip(n_bytes: int) -> None:
    assert whole_bytes(format_binary(n_bytes)) == n_bytes
    assert canonical(format_binary(n_bytes)) == format_binary(n_bytes)


@given(st.integers(-(10**18), 10**18))
def test_thousandths_round_trip(milli: int) -> None:
    assert parse_quantity(format_milli(milli)) * 1000 == milli


@given(quantities)
def test_whole_bytes_are_the_next_integer(text: str) -> None:
    value, whole = abs(Fraction(parse_quantity(text))), abs(whole_bytes(text))
    assert value <= whole < value + 1


@given(st.text() | st.text("0123456789.+-eEinumkKMGTP", max_size=150))
def test_any_text_is_a_quantity_or_an_invalid_one(text: str) -> None:
    for function in (parse_quantity, canonical, whole_bytes):
        with suppress(InvalidQuantity):
            function(text)
