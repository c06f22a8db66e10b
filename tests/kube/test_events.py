import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.events import event

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data-0", "namespace": "shop", "uid": "u-1"},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1", "uid": "u-2"}}

parts = st.text(max_size=300)


def news(
    *, involved: dict[str, Any] = CLAIM, reason: str = "Grown", message: str = "ok", **more: Any
) -> dict[str, Any]:
    fields: dict[str, Any] = {"type_": "Normal", "component": "volume-autoscaler", "now": NOW, **more}
    return event(involved=involved, reason=reason, message=message, **fields)


def name(**more: Any) -> str:
    return str(news(**more)["metadata"]["name"])


def claim(name: str, namespace: str = "shop", uid: str = "u-1") -> dict[str, Any]:
    return {**CLAIM, "metadata": {"name": name, "namespace": namespace, "uid": uid}}


def test_tells_of_a_namespaced_object() -> None:
    assert news(message="10Gi to 20Gi") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "data-0-grown-shop-u-1-f150ea04", "namespace": "shop"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": "data-0",
            "namespace": "shop",
            "uid": "u-1",
        },
        "type": "Normal",
        "reason": "Grown",
        "message": "10Gi to 20Gi",
        "count": 1,
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "source": {"component": "volume-autoscaler"},
        "reportingComponent": "volume-autoscaler",
        "reportingInstance": "volume-autoscaler",
    }


def test_events_of_cluster_scoped_objects_live_in_default() -> None:
    told = news(involved=NODE)
    assert told["metadata"]["namespace"] == "default"
    assert told["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u-2"}


def test_what_the_object_does_not_say_is_left_out() -> None:
    assert news(involved={"metadata": {"name": "a"}, "kind": None})["involvedObject"] == {"name": "a"}


def test_the_name_does_not_depend_on_time_or_message() -> None:
    assert name() == name(now=NOW.replace(year=2030), message="other", type_="Warning")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"reason": "Shrunk"}, id="another reason"),
        pytest.param({"identity": ["20Gi"]}, id="another identity"),
        pytest.param({"involved": claim("data-1")}, id="another object"),
        pytest.param({"involved": claim("data-0", namespace="bank")}, id="another namespace"),
        pytest.param({"involved": claim("data-0", uid="u-9")}, id="a new object of the same name"),
    ],
)
def test_other_news_is_another_event(other: dict[str, Any]) -> None:
    assert name() != name(**other)


def test_the_name_of_a_very_long_object_fits() -> None:
    long = name(involved=claim("n" * 253))
    assert len(long) == 253
    assert long != name(involved=claim("n" * 253), reason="Shrunk")


@given(parts, parts, st.lists(parts, max_size=3))
def test_names_are_dns_subdomains(object_name: str, reason: str, identity: list[str]) -> None:
    told = name(involved=claim(object_name), reason=reason, identity=identity)
    assert re.fullmatch("[a-z0-9][a-z0-9-]{0,251}[a-z0-9]", told)


def test_a_long_message_is_cut_in_the_middle() -> None:
    assert news(message="a" * 1024)["message"] == "a" * 1024
    assert news(message="a" * 1000 + "b" * 25)["message"] == "a" * 510 + " ... " + "a" * 484 + "b" * 25


@given(st.text(min_size=1, max_size=50), st.integers(500, 3000))
def test_messages_keep_their_ends_and_their_limit(piece: str, length: int) -> None:
    message = (piece * length)[-length:]
    told = news(message=message)["message"]
    assert len(told) == min(len(message), 1024)
    assert (told[:500], told[-500:]) == (message[:500], message[-500:])


@given(
    st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata"]), st.none() | st.lists(st.none()) | st.text())
)
def test_an_odd_object_still_makes_an_event_without_nulls(involved: dict[str, Any]) -> None:
    told = news(involved=involved)
    assert None not in told.values()
    assert all(isinstance(value, str) for value in told["involvedObject"].values())
