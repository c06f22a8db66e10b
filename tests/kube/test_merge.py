import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.merge import LAST_APPLIED, CannotMerge, apply, go_json, merge
from hooks.kube.metadata import JsonObject

STORED = json.loads((Path(__file__).parent.parent / "data" / "objects-after.json").read_text())["items"]

SCALARS = st.integers(0, 3) | st.sampled_from(["", "a", "b"]) | st.booleans()
NAMES = st.sampled_from(["a", "b", "c"])
NAMED = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["x", "y", "z"])}, optional={"v": SCALARS}),
    max_size=3,
    unique_by=lambda item: str(item["name"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2) | NAMED, max_leaves=6
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@pytest.mark.parametrize(
    ("observed", "last", "desired", "merged"),
    [
        pytest.param({"a": 1}, {}, {"b": 2}, {"a": 1, "b": 2}, id="a foreign field stays"),
        pytest.param({"a": 1, "b": 2}, {"b": 2}, {}, {"a": 1}, id="a field that was applied before goes"),
        pytest.param({"a": 1}, {"b": 2}, {}, {"a": 1}, id="a field that somebody else removed stays removed"),
        pytest.param({"b": 9}, {"b": 2}, {"b": 2}, {"b": 2}, id="a field that somebody else changed is set back"),
        pytest.param(
            {"m": {"x": 1, "ours": 1}},
            {"m": {"ours": 1}},
            {"m": {"new": 1}},
            {"m": {"x": 1, "new": 1}},
            id="objects are merged inside",
        ),
        pytest.param({"m": {"x": 1}}, {"m": {"x": 1}}, {"m": {}}, {"m": {}}, id="an emptied object stays as empty"),
        pytest.param({"l": [1, 2]}, {"l": [1]}, {"l": [3]}, {"l": [3]}, id="a list of scalars is replaced"),
        pytest.param({"l": [1]}, {"l": [1]}, {"l": []}, {"l": []}, id="a list may be emptied"),
        pytest.param(
            {"l": [{"q": 1}]}, {}, {"l": [{"q": 2}]}, {"l": [{"q": 2}]}, id="items without a key are replaced"
        ),
        pytest.param({"a": 1}, {"a": 1}, {"a": "1"}, {"a": "1"}, id="a scalar may change its type"),
        pytest.param({"a": 1}, {}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="an object replaces a scalar"),
        pytest.param(
            {"a": {"x": 1, "y": 2}},
            {"a": {"x": 1}},
            {"a": 5},
            {"a": {"y": 2}},
            id="a scalar does not replace an object",
        ),
        pytest.param({"a": [1]}, {"a": "t"}, {"a": {"b": 1}}, {"a": []}, id="an object instead of a list is nothing"),
        pytest.param({"a": {"x": 1}}, {"a": [1]}, {"a": {"x": 2}}, {"a": {"x": 2}}, id="odd last applied is nothing"),
        pytest.param(
            {"a": {"x": 1}}, {"a": {"x": 1}}, {"a": None}, {"a": {}}, id="null is an object with nothing in it"
        ),
    ],
)
def test_merge(observed: JsonObject, last: JsonObject, desired: JsonObject, merged: JsonObject) -> None:
    before = deepcopy((observed, last, desired))
    assert merge(observed, last, desired) == merged
    assert (observed, last, desired) == before


@pytest.mark.parametrize(
    ("observed", "last", "desired", "merged"),
    [
        pytest.param(
            [{"name": "a", "x": 1}, {"name": "theirs"}],
            [{"name": "a"}],
            [{"name": "b"}, {"name": "a", "y": 2}],
            [{"name": "a", "x": 1, "y": 2}, {"name": "theirs"}, {"name": "b"}],
            id="observed order first, then what is new",
        ),
        pytest.param(
            [{"name": "a"}, {"name": "b"}],
            [{"name": "a"}, {"name": "b"}],
            [{"name": "b"}],
            [{"name": "b"}],
            id="an item that was applied before goes",
        ),
        pytest.param([{"name": "a"}], [{"name": "a"}], [], [], id="the last item goes"),
        pytest.param(
            [{"name": "a", "port": 1}],
            [],
            [{"name": "b", "port": 1}],
            [{"name": "b", "port": 1}],
            id="port goes before name",
        ),
        pytest.param(
            [{"name": "a", "port": 1}, {"name": "b"}],
            [],
            [{"name": "a", "port": 2}],
            [{"name": "a", "port": 2}, {"name": "b"}],
            id="a key that one item lacks is not the key",
        ),
        pytest.param([{"port": 80}], [], [{"port": "80", "x": 1}], [{"port": "80", "x": 1}], id="80 is the text 80"),
        pytest.param([{"name": "a"}, 5], [], [{"name": "b"}], [{"name": "b"}], id="one scalar makes it a plain list"),
        pytest.param(
            [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            [],
            [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "TCP"}],
            id="two items of one key become equal, as in the original",
        ),
        pytest.param(
            [],
            [],
            [{"name": "a", "v": 1}, {"name": "a", "v": 2}],
            [{"name": "a", "v": 2}],
            id="of two new ones the last",
        ),
    ],
)
def test_lists_of_named_items_are_merged(observed: Any, last: Any, desired: Any, merged: Any) -> None:
    assert merge({"l": observed}, {"l": last}, {"l": desired}) == {"l": merged}


@given(OBJECTS, OBJECTS, OBJECTS)
def test_merging_again_changes_nothing(observed: JsonObject, last: JsonObject, desired: JsonObject) -> None:
    once = merge(observed, last, desired)
    assert merge(once, desired, desired) == once


@given(OBJECTS, OBJECTS, OBJECTS)
def test_exactly_the_applied_and_gone_fields_go(observed: JsonObject, last: JsonObject, desired: JsonObject) -> None:
    merged = merge(observed, last, desired)
    assert merged.keys() == (observed.keys() - (last.keys() - desired.keys())) | desired.keys()
    foreign = observed.keys() - last.keys() - desired.keys()
    assert {key: merged[key] for key in foreign} == {key: observed[key] for key in foreign}


@given(OBJECTS, OBJECTS)
def test_a_first_apply_removes_nothing(observed: JsonObject, desired: JsonObject) -> None:
    assert merge(observed, {}, desired).keys() == observed.keys() | desired.keys()


@given(OBJECTS, OBJECTS)
def test_what_was_applied_to_nothing_goes_without_a_trace(foreign: JsonObject, ours: JsonObject) -> None:
    mine = {f"our-{key}": value for key, value in ours.items()}
    assert merge(merge(foreign, {}, mine), mine, {}) == foreign


# apply


def child(**fields: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Toy", "metadata": {"name": "t"}, **fields}


def stored(applied: JsonObject | str, **fields: Any) -> JsonObject:
    text = applied if isinstance(applied, str) else go_json(applied)
    return child(**fields) | {"metadata": {"name": "t", "uid": "u", "annotations": {LAST_APPLIED: text, "x": "y"}}}


def test_what_was_returned_before_changes_nothing() -> None:
    observed = stored(child(spec={"a": 1}), spec={"a": 1, "defaulted": 2}, status={"ready": 1})
    assert apply(observed, child(spec={"a": 1})) == observed


def test_system_fields_and_status_are_left_as_they_are() -> None:
    observed = stored(child(), status={"ready": 1})
    mine = {"name": "t", "uid": "mine", "generation": 7, "resourceVersion": "9", "creationTimestamp": "now"}
    updated = apply(observed, child(metadata=mine, status={"ready": 0, "mine": 1}))
    assert updated["status"] == {"ready": 1}
    assert updated["metadata"].keys() == {"name", "uid", "annotations"}
    assert updated["metadata"]["uid"] == "u"


def test_a_status_that_nobody_wrote_is_not_set() -> None:
    assert "status" not in apply(stored(child()), child(status={"a": 1}))


def test_foreign_annotations_stay_and_an_echoed_record_is_not_recorded() -> None:
    echoed = child(metadata={"name": "t", "annotations": {LAST_APPLIED: "{}"}})
    annotations = apply(stored(child()), echoed)["metadata"]["annotations"]
    assert annotations["x"] == "y"
    assert LAST_APPLIED not in json.loads(annotations[LAST_APPLIED])["metadata"]["annotations"]


def test_without_a_record_nothing_is_removed() -> None:
    updated = apply(child(spec={"theirs": 1}), child(spec={"ours": 1}))
    assert updated["spec"] == {"theirs": 1, "ours": 1}
    assert json.loads(updated["metadata"]["annotations"][LAST_APPLIED]) == child(spec={"ours": 1})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="cut off"),
        pytest.param("[1]", id="a list"),
        pytest.param('"text"', id="text"),
        pytest.param("[" * 100_000, id="a bomb"),
    ],
)
def test_a_corrupt_record_is_an_error(text: str) -> None:
    with pytest.raises(CannotMerge, match="of t is not a JSON object"):
        apply(stored(text), child())


