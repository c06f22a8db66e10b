"""What people read of a NodeAgentAutoscaler: its status, its conditions, Events and metrics."""

from datetime import timedelta
from typing import Any

import pytest

from hooks.kube.times import format_time
from tests.agents import (
    HALF,
    NAMESPACE,
    NOW,
    SIZE,
    TEXT,
    applied,
    ask_agent,
    autoscaler,
    children_of,
    condition_of,
    counted,
    daemonset,
    emptied,
    entry_of,
    finished,
    news_of,
    running,
    shape,
    status_of,
    told,
    unfinished,
)

OWN = running()
PAIR = [shape(), shape(name="b", pool="small")]
TWO = running(nodes=PAIR)


# What people read


def test_the_status_sums_up_and_lists_the_groups() -> None:
    own = [finished(TWO[0], nodes=3), unfinished(TWO[1], updated=2, nodes=4)]
    nodes = [*PAIR, *(shape(name=f"n{number}", pool="small") for number in range(3))]
    status = status_of(ask_agent(own=own, nodes=nodes))

    assert status == {
        "groups": 2,
        "nodes": 5,
        "agents": 7,
        "agentsReady": 5,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Managing",
                "message": "nodes: 5, groups: 2",
                "lastTransitionTime": "2026-11-16T03:00:00Z",
            },
            {
                "type": "TemplateValid",
                "status": "True",
                "reason": "Valid",
                "message": "a DaemonSet can be made of it",
                "lastTransitionTime": "2026-11-16T03:00:00Z",
            },
        ],
        "nodeGroups": [
            {
                "value": group,
                "daemonSet": f"agent-{group}",
                "nodes": nodes,
                "ready": ready,
                "requests": {"cpu": "100m", "memory": "327Mi"},
                "limits": {"cpu": "200m", "memory": "819Mi"},
                "goMemLimit": "655MiB",
                "reason": "Running",
                "message": SIZE,
            }
            for group, nodes, ready in (("large", 1, 3), ("small", 4, 2))
        ],
    }


def test_what_is_kept_is_still_reported_with_its_size() -> None:
    status = status_of(ask_agent(own=OWN))
    entry = entry_of(ask_agent(own=OWN, parent=autoscaler(paused=True, status=status)))

    assert {key: entry[key] for key in ("requests", "limits", "goMemLimit")} == {
        "requests": {"cpu": "100m", "memory": "327Mi"},
        "limits": {"cpu": "200m", "memory": "819Mi"},
        "goMemLimit": "655MiB",
    }


def test_the_time_of_a_condition_moves_only_when_it_flips() -> None:
    first = ask_agent(own=OWN)
    parent = autoscaler(status=status_of(first))
    same = ask_agent(own=OWN, parent=parent, now=NOW + timedelta(hours=1))
    flipped = ask_agent(
        own=OWN, parent=parent | {"spec": parent["spec"] | {"paused": True}}, now=NOW + timedelta(hours=1)
    )

    assert status_of(same) == status_of(first)
    times = {item["type"]: item["lastTransitionTime"] for item in status_of(flipped)["conditions"]}
    assert times == {"Ready": "2026-11-16T04:00:00Z", "TemplateValid": "2026-11-16T03:00:00Z"}


@pytest.mark.parametrize(
    ("parts", "ready", "valid"),
    [
        pytest.param({"parent": autoscaler(paused=True, **TEXT)}, "Paused", "TemplateMissing", id="paused first"),
        pytest.param(
            {"parent": autoscaler(paused=True, defaultGroup=1)}, "InvalidSpec", "Valid", id="a wrong spec first"
        ),
        pytest.param({"parent": autoscaler(**TEXT), "nodes": []}, "NoNodes", "TemplateMissing", id="no nodes"),
        pytest.param({"parent": autoscaler(**TEXT)}, "TemplateMissing", "TemplateMissing", id="no template"),
        pytest.param({"nodes": [shape(memory=""), shape(name="b", pool=None)]}, "GroupsFailing", "Valid", id="failing"),
    ],
)
def test_ready_names_the_first_that_is_wrong(parts: dict[str, Any], ready: str, valid: str) -> None:
    outcome = ask_agent(**parts)

    assert (condition_of(outcome)[1], condition_of(outcome, "TemplateValid")[1]) == (ready, valid)


# Events and metrics


def test_created_is_told_when_it_is_there_and_once() -> None:
    first = ask_agent()
    own = applied(first)
    second = ask_agent(own=own, parent=autoscaler(status=status_of(first)), now=NOW + timedelta(seconds=2))
    third = ask_agent(own=own, parent=autoscaler(status=status_of(second)), now=NOW + timedelta(seconds=4))

    assert news_of(first) == []
    assert news_of(second) == [("Normal", "Created", f'agent-large for "large": {SIZE}')]
    assert news_of(third) == []


def test_created_is_no_news_after_an_hour() -> None:
    """The Event has expired: a status that came back late would tell it again."""
    status = told(reason="Created")

    assert news_of(ask_agent(own=OWN, parent=autoscaler(status=status), now=NOW + timedelta(minutes=59)))
    assert not news_of(ask_agent(own=OWN, parent=autoscaler(status=status), now=NOW + timedelta(minutes=60)))


