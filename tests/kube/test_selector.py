from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.selector import InvalidSelector, Selector, parse_selector

KEYS = ["app", "tier", "example.com/zone"]
VALUES = ["", "a", "b", "c"]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"]

labels_maps = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
value_lists = st.lists(st.sampled_from(VALUES), min_size=1)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from([*KEYS, *OPERATORS]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "operator", "values", "matchLabels", "matchExpressions"]), inner)
    ),
    max_leaves=10,
)


def expression(operator: str, *values: str, key: str = "app") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def matches(selector: Mapping[str, object] | None, **labels: str) -> bool:
    return parse_selector(selector).matches(labels)


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        pytest.param(None, {}, False, id="null matches nothing"),
        pytest.param({}, {}, True, id="empty matches everything"),
        pytest.param({"matchLabels": None, "matchExpressions": None}, {}, True, id="null parts are empty parts"),
        pytest.param({"matchLabels": {}, "matchExpressions": []}, {"a": "b"}, True, id="so are empty parts"),
        pytest.param({"matchLabels": {"app": "a"}}, {"app": "a", "x": "y"}, True, id="an equal label"),
        pytest.param({"matchLabels": {"app": "a"}}, {"app": "b"}, False, id="another value"),
        pytest.param({"matchLabels": {"app": "a"}}, {}, False, id="an absent label"),
        pytest.param({"matchLabels": {"app": ""}}, {"app": ""}, True, id="an empty value is a value"),
        pytest.param({"matchLabels": {"app": ""}}, {}, False, id="and not the same as none"),
        pytest.param({"matchLabels": {"app": "a", "tier": "b"}}, {"app": "a"}, False, id="all labels must match"),
        pytest.param(expression("In", "a", "b"), {"app": "b"}, True, id="In with the value"),
        pytest.param(expression("In", "a", "b"), {"app": "c"}, False, id="In with another value"),
        pytest.param(expression("In", "a"), {}, False, id="In without the key"),
        pytest.param(expression("NotIn", "a"), {"app": "b"}, True, id="NotIn with another value"),
        pytest.param(expression("NotIn", "a"), {"app": "a"}, False, id="NotIn with the value"),
        pytest.param(expression("NotIn", "a"), {}, True, id="NotIn without the key"),
        pytest.param(expression("Exists"), {"app": ""}, True, id="Exists with the key"),
        pytest.param(expression("Exists"), {}, False, id="Exists without the key"),
        pytest.param(expression("DoesNotExist"), {}, True, id="DoesNotExist without the key"),
        pytest.param(expression("DoesNotExist"), {"app": ""}, False, id="DoesNotExist with the key"),
        pytest.param(
            {"matchLabels": {"app": "a"}, **expression("Exists", key="tier")},
            {"app": "a"},
            False,
            id="labels and expressions must both match",
        ),
    ],
)
def test_matches_as_kubernetes_does(selector: dict[str, Any] | None, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(selector).matches(labels) is expected


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param([], "selector must be an object", id="a list"),
        pytest.param("app=a", "selector must be an object", id="the text form"),
        pytest.param({"matchlabels": {}}, 'selector: unknown field "matchlabels"', id="a misspelt field"),
        pytest.param({"matchLabels": []}, "matchLabels must be an object", id="labels as a list"),
        pytest.param({"matchLabels": {"app": 1}}, 'matchLabels["app"] must be a string', id="a number as a value"),
        pytest.param({"matchLabels": {"app": None}}, 'matchLabels["app"] must be a string', id="null as a value"),
        pytest.param({"matchLabels": {1: "a"}}, "matchLabels: key must be a string", id="a number as a key"),
        pytest.param(
            {"matchLabels": {"a/b/c": "x"}},
            'matchLabels: label key "a/b/c" has more than one /',
            id="a bad key",
        ),
        pytest.param(
            {"matchLabels": {"app": "a b"}},
            'matchLabels["app"]: label value "a b" is not made of letters, digits, - _ . '
            "with a letter or digit at both ends",
            id="a bad value",
        ),
        pytest.param({"matchExpressions": {}}, "matchExpressions must be a list", id="expressions as an object"),
        pytest.param({"matchExpressions": [None]}, "matchExpressions[0] must be an object", id="a null expression"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "app", "operator": "in"}]},
            'matchExpressions[1]: operator "in" is not one of In, NotIn, Exists, DoesNotExist',
            id="operators are case-sensitive",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app"}]},
            "matchExpressions[0]: operator must be a string",
            id="no operator",
        ),
        pytest.param(
            {"matchExpressions": [{"operator": "Exists"}]},
            "matchExpressions[0]: key must be a string",
            id="no key",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "value": "a"}]},
            'matchExpressions[0]: unknown field "value"',
            id="a misspelt field of an expression",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": "a"}]},
            "matchExpressions[0]: values must be a list",
            id="values as text",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", 1]}]},
            "matchExpressions[0]: values[1] must be a string",
            id="a number among the values",
        ),
        pytest.param(expression("In"), "matchExpressions[0]: In needs at least one value", id="In without values"),
        pytest.param(expression("NotIn"), "matchExpressions[0]: NotIn needs at least one value", id="NotIn neither"),
        pytest.param(expression("Exists", "a"), "matchExpressions[0]: Exists takes no values", id="Exists with values"),
        pytest.param(
            expression("DoesNotExist", "a"),
            "matchExpressions[0]: DoesNotExist takes no values",
            id="DoesNotExist with values",
        ),
    ],
)
def test_says_which_part_is_wrong(selector: Any, message: str) -> None:
    with pytest.raises(InvalidSelector) as caught:
        parse_selector(selector)
    assert str(caught.value) == message


