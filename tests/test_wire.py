import json
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import wire
from hooks.kube.metadata import JsonObject
from hooks.node_labeler import SyncRequest
from tests.builders import node

TEXT = st.text('aZ0./-_ <&>"\\\u00e9\u6f22\u2028', max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXT, values, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)
BOMB = 100_000


class Toy(wire.Model):
    name: str
    metadata: wire.Metadata | None = None
    extra: JsonObject | None = None


# parse


def test_unknown_fields_are_skipped() -> None:
    body = {"name": "a", "new": {"in": ["a later", {"version": 1}]}, "metadata": {"name": "m", "managedFields": [1]}}
    assert wire.parse(Toy, json.dumps(body).encode()) == Toy(name="a", metadata=wire.Metadata(name="m"))


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_null_map_reads_as_absent(part: str) -> None:
    request = wire.parse(SyncRequest, json.dumps({"object": {"metadata": {"name": "n", part: None}}}).encode())
    assert getattr(request.object.metadata, part) is None


@pytest.mark.parametrize(
    "absent",
    [
        pytest.param({"attachments": None}, id="attachments are null"),
        pytest.param({"related": None}, id="related is null"),
        pytest.param({"controller": {"spec": {"attachments": None, "childResources": None}}}, id="no kinds are listed"),
        pytest.param({}, id="only the object is there"),
    ],
)
def test_parts_that_hold_nothing_may_be_null_or_absent(absent: JsonObject) -> None:
    request = wire.parse(SyncRequest, json.dumps({"object": node(), **absent}).encode())
    assert request.object.metadata.name == node()["metadata"]["name"]
    assert not request.controller.manages("v1", "events")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b"{}", "object: Field required", id="a required field is missing"),
        pytest.param(b'{"object": {}}', "object.metadata: Field required", id="the path leads to the field"),
        pytest.param(
            b'{"object": {"metadata": {"name": 5}}}',
            "object.metadata.name: Expected `str`, got `int`",
            id="a number is not taken for text",
        ),
        pytest.param(
            b'{"object": {"metadata": {"name": "n", "labels": {"a": true}}}}',
            "object.metadata.labels[...]: Expected `str`, got `bool`",
            id="the key of a map is input, and not repeated",
        ),
        pytest.param(
            b'{"object": {"metadata": {"name": "n"}}, "attachments": {"Event.v1": {"default/e": []}}}',
            "attachments[...][...]: Expected `object`, got `array`",
            id="an attachment is an object",
        ),
    ],
)
def test_a_wrong_body_is_told_by_field_and_problem(body: bytes, message: str) -> None:
    with pytest.raises(wire.InvalidRequest) as caught:
        wire.parse(SyncRequest, body)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b'{"name": "a"', id="cut off"),
        pytest.param(b'{"name": "a"} {"name": "b"}', id="two bodies"),
        pytest.param(b'{"name": "\xff\xfe"}', id="invalid UTF-8"),
        pytest.param(b'{"name": "\\ud800"}', id="half a surrogate pair"),
        pytest.param(b'{"name": "a\nb"}', id="a raw control character"),
        pytest.param(b'{"name": ' + b"9" * BOMB + b"}", id="a huge number instead of a name"),
        pytest.param(b'{"name": "a", "extra": {"n": ' + b"9" * BOMB + b"}}", id="a huge number"),
        pytest.param(b'{"name": "a", "extra": {"n": ' + b"[" * BOMB + b"]" * BOMB + b"}}", id="a bomb of lists"),
        pytest.param(
            b'{"name": "a", "new": ' + b'{"a":' * BOMB + b"1" + b"}" * BOMB + b"}", id="a bomb in a new field"
        ),
        pytest.param(b"\xef\xbb\xbf" + b'{"name": "a"}', id="a byte order mark"),
        pytest.param(b'{"name": "a", "extra": {"n": 1e400}}', id="a number beyond all numbers"),
    ],
)
def test_no_body_raises_anything_but_invalid_request(body: bytes) -> None:
    with pytest.raises(wire.InvalidRequest) as caught:
        wire.parse(Toy, body)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"name": "first", "name": "last"}', id="the last of two equal keys counts"),
        pytest.param(b'{"name": "last", "extra": {"m": -12345678901234567890123}}', id="a number beyond 64 bits"),
    ],
)
def test_odd_but_valid_json_is_read(body: bytes) -> None:
    assert wire.parse(Toy, body).name == "last"


@given(st.binary(max_size=60))
def test_any_bytes_parse_or_are_an_invalid_request(body: bytes) -> None:
    with suppress(wire.InvalidRequest):
        wire.parse(SyncRequest, body)


@given(JSON)
def test_a_wrong_value_is_never_repeated(value: Any) -> None:
    marker = "0123456789-secret"
    body = {"object": {"metadata": {"name": [marker, value], "labels": {"a": [marker]}, "uid": {marker: 1}}}}
    with pytest.raises(wire.InvalidRequest) as caught:
        wire.parse(SyncRequest, json.dumps(body).encode())
    assert marker not in str(caught.value)
    assert isinstance(caught.value.__cause__, msgspec.DecodeError)


def test_a_controller_manages_what_its_manifest_lists() -> None:
    rule = {"apiVersion": "v1", "resource": "events"}
    for key in ("attachments", "childResources"):
        controller = wire.parse(wire.Controller, json.dumps({"spec": {key: [rule]}}).encode())
        assert controller.manages("v1", "events")
        assert not controller.manages("events.k8s.io/v1", "events")


# encode


