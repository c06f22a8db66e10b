"""NodeShapes: what of a Node is written down, when it is written again, and what is kept."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import node_shape, wire
from hooks.kube.metadata import JsonObject, compact_json
from tests.agents import API, NOW, POOL, SHAPES, shape

LABELS = {POOL: "large", "kubernetes.io/os": "linux"}


def node(
    *,
    name: str = "a",
    labels: dict[str, str] | None = None,
    allocatable: Any = None,
    os: str | None = "linux",
    **status: Any,
) -> JsonObject:
    """With much that a NodeShape does not hold."""
    given_labels = LABELS if labels is None else labels
    metadata = {"name": name, "uid": "u", "labels": given_labels, "annotations": {"x": "y"}, "resourceVersion": "7"}
    reported = {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"} if allocatable is None else allocatable}
    info = {} if os is None else {"nodeInfo": {"operatingSystem": os, "kubeletVersion": "v1.34.0"}}
    return {"metadata": metadata, "spec": {"taints": []}, "status": reported | info | status}


def ask(of: JsonObject | None = None, *, known: JsonObject | None = None) -> wire.Outcome:
    body = {"object": of or node(), "attachments": {SHAPES: {known["metadata"]["name"]: known} if known else {}}}
    return node_shape.sync(wire.parse(node_shape.SyncRequest, compact_json(body).encode()), now=NOW)


def spec_of(outcome: wire.Outcome) -> JsonObject:
    (attachment,) = outcome.response.body()["attachments"]
    spec: JsonObject = attachment["spec"]
    return spec


def said(outcome: wire.Outcome) -> list[tuple[str, str, bool]]:
    return [(made.reason, made.message, made.changes) for made in outcome.decisions]


SHAPED = ("Shaped", "4 CPU and 16Gi can be allocated", True)
KEPT = "the Node does not say what it can allocate"


def test_a_node_gets_a_shape_of_its_labels_its_size_and_its_system() -> None:
    outcome = ask()

    assert outcome.response.body() == {
        "labels": {},
        "annotations": {},
        "attachments": [
            {
                "apiVersion": API,
                "kind": "NodeShape",
                "metadata": {"name": "a"},
                "spec": {"labels": LABELS, "allocatable": {"cpu": "4", "memory": "16Gi"}, "os": "linux"},
            }
        ],
    }
    assert said(outcome) == [SHAPED]
    assert outcome.decisions[0].object == wire.ObjectRef("NodeShape", "a")


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "x"}]}, id="a heartbeat"),
        pytest.param({"conditions": [{"type": "Ready", "status": "Unknown"}]}, id="case 67: not ready"),
        pytest.param({"images": [{"names": ["x"]}], "capacity": {"cpu": "8"}}, id="images and capacity"),
    ],
)
def test_what_ticks_is_not_in_a_shape(status: JsonObject) -> None:
    """Case 67: a node that is not ready still counts, so its agent stays."""
    assert ask(node(**status)).response == ask().response


def test_nothing_is_told_while_nothing_changes() -> None:
    assert said(ask(known=shape(labels={"kubernetes.io/os": "linux"}))) == []


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(shape(), id="another label"),
        pytest.param(shape(labels={"kubernetes.io/os": "linux"}, memory="8Gi"), id="another size"),
        pytest.param(shape(labels={"kubernetes.io/os": "linux"}, os=""), id="no system yet"),
        pytest.param(shape(labels={"kubernetes.io/os": "linux"}, cpu=""), id="no size yet"),
    ],
)
def test_a_change_is_told(known: JsonObject) -> None:
    outcome = ask(known=known)

    assert said(outcome) == [SHAPED]
    assert spec_of(outcome) == spec_of(ask())


@pytest.mark.parametrize(
    ("cpu", "memory", "stored"),
    [
        ("4000m", "16384Mi", {"cpu": "4", "memory": "16Gi"}),
        ("3920m", "15944120Ki", {"cpu": "3920m", "memory": "15944120Ki"}),
        ("4", "16393441280", {"cpu": "4", "memory": "16393441280"}),
    ],
)
def test_sizes_are_stored_as_kubernetes_writes_them(cpu: str, memory: str, stored: JsonObject) -> None:
    assert spec_of(ask(node(allocatable={"cpu": cpu, "memory": memory})))["allocatable"] == stored


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"x": "1"}, id="neither"),
        pytest.param({"cpu": "4"}, id="no memory"),
        pytest.param({"memory": "16Gi"}, id="no CPU"),
        pytest.param({"cpu": "", "memory": ""}, id="empty"),
        pytest.param({"cpu": "4", "memory": "much"}, id="unreadable"),
        pytest.param({"cpu": "0", "memory": "16Gi"}, id="nothing"),
        pytest.param({"cpu": "4", "memory": "1e30"}, id="beyond all measure"),
    ],
)
def test_what_was_known_stays_while_the_node_says_nothing_readable(odd: JsonObject) -> None:
    """A kubelet that restarts reports nothing for a moment. Labels are taken over all the same."""
    renamed = node(allocatable=odd, labels={POOL: "small"})
    outcome = ask(renamed, known=shape())

    assert spec_of(outcome) == {
        "labels": {POOL: "small"},
        "allocatable": {"cpu": "4", "memory": "16Gi"},
        "os": "linux",
    }
    assert said(outcome) == [("Kept", KEPT, True)]
    assert outcome.response.body()["resyncAfterSeconds"] == 15  # a change of the status causes no sync
    assert said(ask(node(allocatable=odd, labels={POOL: "large"}), known=shape())) == [("Kept", KEPT, False)]


def test_a_node_that_never_said_anything_has_a_shape_without_a_size() -> None:
    outcome = ask(node(allocatable={"x": "1"}))

    assert spec_of(outcome) == {"labels": LABELS, "os": "linux"}
    assert said(outcome) == [("Kept", KEPT, True)]


@pytest.mark.parametrize(
    ("os", "label", "stored"),
    [("windows", "linux", "windows"), ("", "windows", "windows"), (None, "linux", "linux"), (None, None, None)],
)
def test_the_system_is_what_the_kubelet_says_or_else_the_label(
    os: str | None, label: str | None, stored: str | None
) -> None:
    labels = {} if label is None else {"kubernetes.io/os": label}

    assert spec_of(ask(node(os=os, labels=labels))).get("os") == stored


def test_a_bare_node_has_an_empty_shape() -> None:
    """Without anything that the API server would drop."""
    assert spec_of(ask({"metadata": {"name": "a"}})) == {}


def test_a_shape_of_another_name_is_not_its_own() -> None:
    assert said(ask(known=shape(name="b", labels={"kubernetes.io/os": "linux"}))) == [SHAPED]


@pytest.mark.parametrize("part", ["attachments", "kinds"])
def test_nothing_is_lost_where_no_shape_is_seen(part: str) -> None:
    body: JsonObject = {"object": node()} | ({} if part == "attachments" else {"attachments": {}})
    outcome = node_shape.sync(wire.parse(node_shape.SyncRequest, compact_json(body).encode()), now=NOW)

    assert spec_of(outcome) == spec_of(ask())


TEXTS = st.sampled_from(["", "4", "3920m", "16Gi", "16384Mi", "1e3", "much", "-1", "1e99", "0.1n"])


@given(TEXTS, TEXTS, st.none() | st.sampled_from(["", "linux", "windows"]))
def test_a_shape_that_was_written_is_not_written_again(cpu: str, memory: str, os: str | None) -> None:
    """Whatever the Node says: one attachment, and the same one once it is stored."""
    odd = node(allocatable={"cpu": cpu, "memory": memory}, os=os)
    first = ask(odd)
    (stored,) = first.response.body()["attachments"]
    second = ask(odd, known=stored)

    assert second.response == first.response
    assert not any(made.changes for made in second.decisions)
