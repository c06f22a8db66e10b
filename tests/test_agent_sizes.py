"""How much an agent gets: the original's worked values, and the laws of sizes."""

import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.agents.sizes import Amount, Bounds, Percentages, Size, size_for, smallest
from hooks.kube.quantity import canonical, parse_quantity, whole_bytes

README = Path(__file__).resolve().parent.parent / "README.md"


def bounds(
    requests: float = 2,
    limits: float = 5,
    *,
    least: tuple[str, str] = ("100m", "180Mi"),
    most: tuple[str, str] = ("2", "4Gi"),
) -> Bounds:
    share, ceiling = Fraction(str(requests)), Fraction(str(limits))
    return Bounds(Percentages(share, share, ceiling, ceiling), amount(*least), amount(*most), Fraction(80))


def amount(cpu: str, memory: str) -> Amount:
    return Amount(int(parse_quantity(cpu) * 1000), whole_bytes(memory))


def sized(cpu: str, memory: str, **more: float) -> tuple[str, str, str, str, str]:
    size = size_for(amount(cpu, memory), bounds(**more))  # type: ignore[arg-type]  # only percentages are given here
    shown = size.resources()
    return (*shown["requests"].values(), *shown["limits"].values(), size.go_mem_limit)


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        pytest.param("4", "16Gi", ("100m", "327Mi", "200m", "819Mi", "655MiB"), id="the worked example"),
        pytest.param("4", "8Gi", ("100m", "180Mi", "200m", "409Mi", "327MiB"), id="at least the minimum"),
        pytest.param("20", "100Gi", ("400m", "2Gi", "1", "4Gi", "3276MiB"), id="whole units"),
        pytest.param("128", "256Gi", ("2", "4Gi", "2", "4Gi", "3276MiB"), id="case 58: at most the maximum"),
        pytest.param("3920m", "16Gi", ("100m", "327Mi", "196m", "819Mi", "655MiB"), id="case 55"),
        pytest.param("940m", "3976784Ki", ("100m", "180Mi", "100m", "194Mi", "155MiB"), id="case 56"),
        pytest.param("4", "16393441280", ("100m", "312Mi", "200m", "781Mi", "625MiB"), id="case 59: plain bytes"),
        pytest.param("4", "15944120Ki", ("100m", "311Mi", "200m", "778Mi", "622MiB"), id="case 65: the smaller"),
    ],
)
def test_sizes_as_the_original_does(cpu: str, memory: str, expected: tuple[str, ...]) -> None:
    assert sized(cpu, memory) == expected


def test_fractions_of_a_percent_count() -> None:
    """Case 62."""
    assert sized("4", "16Gi", requests=2.5)[:2] == ("100m", "409Mi")


def test_a_limit_is_never_below_its_request() -> None:
    """Case 64."""
    assert sized("20", "100Gi", requests=5, limits=2) == ("1", "4Gi", "1", "4Gi", "3276MiB")


def test_the_smallest_of_each_counts() -> None:
    """Case 65: whatever the order."""
    nodes = [Amount(4000, 16 * 2**30), Amount(8000, 8 * 2**30)]

    assert smallest(nodes) == smallest(reversed(nodes)) == Amount(4000, 8 * 2**30)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (2 * 2**30, "2Gi"),
        (2 * 2**30 + 5, "2Gi"),
        (3 * 2**29, "1536Mi"),
        (2**20 - 1, "1023Ki"),
        (2**20, "1Mi"),
        (1500, "1Ki"),
        (1023, "1023"),
        (0, "0"),
    ],
)
def test_memory_is_rounded_down_and_written_as_kubernetes_stores_it(n_bytes: int, text: str) -> None:
    assert Amount(0, n_bytes).rounded(Amount(0, 0)).resources()["memory"] == text


def test_rounding_does_not_pass_the_minimum() -> None:
    size = size_for(amount("4", "1Gi"), bounds(least=("100m", "200M")))
    assert (size.requests.resources()["memory"], size.go_mem_limit) == ("200M", "152MiB")


def test_a_limit_of_nothing_is_at_least_one_mebibyte_for_go() -> None:
    assert size_for(amount("4", "1Mi"), bounds(least=("1m", "1"))).go_mem_limit == "1MiB"


def test_the_table_of_the_readme_is_true() -> None:
    section = README.read_text().partition("## Node agent autoscaler")[2].partition("## Settings")[0]
    rows = re.findall(r"^\| (\S+) CPU, (\S+) \| (\S+), (\S+) \| (\S+), (\S+) \| (\S+) \|$", section, re.MULTILINE)
    assert len(rows) == 4
    for cpu, memory, *expected in rows:
        assert sized(cpu, memory) == tuple(expected)


@pytest.mark.parametrize(("percent", "is_close"), [(100, True), (105, True), (95, True), (106, False), (94, False)])
def test_a_small_difference_is_not_worth_a_rollout(percent: int, is_close: bool) -> None:
    old = Size(Amount(1000, 1000), Amount(1000, 1000), 1)
    new = Size(Amount(1000, 1000), Amount(1000, 10 * percent), 1)

    assert new.is_close_to(old) is is_close


AMOUNTS = st.builds(Amount, st.integers(0, 10**6), st.integers(0, 2**50))
PERCENTS = st.fractions(min_value=Fraction(1, 100), max_value=100, max_denominator=100)


@given(
    AMOUNTS,
    st.builds(Percentages, PERCENTS, PERCENTS, PERCENTS, PERCENTS),
    AMOUNTS,
    AMOUNTS,
    PERCENTS,
)
def test_a_size_is_within_its_bounds_and_canonical(
    allocatable: Amount, percentages: Percentages, least: Amount, more: Amount, go: Fraction
) -> None:
    most = least.at_least(more)
    size = size_for(allocatable, Bounds(percentages, least, most, go))

    for figure in (size.requests, size.limits):
        assert figure == figure.within(least, most)
        assert all(canonical(text) == text for text in figure.resources().values())
    assert size.limits == size.limits.at_least(size.requests)
    assert size.go_mem_limit_mib == 1 or size.go_mem_limit_mib * 2**20 <= size.limits.memory_bytes
    assert size.is_close_to(size)
