import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube import metadata

NAME_RULE = "is not made of letters, digits, - _ . with a letter or digit at both ends"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
METADATA_FIELDS = ["name", "namespace", "uid", "labels", "annotations", "ownerReferences", "deletionTimestamp"]
odd_objects = json_values | st.fixed_dictionaries(
    {"metadata": json_values | st.dictionaries(st.sampled_from(METADATA_FIELDS), json_values)}
)


@pytest.mark.parametrize(
    "key",
    ["app", "a", "A_b.c-1", "example.com/app", "kubernetes.io/os", "a/b", "x" * 63, f"{'a.' * 126}a/{'x' * 63}"],
)
def test_accepts_label_keys(key: str) -> None:
    assert metadata.check_label_key(key) is None
    assert metadata.check_annotation_key(key) is None


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        pytest.param("", 'label key "" has a name that is empty', id="empty"),
        pytest.param("a/", 'label key "a/" has a name that is empty', id="no name after the prefix"),
        pytest.param("/a", 'label key "/a" has a prefix that is empty', id="nothing before the slash"),
        pytest.param("a/b/c", 'label key "a/b/c" has more than one /', id="two slashes"),
        pytest.param(
            "A.io/b", 'label key "A.io/b" has a prefix that is not a lower-case DNS name', id="a capital prefix"
        ),
        pytest.param("a_b/c", 'label key "a_b/c" has a prefix that is not a lower-case DNS name', id="_ in the prefix"),
        pytest.param(
            "a..b/c", 'label key "a..b/c" has a prefix that is not a lower-case DNS name', id="an empty DNS label"
        ),
        pytest.param("-a", f'label key "-a" has a name that {NAME_RULE}', id="a hyphen first"),
        pytest.param("a-", f'label key "a-" has a name that {NAME_RULE}', id="a hyphen last"),
        pytest.param("a b", f'label key "a b" has a name that {NAME_RULE}', id="a blank"),
        pytest.param("a\n", f'label key "a\\n" has a name that {NAME_RULE}', id="a line break"),
        pytest.param("é", f'label key "\\u00e9" has a name that {NAME_RULE}', id="a letter beyond ASCII"),
    ],
)
def test_says_what_is_wrong_with_a_label_key(key: str, problem: str) -> None:
    assert metadata.check_label_key(key) == problem


def test_label_keys_have_limits() -> None:
    long_name = metadata.check_label_key("x" * 64)
    long_prefix = metadata.check_label_key(f"{'a.' * 126}ab/x")
    assert long_name == f'label key "{"x" * 35}..." has a name that is longer than 63 characters'
    assert long_prefix == f'label key "{"a." * 17}a..." has a prefix that is longer than 253 characters'


def test_annotation_keys_may_be_capital_anywhere() -> None:
    assert metadata.check_annotation_key("Example.COM/Key") is None
    assert metadata.check_annotation_key("a_b/c") == (
        'annotation key "a_b/c" has a prefix that is not a lower-case DNS name'
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param("", None, id="empty is fine"),
        pytest.param("a_B.c-1", None, id="letters digits and marks"),
        pytest.param("x" * 63, None, id="63 characters"),
        pytest.param("x" * 64, f'label value "{"x" * 35}..." is longer than 63 characters', id="64 characters"),
        pytest.param("a/b", f'label value "a/b" {NAME_RULE}', id="a slash"),
        pytest.param("a.", f'label value "a." {NAME_RULE}', id="a point last"),
        pytest.param("a\n", f'label value "a\\n" {NAME_RULE}', id="a line break"),
        pytest.param("١", f'label value "\\u0661" {NAME_RULE}', id="an Arabic digit"),
    ],
)
def test_checks_label_values(value: str, problem: str | None) -> None:
    assert metadata.check_label_value(value) == problem


@given(st.text(max_size=300))
def test_a_valid_label_key_is_a_valid_annotation_key(key: str) -> None:
    if metadata.check_label_key(key) is None:
        assert metadata.check_annotation_key(key) is None


def test_reads_an_object() -> None:
    owner = {"kind": "Set", "name": "s", "controller": True}
    obj: metadata.JsonObject = {
        "metadata": {
            "name": "n",
            "namespace": "ns",
            "uid": "u",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ownerReferences": [{"name": "other"}, owner],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        }
    }
    assert metadata.name_of(obj) == "n"
    assert metadata.namespace_of(obj) == "ns"
    assert metadata.uid_of(obj) == "u"
    assert metadata.labels_of(obj) == {"a": "b"}
    assert metadata.annotations_of(obj) == {"c": "d"}
    assert metadata.owner_of(obj) == owner
    assert metadata.is_deleting(obj)
    assert metadata.object_key(obj) == "ns/n"


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": []}, {"metadata": {}}, None, [], "x"])
def test_absent_parts_read_as_empty(obj: object) -> None:
    texts = (metadata.name_of, metadata.namespace_of, metadata.uid_of, metadata.object_key)
    assert [read(obj) for read in texts] == [""] * 4
    assert metadata.labels_of(obj) == metadata.annotations_of(obj) == {}
    assert metadata.owner_of(obj) is None
    assert not metadata.is_deleting(obj)


def test_skips_labels_that_are_not_strings() -> None:
    labels: dict[str, Any] = {"a": "b", "n": 1, "null": None, "list": []}
    assert metadata.labels_of({"metadata": {"labels": labels}}) == {"a": "b"}


def test_returned_labels_are_a_copy() -> None:
    obj: metadata.JsonObject = {"metadata": {"labels": {"a": "b"}}}
    metadata.labels_of(obj)["a"] = "changed"
    assert metadata.labels_of(obj) == {"a": "b"}


@pytest.mark.parametrize("controller", [False, None, "true", 1])
def test_an_owner_that_does_not_control_is_no_owner(controller: object) -> None:
    assert metadata.owner_of({"metadata": {"ownerReferences": [{"controller": controller}, "x"]}}) is None


@given(odd_objects)
def test_readers_never_raise(obj: object) -> None:
    assert all(isinstance(item, str) for item in metadata.labels_of(obj).values())
    assert all(isinstance(item, str) for item in metadata.annotations_of(obj).values())
    assert isinstance(metadata.object_key(obj) + metadata.uid_of(obj), str)
    assert metadata.is_deleting(obj) in (True, False)
    owner = metadata.owner_of(obj)
    assert owner is None or owner["controller"] is True


def test_a_cluster_scoped_object_is_keyed_by_name() -> None:
    assert metadata.object_key({"metadata": {"name": "node-1"}}) == "node-1"


@pytest.mark.parametrize(
    ("api_version", "kind", "key"),
    [
        ("v1", "PersistentVolumeClaim", "PersistentVolumeClaim.v1"),
        ("apps/v1", "Deployment", "Deployment.apps/v1"),
        ("storage.k8s.io/v1", "StorageClass", "StorageClass.storage.k8s.io/v1"),
    ],
)
def test_groups_are_keyed_as_metacontroller_does(api_version: str, kind: str, key: str) -> None:
    assert metadata.group_key(api_version, kind) == key


def test_compact_json_is_sorted_and_without_blanks() -> None:
    assert metadata.compact_json({"b": [1, 2], "a": {"ü": None}}) == '{"a":{"ü":null},"b":[1,2]}'


@given(st.dictionaries(st.text(), json_values))
def test_compact_json_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    backwards = dict(reversed(value.items()))
    assert metadata.compact_json(backwards) == metadata.compact_json(value)
    assert json.loads(metadata.compact_json(value)) == value