def test_names_its_keys() -> None:
    selector = parse_selector({"matchLabels": {"app": "a"}, **expression("DoesNotExist", key="tier")})
    assert selector.keys == {"app", "tier"}
    assert parse_selector(None).keys == parse_selector({}).keys == frozenset()


def test_equal_selectors_are_one_dictionary_key() -> None:
    first, second = parse_selector(expression("In", "a", "b")), parse_selector(expression("In", "b", "a"))
    assert {first: 1}[second] == 1
    assert parse_selector(None) != parse_selector({})


@given(labels_maps)
def test_empty_matches_all_and_null_matches_none(labels: dict[str, str]) -> None:
    assert Selector().matches(labels)
    assert parse_selector({}).matches(labels)
    assert not parse_selector(None).matches(labels)


@given(labels_maps, st.sampled_from(KEYS), value_lists)
def test_not_in_is_the_complement_of_in(labels: dict[str, str], key: str, values: list[str]) -> None:
    is_in = parse_selector(expression("In", *values, key=key)).matches(labels)
    assert parse_selector(expression("NotIn", *values, key=key)).matches(labels) is not is_in
    assert is_in is (labels.get(key) in values)


@given(labels_maps, st.sampled_from(KEYS))
def test_does_not_exist_is_the_complement_of_exists(labels: dict[str, str], key: str) -> None:
    exists = parse_selector(expression("Exists", key=key)).matches(labels)
    assert parse_selector(expression("DoesNotExist", key=key)).matches(labels) is not exists


@given(labels_maps, labels_maps)
def test_match_labels_is_a_subset_test_and_the_same_as_in(wanted: dict[str, str], labels: dict[str, str]) -> None:
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    expected = wanted.items() <= labels.items()
    assert parse_selector({"matchLabels": wanted}).matches(labels) is expected
    assert parse_selector({"matchExpressions": expressions}) == parse_selector({"matchLabels": wanted})


@given(json_values, labels_maps)
def test_any_json_is_a_selector_or_an_invalid_one(selector: Any, labels: dict[str, str]) -> None:
    try:
        parsed = parse_selector(selector)
    except InvalidSelector:
        return
    assert parsed.matches(labels) in (True, False)
    assert isinstance(hash(parsed), int)
