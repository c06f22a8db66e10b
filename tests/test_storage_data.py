"""The label of DRBDResources: which node it names, and that a Node asks for the very same value."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hooks import wire
from hooks.kube.metadata import check_label_value
from hooks.storage.data import NODE_LABEL, label_for
from hooks.storage_data import RESYNC_SECONDS
from tests.labelling import UNCHANGED, answer, obeyed, said
from tests.storage import ask_data, asked_label, drbd_resource

LONG = "worker-1." + "rack-7." * 30 + "example.com"
DNS_PARTS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
NODE_NAMES = st.lists(DNS_PARTS, min_size=1, max_size=8).map(".".join).filter(lambda name: len(name) <= 253)


def test_a_new_resource_gets_the_name_of_its_node() -> None:
    outcome = ask_data(drbd_resource(name="pvc-1", node="worker-1"))

    assert answer(outcome) == {
        "labels": {NODE_LABEL: "worker-1"},
        "annotations": {},
        "attachments": [],
        "resyncAfterSeconds": RESYNC_SECONDS,
    }
    assert outcome.decisions == [
        wire.Decision(
            reason="Marked",
            message="it is on node worker-1",
            object=wire.ObjectRef("DRBDResource", "pvc-1"),
            changes=True,
            field=f"labels.{NODE_LABEL}",
        )
    ]
    assert outcome.measurements == ()


def test_at_rest_the_answer_is_empty() -> None:
    before = drbd_resource(labels={"foreign": "1"})

    after = obeyed(before, ask_data(before))

    assert after["metadata"]["labels"] == {"foreign": "1", NODE_LABEL: "worker-1"}
    assert answer(ask_data(after)) == UNCHANGED
    assert said(ask_data(after)) == []


def test_a_resource_that_moved_gets_the_other_name() -> None:
    outcome = ask_data(drbd_resource(node="worker-2", labels={NODE_LABEL: "worker-1"}))

    assert answer(outcome)["labels"] == {NODE_LABEL: "worker-2"}
    assert said(outcome) == [("Marked", "it is on node worker-2")]


@pytest.mark.parametrize("node", ["", None], ids=["empty", "left out"])
def test_a_resource_on_no_node_has_no_label_so_that_every_node_sees_it(node: str | None) -> None:
    """Case 44. Which node it is on, should it come to one, is known at once then."""
    outcome = ask_data(drbd_resource(node=node, labels={NODE_LABEL: "worker-1"}))

    assert answer(outcome)["labels"] == {NODE_LABEL: None}
    assert said(outcome) == [("Unmarked", "it is on no node")]
    assert answer(ask_data(drbd_resource(node=node))) == UNCHANGED


def test_a_resource_may_come_without_spec_and_with_null_labels() -> None:
    assert answer(ask_data({"metadata": {"name": "pvc-1", "labels": None}})) == UNCHANGED


def test_a_resource_that_is_being_deleted_is_still_on_its_node() -> None:
    assert answer(ask_data(drbd_resource(deleting=True)))["labels"] == {NODE_LABEL: "worker-1"}


# Names that are too long for a label


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("worker-1.example.com", "worker-1.example.com"),
        ("n" * 63, "n" * 63),
        ("n" * 64, "n" * 54 + "-b307301f"),
        ("n" * 53 + "." + "n" * 20, "n" * 53 + "-ba51b017"),
        ("n" * 50 + "----" + "n" * 20, "n" * 50 + "-8096df4b"),
    ],
    ids=["short", "63 characters", "64 characters", "cut at a dot", "cut at dashes"],
)
def test_a_long_name_is_cut_and_hashed(name: str, value: str) -> None:
    assert answer(ask_data(drbd_resource(node=name)))["labels"] == {NODE_LABEL: value}


def test_long_names_that_begin_alike_differ() -> None:
    assert label_for(LONG) != label_for(LONG + "1")
    assert label_for(LONG)[:54] == label_for(LONG + "1")[:54]


@given(name=NODE_NAMES)
@example(name="n" * 253)
@example(name=LONG)
def test_the_label_is_valid_and_the_one_that_the_node_asks_for(name: str) -> None:
    resource = drbd_resource(node=name)

    after = obeyed(resource, ask_data(resource))

    value = after["metadata"]["labels"][NODE_LABEL]
    assert check_label_value(value) is None
    assert value == asked_label(name)
    assert answer(ask_data(after)) == UNCHANGED


@given(name=st.text(min_size=1))
@example(name="-worker")
@example(name="worker/1")
@example(name=" ")
@example(name="ä")
def test_the_label_is_valid_whatever_the_resource_says(name: str) -> None:
    """No Node has such a name, but a label that the API server refuses would fail every sync of the resource."""
    assert check_label_value(label_for(name)) is None