def test_resized_is_told_and_counted_when_it_is_done_and_once() -> None:
    nodes = [shape(memory="8Gi")]
    first = ask_agent(own=OWN, nodes=nodes)
    own = applied(first, OWN)
    second = ask_agent(own=own, nodes=nodes, parent=autoscaler(status=status_of(first)))
    third = ask_agent(own=own, nodes=nodes, parent=autoscaler(status=status_of(second)))

    assert [news_of(outcome) for outcome in (first, third)] == [[], []]
    assert news_of(second) == [("Normal", "Resized", f'agent-large for "large": {HALF}')]
    assert [counted(outcome) for outcome in (first, second, third)] == [{}, {"resizes_total": 1}, {}]


def test_deleted_is_told_once_even_if_the_daemonset_takes_its_time() -> None:
    first = emptied(TWO, emptyGroupGracePeriod="0s")
    deleting = TWO[0] | {"metadata": TWO[0]["metadata"] | {"deletionTimestamp": format_time(NOW)}}
    second = emptied([deleting, TWO[1]], emptyGroupGracePeriod="0s")

    said = 'agent-large for "large": no node of the group has been there for the grace period'
    assert ("Normal", "Deleted", said) in news_of(first)
    assert "Deleted" not in {reason for _, reason, _ in news_of(second)}


def test_a_failure_is_told_when_it_begins_and_again_when_it_is_another_one() -> None:
    taken = ask_agent(others=[daemonset()])
    still = ask_agent(others=[daemonset()], parent=autoscaler(status=status_of(taken)))
    other = ask_agent(nodes=[shape(memory="")], parent=autoscaler(status=status_of(still)))

    said = "DaemonSet agent-large is not ours: delete it, or hand it over with the label controller-uid=uid-agent"
    assert news_of(taken) == [("Warning", "Failed", f'"large": NameTaken: {said}')]
    assert news_of(still) == []
    assert news_of(other) == [
        ("Warning", "Failed", '"large": NoAllocatable: no node of the group says what it can allocate')
    ]


def test_news_are_told_even_if_the_status_is_older_than_the_daemonset() -> None:
    """The sync that asked for it may not have written its status yet when the next one sees the DaemonSet."""
    created = ask_agent(own=OWN)
    before = status_of(ask_agent(own=OWN, nodes=[shape(memory="32Gi")], parent=autoscaler()))
    larger = {"requests": {"cpu": "100m", "memory": "655Mi"}}
    older = before | {"nodeGroups": [before["nodeGroups"][0] | larger | {"reason": "Running"}]}
    resized = ask_agent(own=OWN, parent=autoscaler(status=older))

    assert [reason for _, reason, _ in news_of(created)] == ["Created"]
    assert [reason for _, reason, _ in news_of(resized)] == ["Resized"]


@pytest.mark.parametrize("spec", [{"paused": 5}, {"template": {"spec": {}}}, TEXT])
def test_what_stops_all_groups_is_told_once(spec: dict[str, Any]) -> None:
    """One Event for the whole, not one for each of many groups as well."""
    first = ask_agent(own=TWO, nodes=PAIR, parent=autoscaler(**spec))
    second = ask_agent(own=TWO, nodes=PAIR, parent=autoscaler(status=status_of(first), **spec))

    (news,) = news_of(first)
    assert news[:2] == ("Warning", "Failed")
    assert news_of(second) == []


def test_earlier_events_stay_and_there_are_none_unless_the_manifest_lists_them() -> None:
    told_before = children_of(ask_agent(others=[daemonset()]), "Event")
    settled = autoscaler(status=status_of(ask_agent(own=OWN)))
    kept = ask_agent(own=OWN, events=[*told_before.values()], parent=settled)
    unlisted = ask_agent(others=[daemonset()], controller={"spec": {"childResources": []}})

    assert children_of(kept, "Event") == told_before
    assert news_of(unlisted) == []


def test_gauges_count_groups_by_reason_and_nodes_by_group() -> None:
    nodes = [*PAIR, shape(name="c", pool="small"), shape(name="d", pool=None)]
    outcome = ask_agent(own=OWN, nodes=nodes, parent=autoscaler(defaultGroup="Enabled"))
    owner = {"namespace": NAMESPACE, "nodeagentautoscaler": "agent"}

    assert outcome.gauges is not None
    assert [(item.metric, item.labels, item.value) for item in outcome.gauges.values] == [
        ("node_agent_autoscaler_groups", {**owner, "reason": "Created"}, 2),
        ("node_agent_autoscaler_groups", {**owner, "reason": "Running"}, 1),
        ("node_agent_autoscaler_nodes", {**owner, "group": "(no label)"}, 1),
        ("node_agent_autoscaler_nodes", {**owner, "group": "large"}, 1),
        ("node_agent_autoscaler_nodes", {**owner, "group": "small"}, 2),
    ]


def test_decisions_say_what_changes() -> None:
    outcome = ask_agent(own=OWN, nodes=PAIR)

    assert [(made.reason, made.message, str(made.object), made.changes) for made in outcome.decisions] == [
        ("Managing", "nodes: 2, groups: 2", "NodeAgentAutoscaler/monitoring/agent", False),
        ("Running", f'"large": {SIZE}', "DaemonSet/monitoring/agent-large", False),
        ("Created", f'"small": {SIZE}', "DaemonSet/monitoring/agent-small", True),
    ]
