import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.names import DEFAULT, POD, SERVICE, STATEFUL_SET, Constraint, join_name, safety_hash

LONG = ("very-long-cluster-name", "postgres", "default", "0-inf", "pool", "main", "z1")

constraints = st.sampled_from([DEFAULT, SERVICE, POD, STATEFUL_SET]) | st.builds(
    Constraint, st.integers(12, 300), st.booleans()
)
part_lists = st.lists(st.text() | st.text("aZ0-_./é", max_size=40), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("limit", "parts", "expected"),
    [
        (DEFAULT, ("hello", "world"), "hello-world-344ce285"),
        (DEFAULT, ("a-b", "c"), "a-b-c-f03bd84a"),
        (DEFAULT, ("a", "b-c"), "a-b-c-86d543be"),
        (DEFAULT, ("production-db", "app", "sales"), "production-db-app-sales-65082600"),
        (DEFAULT, ("production", "db-app", "sales"), "production-db-app-sales-72af7aea"),
        (SERVICE, ("cluster", "cell"), "cluster-cell-fff3f661"),
        (SERVICE, LONG, "very-long-cluster-name-postgres-default-0-inf-pool-m---e5c0fdbd"),
        (POD, LONG, "very-long-cluster-name-postgres-default-0-inf-poo---e5c0fdbd"),
        (STATEFUL_SET, LONG, "very-long-cluster-name-postgres-default-0---e5c0fdbd"),
        (STATEFUL_SET, ("inline", *LONG[1:]), "inline-postgres-default-0-inf-pool-main-z1-168f1440"),
        (SERVICE, ("0-inf",), "x0-inf-0d2aa9c7"),
        (DEFAULT, ("0-inf",), "0-inf-0d2aa9c7"),
        (DEFAULT, ("",), "x-050c5d1f"),
        (SERVICE, ("",), "x-050c5d1f"),
        (POD, ("",), "x-050c5d1f"),
        (STATEFUL_SET, ("",), "x-050c5d1f"),
        (SERVICE, ("My_DB.prod", "Tbl/Grp"), "my-db-prod-tbl-grp-5f1d5e7d"),
        (SERVICE, ("disallowed_symbol",), "disallowed-symbol-78958abe"),
        (SERVICE, ("disallowed/symbol",), "disallowed-symbol-fec69d0e"),
        (SERVICE, ("café", "é"), "caf----bad5df39"),
        (
            Constraint(50),
            ("really-really-ridiculously-long-inputs-are-truncated",),
            "really-really-ridiculously-long-inputs----ff6dd618",
        ),
        (SERVICE, ("a" * 54,), "a" * 54 + "-0a29a661"),
        (SERVICE, ("a" * 55,), "a" * 52 + "---faddbd6a"),
        (Constraint(12), ("abcdef",), "a---079e801e"),
        (SERVICE, (), ""),
    ],
)
def test_golden_names(limit: Constraint, parts: tuple[str, ...], expected: str) -> None:
    assert join_name(limit, *parts) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [((), "811c9dc5"), (("cluster", "db", "tg", "shard"), "6546c6b2"), (("hello", "world"), "344ce285")],
)
def test_golden_hashes(parts: tuple[str, ...], expected: str) -> None:
    assert safety_hash(*parts) == expected


def test_limits_are_those_of_the_kinds() -> None:
    assert [limit.max_length for limit in (DEFAULT, SERVICE, POD, STATEFUL_SET)] == [253, 63, 60, 52]


def test_a_limit_below_twelve_leaves_no_room_for_a_name() -> None:
    assert Constraint(12).max_length == 12
    with pytest.raises(ValueError, match=r"^a name limit of 11 is below 12$"):
        Constraint(11)


@given(constraints, part_lists)
def test_names_are_dns_labels_within_the_limit(limit: Constraint, parts: list[str]) -> None:
    name = join_name(limit, *parts)
    first = "[a-z0-9]" if limit.allows_leading_digit else "[a-z]"
    assert len(name) <= limit.max_length
    assert re.fullmatch(f"{first}[a-z0-9-]*[a-z0-9]", name)
    assert name.endswith(f"-{safety_hash(*parts)}")


@given(constraints, part_lists)
def test_a_cut_name_has_exactly_the_limit(limit: Constraint, parts: list[str]) -> None:
    full = join_name(Constraint(100_000, limit.allows_leading_digit), *parts)
    name = join_name(limit, *parts)
    assert name == full if len(full) <= limit.max_length else len(name) == limit.max_length


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_the_place_of_the_split_matters(first: str, second: str, third: str) -> None:
    assert safety_hash(f"{first}-{second}", third) != safety_hash(first, f"{second}-{third}")


def test_the_order_of_parts_matters() -> None:
    assert join_name(SERVICE, "a", "b") != join_name(SERVICE, "b", "a")


def test_text_without_utf_8_form_has_a_name_too() -> None:
    assert re.fullmatch("x--[0-9a-f]{8}", join_name(SERVICE, "\ud800"))