def test_nulls_delete_labels_and_annotations_and_are_dropped_from_attachments() -> None:
    response = wire.DecoratorResponse(
        labels={"gone": None, "set": "x"},
        annotations={"gone": None},
        attachments=[{"kind": "Event", "eventTime": None, "list": [{"a": None}, None]}],
    )
    assert json.loads(wire.encode(response)) == {
        "labels": {"gone": None, "set": "x"},
        "annotations": {"gone": None},
        "attachments": [{"kind": "Event", "list": [{}, None]}],
    }


def test_nulls_are_dropped_from_status_and_children() -> None:
    response = wire.CompositeResponse(
        status={"a": None, "b": {"c": None}}, children=[{"spec": {"x": None}}], resync_after_seconds=7
    )
    assert json.loads(wire.encode(response)) == {
        "status": {"b": {}},
        "children": [{"spec": {}}],
        "resyncAfterSeconds": 7,
    }


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_resync_is_asked_for_below_a_second(seconds: int) -> None:
    assert "resyncAfterSeconds" not in wire.DecoratorResponse(resync_after_seconds=seconds).body()


@pytest.mark.parametrize(
    "holder",
    [
        pytest.param({"ratio": 0.5}, id="in an object"),
        pytest.param({"list": [1, 2.0]}, id="in a list"),
        pytest.param({"tuple": (1, 2.0)}, id="in a tuple"),
        pytest.param({"deep": [{"er": [{"nan": float("nan")}]}]}, id="deep down"),
    ],
)
def test_floats_are_refused(holder: JsonObject) -> None:
    for response in (
        wire.CompositeResponse(status=holder, children=[]),
        wire.CompositeResponse(status={}, children=[holder]),
        wire.DecoratorResponse(attachments=[holder]),
    ):
        with pytest.raises(TypeError, match="no floats"):
            wire.encode(response)


def _shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shuffled(value[key]) for key in reversed(value)}
    return [_shuffled(item) for item in value] if isinstance(value, list) else value


@given(OBJECTS, st.lists(OBJECTS, max_size=3))
def test_the_same_response_is_the_same_bytes(status: JsonObject, children: list[JsonObject]) -> None:
    one = wire.encode(wire.CompositeResponse(status=status, children=children))
    other = wire.encode(wire.CompositeResponse(status=_shuffled(status), children=[_shuffled(c) for c in children]))
    assert one == other


@given(st.dictionaries(TEXT, st.none() | TEXT), st.dictionaries(TEXT, st.none() | TEXT))
def test_labels_and_annotations_arrive_as_given(
    labels: dict[str, str | None], annotations: dict[str, str | None]
) -> None:
    answer = json.loads(wire.encode(wire.DecoratorResponse(labels=labels, annotations=annotations)))
    assert answer == {"labels": labels, "annotations": annotations, "attachments": []}


@pytest.mark.parametrize(
    ("rule", "body"),
    [
        pytest.param({}, {}, id="all of a kind"),
        pytest.param({"namespace": "ns", "names": ("a", "b")}, {"namespace": "ns", "names": ["a", "b"]}, id="by name"),
        pytest.param({"label_selector": {}}, {"labelSelector": {}}, id="an empty selector is not left out"),
    ],
)
def test_a_related_rule_holds_what_was_given(rule: JsonObject, body: JsonObject) -> None:
    response = wire.CustomizeResponse([wire.RelatedRule(api_version="v1", resource="pods", **rule)])
    assert json.loads(wire.encode(response)) == {"relatedResources": [{"apiVersion": "v1", "resource": "pods", **body}]}


# outcomes


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        pytest.param(wire.ObjectRef("Node", "n"), "Node/n", id="cluster-scoped"),
        pytest.param(wire.ObjectRef("Pod", "p", "ns"), "Pod/ns/p", id="in a namespace"),
    ],
)
def test_an_object_is_named_by_kind_and_key(ref: wire.ObjectRef, text: str) -> None:
    assert str(ref) == text


@pytest.mark.parametrize(("seconds", "waits"), [(-5, 1), (0, 1), (1, 1), (60, 60)])
def test_retry_later_waits_a_second_at_least(seconds: int, waits: int) -> None:
    assert wire.RetryLater("not now", seconds=seconds).seconds == waits


def _child(annotations: Any) -> JsonObject:
    return {"kind": "DaemonSet", "metadata": {"name": "d", "namespace": "ns", "annotations": annotations}}


def test_a_child_is_kept_by_what_was_applied_last() -> None:
    applied = {"kind": "DaemonSet", "metadata": {"name": "d"}, "spec": {"text": "a < b"}}
    text = json.dumps(applied).replace("<", "\\u003c")
    assert wire.last_applied(_child({wire.LAST_APPLIED: text, "else": "foreign"})) == applied


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(None, id="no annotations"),
        pytest.param({"else": "{}"}, id="none of ours"),
        pytest.param({wire.LAST_APPLIED: ""}, id="empty"),
        pytest.param({wire.LAST_APPLIED: "{"}, id="cut off"),
        pytest.param({wire.LAST_APPLIED: "null"}, id="null"),
        pytest.param({wire.LAST_APPLIED: "[{}]"}, id="a list"),
        pytest.param({wire.LAST_APPLIED: '{"a": NaN}'}, id="not a number"),
        pytest.param({wire.LAST_APPLIED: '{"a": "\\ud800"}'}, id="half a surrogate pair"),
        pytest.param({wire.LAST_APPLIED: '{"a":' * BOMB + "1" + "}" * BOMB}, id="a bomb"),
        pytest.param({wire.LAST_APPLIED: 5}, id="not text"),
        pytest.param({wire.LAST_APPLIED: '{"a": 1.5}'}, id="a float, which no hook returns"),
    ],
)
def test_what_was_applied_last_may_not_be_known(annotations: Any) -> None:
    assert wire.last_applied(_child(annotations)) is None
