"""Groups of nodes, and names that are distinct and stable whatever other groups there are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import wire
from hooks.agents.groups import group_nodes, name_for
from hooks.agents.shapes import Allocatable, NodeShape, ShapeSpec
from hooks.agents.sizes import Amount

LABEL = "node.kubernetes.io/instance-type"


def shape(name: str, value: str | None = "m5.large", cpu: str = "4", memory: str = "16Gi") -> NodeShape:
    labels = {} if value is None else {LABEL: value}
    return NodeShape(metadata=wire.Metadata(name), spec=ShapeSpec(labels, Allocatable(cpu, memory), "linux"))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("large", "agent-large"),
        ("m5-large", "agent-m5-large"),
        ("m5.large", "agent-m5-large-baa340"),
        ("m5_large", "agent-m5-large-ad36e8"),
        ("M5.large", "agent-m5-large-3e5611"),
        ("default", "agent-default"),
        ("", "agent-default-e3b0c4"),
        ("a" * 50, f"agent-{'a' * 50}"),
    ],
)
def test_names_a_group(value: str, name: str) -> None:
    """Case 50; the hashes are the original's."""
    assert name_for("agent", value) == name


def test_nodes_without_the_label_never_merge_with_a_value() -> None:
    """Case 49."""
    assert len({name_for("a", value) for value in (None, "", "default", "...", "-")}) == 5


def test_a_value_that_looks_like_a_name_with_a_hash_gets_another() -> None:
    """Case 53."""
    assert name_for("a", "m5-large-baa340") != name_for("a", "m5.large")


def test_long_values_that_begin_alike_stay_apart() -> None:
    """Case 52, and no name ends in a hyphen where it was cut."""
    one, two = "x" * 49 + ".aaaaaaaaaa", "x" * 49 + ".bbbbbbbbbb"

    assert name_for("a", one) != name_for("a", two)
    assert re.fullmatch(r"a-x{49}-[0-9a-f]{6}", name_for("a", one))


LABEL_VALUES = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?", fullmatch=True)


@given(st.lists(st.none() | LABEL_VALUES, unique=True, min_size=2))
def test_every_name_is_a_dns_name_and_no_two_are_alike(values: list[str | None]) -> None:
    names = [name_for("node-agent", value) for value in values]

    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 68 for name in names)


def test_groups_by_the_label_in_a_fixed_order() -> None:
    shapes = [shape("c", "b"), shape("a", None), shape("b", "a"), shape("d", "b")]
    groups = group_nodes(shapes, LABEL)

    assert list(groups) == list(group_nodes(reversed(shapes), LABEL)) == [None, "a", "b"]
    assert {member.name for member in groups["b"].shapes} == {"c", "d"}


@pytest.mark.parametrize(("cpu", "memory"), [("", "16Gi"), ("4", "much"), ("0", "16Gi"), ("4", "-1")])
def test_a_node_that_cannot_be_read_says_nothing_about_sizes(cpu: str, memory: str) -> None:
    """Case 61."""
    odd = shape("odd", cpu=cpu, memory=memory)

    assert group_nodes([odd], LABEL)["m5.large"].allocatable is None
    assert group_nodes([odd, shape("a")], LABEL)["m5.large"].allocatable == Amount(4000, 16 * 2**30)
