from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.conditions import Status, condition

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOW_TEXT = "2026-01-02T03:04:05Z"
EARLIER = "2025-12-31T00:00:00Z"

statuses = st.sampled_from(get_args(Status))
json_values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.sampled_from(["Ready", "True", EARLIER]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "status", "lastTransitionTime"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def ready(status: Status = "True", *, observed: Any = ()) -> dict[str, Any]:
    return condition("Ready", status, "Done", "All is well.", now=NOW, observed=observed)


def test_a_new_condition_starts_now() -> None:
    assert ready() == {
        "type": "Ready",
        "status": "True",
        "reason": "Done",
        "message": "All is well.",
        "lastTransitionTime": NOW_TEXT,
    }


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        pytest.param({"type": "Ready", "status": "True", "lastTransitionTime": EARLIER}, EARLIER, id="the same status"),
        pytest.param({"type": "Ready", "status": "False", "lastTransitionTime": EARLIER}, NOW_TEXT, id="a flip"),
        pytest.param({"type": "Ready", "status": True, "lastTransitionTime": EARLIER}, NOW_TEXT, id="a boolean status"),
        pytest.param({"type": "Other", "status": "True", "lastTransitionTime": EARLIER}, NOW_TEXT, id="another type"),
        pytest.param({"type": "Ready", "status": "True"}, NOW_TEXT, id="no time"),
        pytest.param({"type": "Ready", "status": "True", "lastTransitionTime": None}, NOW_TEXT, id="a null time"),
        pytest.param({"type": "Ready", "status": "True", "lastTransitionTime": "soon"}, NOW_TEXT, id="no real time"),
        pytest.param({}, NOW_TEXT, id="an empty condition"),
        pytest.param(None, NOW_TEXT, id="a null condition"),
    ],
)
def test_keeps_the_time_of_the_last_flip(observed: Any, expected: str) -> None:
    assert ready(observed=[observed])["lastTransitionTime"] == expected


def test_finds_its_own_among_others() -> None:
    others = [{"type": "Other", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]
    mine = {"type": "Ready", "status": "True", "reason": "Old", "lastTransitionTime": EARLIER}
    assert ready(observed=[*others, mine])["lastTransitionTime"] == EARLIER


def test_a_new_reason_is_no_transition() -> None:
    first = condition("Ready", "False", "A", "a", now=NOW)
    later = condition("Ready", "False", "B", "b", now=NOW.replace(year=2030), observed=[first])
    assert later == {**first, "reason": "B", "message": "b"}


@given(statuses, statuses)
def test_the_time_is_kept_iff_the_status_is(before: Status, after: Status) -> None:
    observed = [{"type": "Ready", "status": before, "lastTransitionTime": EARLIER}]
    assert (ready(after, observed=observed)["lastTransitionTime"] == EARLIER) is (before == after)


@given(statuses)
def test_the_same_input_gives_the_same_condition(status: Status) -> None:
    once = ready(status)
    assert condition("Ready", status, "Done", "All is well.", now=NOW.replace(year=2030), observed=[once]) == once


@given(st.lists(json_values))
def test_odd_observations_are_as_good_as_none(observed: list[Any]) -> None:
    assert ready(observed=observed)["lastTransitionTime"] in (NOW_TEXT, EARLIER)