@pytest.mark.parametrize("text", ["", "null", "{}"])
def test_an_empty_record_is_none(text: str) -> None:
    assert apply(stored(text, spec={"a": 1}), child())["spec"] == {"a": 1}


# go_json


@pytest.mark.parametrize("obj", [obj for obj in STORED if LAST_APPLIED in obj["metadata"]["annotations"]])
def test_the_record_is_written_as_metacontroller_wrote_it(obj: JsonObject) -> None:
    recorded = obj["metadata"]["annotations"][LAST_APPLIED]
    assert go_json(json.loads(recorded)) == recorded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}', id="keys are sorted"),
        pytest.param({"a": "<b> & c"}, r'{"a":"\u003cb\u003e \u0026 c"}', id="characters of HTML are escaped"),
        pytest.param({"<": 1}, r'{"\u003c":1}', id="in keys too"),
        pytest.param({"a": "\u2028\u2029"}, r'{"a":"\u2028\u2029"}', id="line separators are escaped"),
        pytest.param({"a": "\u00e9\u6f22\U0001f600\x7f"}, '{"a":"\u00e9\u6f22\U0001f600\x7f"}', id="others stay"),
        pytest.param(
            {"a": '"\\\b\f\n\r\t\x01/'}, r'{"a":"\"\\\b\f\n\r\t\u0001/"}', id="control characters are escaped"
        ),
        pytest.param({"a": "\\u003c"}, r'{"a":"\\u003c"}', id="an escape in the text is not one"),
        pytest.param({"\uffff": 1, "\U00010000": 2}, '{"\uffff":1,"\U00010000":2}', id="keys sort as UTF-8 does"),
    ],
)
def test_text_is_what_go_writes(value: JsonObject, text: str) -> None:
    assert go_json(value) == text


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers() | st.none(), max_size=4))
def test_go_reads_back_what_we_write(value: JsonObject) -> None:
    assert json.loads(go_json(value)) == value
