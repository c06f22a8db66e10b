"""Whose DaemonSet is whose: another label, other owners, those that were handed over, and what people wrote on them."""

from datetime import timedelta
from typing import Any

import pytest

from hooks import wire
from hooks.agents.daemonsets import GROUPED_BY, NODE_GROUP
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of
from hooks.kube.times import format_time
from tests.agents import (
    NAMESPACE,
    NOW,
    POOL,
    SIZE,
    AgentCluster,
    adopted,
    ago,
    applied,
    ask_agent,
    autoscaler,
    body_of,
    child_of,
    children_of,
    condition_of,
    daemonset,
    emptied,
    news_of,
    running,
    said_of,
    shape,
    status_of,
    template,
    terms_of,
    told,
    with_annotation,
    with_label,
)

OWN = running()
PAIR = [shape(), shape(name="b", pool="small")]


# Another label


def test_daemonsets_by_another_label_stay_until_one_by_the_new_label_is_there() -> None:
    nodes = [shape(labels={"zone": "z1"})]
    parent = autoscaler(nodeGroupLabel="zone")
    first = ask_agent(own=OWN, parent=parent, nodes=nodes)

    assert set(children_of(first)) == {"agent-large", "agent-z1"}
    assert child_of(first) == child_of(ask_agent())
    assert condition_of(first)[:2] == ("False", "GroupsFailing")
    own = applied(first, OWN)
    second = ask_agent(own=own, parent=parent, nodes=nodes)
    assert [*children_of(second)] == ["agent-z1"]
    assert ("Normal", "Deleted", f'agent-large for "large": nodes are no longer grouped by {POOL}') in news_of(second)


def test_another_label_with_the_same_values_takes_over_in_place() -> None:
    """As from beta.kubernetes.io/instance-type: the names are the same, so there is one DaemonSet of each."""
    cluster = AgentCluster(autoscaler(nodeGroupLabel="old"), shape(labels={"old": "large"}))
    cluster.settle()
    cluster.cluster.put(autoscaler(generation=2, status=cluster.parent()["status"]))
    cluster.settle()

    (child,) = cluster.daemonsets().values()
    assert annotations_of(child)[GROUPED_BY] == POOL
    assert cluster.parent()["status"]["conditions"][0]["reason"] == "Managing"


def test_no_answer_holds_two_daemonsets_of_one_name() -> None:
    own = running(nodes=[shape(labels={"old": "large"})], parent=autoscaler(nodeGroupLabel="old"))
    outcome = ask_agent(own=own, nodes=[shape(labels={"old": "large"})])

    assert len([child for child in body_of(outcome)["children"] if child["kind"] == "DaemonSet"]) == 1


def test_one_by_another_label_is_not_taken_over_while_a_node_of_its_own_would_be_left_without_an_agent() -> None:
    """The successor for that node cannot be made."""
    nodes = [shape(name="a", labels={"old": "large"}), shape(name="b", pool="small", labels={"old": "large"})]
    own = running(nodes=nodes, parent=autoscaler(nodeGroupLabel="old"))
    outcome = ask_agent(own=own, nodes=nodes, others=[daemonset(name="agent-small")])

    (term,) = terms_of(child_of(outcome))
    assert term["matchExpressions"] == [{"key": "old", "operator": "In", "values": ["large"]}]


def test_one_that_was_handed_over_under_the_name_of_a_group_is_in_the_answer_once() -> None:
    outcome = ask_agent(own=[adopted(group=None)])

    assert len([child for child in body_of(outcome)["children"] if child["kind"] == "DaemonSet"]) == 1


def test_daemonsets_by_another_label_stay_while_paused() -> None:
    nodes = [shape(labels={"zone": "z1"})]
    own = [*OWN, *running(nodes=nodes, parent=autoscaler(nodeGroupLabel="zone"))]
    outcome = ask_agent(own=own, parent=autoscaler(nodeGroupLabel="zone", paused=True), nodes=nodes)

    assert set(children_of(outcome)) == {"agent-large", "agent-z1"}


# DaemonSets of others


def test_others_go_on_if_a_name_is_taken() -> None:
    """Case 76."""
    outcome = ask_agent(nodes=PAIR, others=[daemonset()])

    assert [*children_of(outcome)] == ["agent-small"]
    assert said_of(outcome, "small") == ("Created", SIZE)
    assert condition_of(outcome) == (
        "False",
        "GroupsFailing",
        '"large": NameTaken: DaemonSet agent-large is not ours: delete it, '
        "or hand it over with the label controller-uid=uid-agent",
    )


def test_one_that_was_handed_over_is_left_alone_while_paused() -> None:
    """What it is made of is written down, and nothing changes on it."""
    outcome = ask_agent(own=[adopted()], parent=autoscaler(paused=True))
    (after,) = applied(outcome, [adopted()])

    assert child_of(outcome) == {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent-large", "namespace": NAMESPACE, "labels": {"controller-uid": "uid-agent"}},
        "spec": adopted()["spec"],
    }
    assert (after["spec"], labels_of(after)) == (adopted()["spec"], labels_of(adopted()))
    assert child_of(ask_agent(own=[after], parent=autoscaler(paused=True))) == child_of(outcome)


@pytest.mark.parametrize("is_paused_before", [False, True])
def test_one_that_was_handed_over_keeps_its_name_and_selector(is_paused_before: bool) -> None:
    """Case 79: a selector cannot be changed, so its pods keep the labels that it asks for; the rest is as elsewhere."""
    selector = {
        "matchLabels": {"app": "other"},
        "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
    }
    pod_labels = {"app": "other", "tier": "b", "version": "1"}
    old = adopted(name="legacy", container="theirs", selector=selector, pod_labels=pod_labels)
    first = ask_agent(own=[old], parent=autoscaler(paused=is_paused_before))
    own = applied(first, [old])
    second = ask_agent(own=own)
    (after,) = applied(second, own)

    assert [*children_of(first)] == [*children_of(second)] == ["legacy"]
    assert said_of(first)[0] == ("Paused" if is_paused_before else "Adopted")
    assert said_of(second) == ("Updated", SIZE)
    assert after["spec"]["selector"] == selector
    assert after["spec"]["template"]["metadata"]["labels"] == {"app": "other", "tier": "b", NODE_GROUP: "large"}
    assert [item["name"] for item in after["spec"]["template"]["spec"]["containers"]] == ["agent"]
    assert said_of(ask_agent(own=[after])) == ("Running", SIZE)


def test_one_that_was_handed_over_and_is_not_written_is_a_failure() -> None:
    status = told(reason="Adopted", requestedAt=ago(60))

    assert said_of(ask_agent(own=[adopted()], parent=autoscaler(status=status)))[0] == "Failed"


def test_one_that_was_handed_over_for_a_group_without_nodes_stays() -> None:
    """Its own affinity may be by another label than ours: its nodes may well be there."""
    first = emptied([adopted()])
    own = applied(first, [adopted()])
    later = emptied(own, now=NOW + timedelta(days=1))

    assert child_of(first)["spec"] == adopted()["spec"]
    assert "agent-large" in children_of(later)
    assert said_of(later) == ("UnknownGroup", f'it was handed over, and no node has {POOL} "large"')


def test_a_chain_of_daemonsets_for_another_label_is_held_back_as_a_whole() -> None:
    """agent-y waits for a node that no group by the new label has; agent-x may not go ahead: a node of it goes to y."""
    nodes = [
        labelled("n1", old="x", new="y"),
        labelled("n2", old="y"),
        labelled("n3", old="z", new="x"),
    ]
    own = running(nodes=nodes, parent=autoscaler(nodeGroupLabel="old"))
    outcome = ask_agent(own=own, nodes=nodes, parent=autoscaler(nodeGroupLabel="new"))

    assert {name: chosen_by(child) for name, child in children_of(outcome).items()} == {
        "agent-x": "old",
        "agent-y": "old",
        "agent-z": "old",
    }


def test_one_that_has_the_name_of_the_original_moves_to_another_label_with_its_group() -> None:
    before, after = "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"
    node = labelled("n1", **{before: "m5.large", after: "m5.large"})
    handed = adopted(name="agent-m5-large", group="m5.large")
    own = [handed]
    for _ in range(2):
        own = applied(ask_agent(own=own, nodes=[node], parent=autoscaler(nodeGroupLabel=before)), own)
    outcome = ask_agent(own=own, nodes=[node], parent=autoscaler(nodeGroupLabel=after))

    assert {name: chosen_by(child) for name, child in children_of(outcome).items()} == {"agent-m5-large": after}


def test_one_that_somebody_deletes_is_made_anew_when_it_is_gone_and_serves_nobody_meanwhile() -> None:
    dying = OWN[0] | {"metadata": OWN[0]["metadata"] | {"deletionTimestamp": format_time(NOW)}}
    alone, beside = ask_agent(own=[dying]), ask_agent(own=[dying, adopted(name="a-second")])

    assert said_of(alone) == ("Deleting", "somebody deletes it; it is made anew when it is gone")
    assert set(children_of(beside)) == {"agent-large", "a-second"}


def labelled(name: str, **labels: str) -> JsonObject:
    found = shape(name=name)
    return found | {"spec": found["spec"] | {"labels": labels}}


def chosen_by(daemonset: JsonObject) -> str:
    """The label that its affinity asks for."""
    affinity = daemonset["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["key"])


def test_one_that_nobody_can_tell_the_group_of_stays() -> None:
    odd = adopted(name="legacy", group=None)
    outcome = ask_agent(own=[odd, *OWN])

    assert children_of(outcome)["legacy"]["spec"] == odd["spec"]
    assert said_of(outcome) == ("Running", SIZE)
    assert condition_of(outcome)[1] == "GroupsFailing"


def test_one_that_the_original_made_for_the_group_is_in_the_way() -> None:
    """It has another name than ours would have, and its agents are on the same nodes."""
    other = daemonset(name="agent-m5-large", labels={NODE_GROUP: "m5.large"})
    unrelated = daemonset(name="agent-m5-large", labels={NODE_GROUP: "m5-large"})
    nodes = [shape(pool="m5.large")]

    assert said_of(ask_agent(nodes=nodes, others=[other]), "m5.large") == (
        "NameTaken",
        "DaemonSet agent-m5-large is not ours: delete it, or hand it over with the label controller-uid=uid-agent",
    )
    assert said_of(ask_agent(nodes=nodes, others=[unrelated]), "m5.large") == ("Created", SIZE)


def test_of_two_for_one_group_the_one_with_its_name_stays() -> None:
    outcome = ask_agent(own=[*OWN, adopted(name="a-second")])

    assert [*children_of(outcome)] == ["agent-large"]
    assert ("Normal", "Deleted", 'a-second for "large": agent-large is for the same group') in news_of(outcome)


def test_both_for_one_group_stay_while_paused() -> None:
    outcome = ask_agent(own=[*OWN, adopted(name="a-second")], parent=autoscaler(paused=True))

    assert set(children_of(outcome)) == {"agent-large", "a-second"}


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"parent": autoscaler(template=template(image="agent:2"))}, id="it changes"),
        pytest.param({"nodes": [shape(memory="")]}, id="it fails"),
    ],
)
def test_both_for_one_group_stay_until_one_is_as_it_should_be(parts: dict[str, Any]) -> None:
    outcome = ask_agent(own=[*OWN, adopted(name="a-second")], **parts)

    assert set(children_of(outcome)) == {"agent-large", "a-second"}
    second = next(entry for entry in status_of(outcome)["nodeGroups"] if entry["daemonSet"] == "a-second")
    assert (second["reason"], second["message"]) == (
        "Superseded",
        "it stays until the other one for its group is there",
    )


def test_what_others_wrote_on_a_daemonset_stays() -> None:
    edited = with_annotation(with_label(OWN[0], "theirs", "x"), "theirs", "y")
    outcome = ask_agent(own=[edited])

    assert said_of(outcome) == ("Running", SIZE)
    (after,) = applied(outcome, [edited])
    assert (labels_of(after)["theirs"], annotations_of(after)["theirs"]) == ("x", "y")


@pytest.mark.parametrize("text", ["{", "[]", "null", '{"metadata":{"name":"other"}}', '{"kind":"Pod"}', "[" * 5000])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_daemonset_whose_last_answer_is_unreadable_is_as_one_that_was_handed_over(text: str, is_paused: bool) -> None:
    odd = with_annotation(OWN[0], wire.LAST_APPLIED, text)
    outcome = ask_agent(own=[odd], parent=autoscaler(paused=is_paused))

    assert said_of(outcome)[0] == ("Paused" if is_paused else "Adopted")
    assert child_of(outcome)["spec"] == odd["spec"]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param({"spec": {"replicas": 1.5}}, id="a float"),
        pytest.param({"kind": "ConfigMap", "apiVersion": "v1"}, id="another kind"),
        pytest.param({"apiVersion": "extensions/v1beta1"}, id="another version"),
        pytest.param({"kind": None}, id="no kind"),
        pytest.param({"metadata": {"name": "agent-large", "namespace": "elsewhere"}}, id="another namespace"),
        pytest.param({"metadata": "x"}, id="no metadata"),
    ],
)
def test_a_last_answer_that_somebody_edited_drops_nothing(odd: JsonObject) -> None:
    """To return it as it is would delete the DaemonSet, or end in an error."""
    text = compact_json(child_of(ask_agent()) | odd)
    tampered = with_annotation(OWN[0], wire.LAST_APPLIED, text)
    child = child_of(ask_agent(own=[tampered], parent=autoscaler(paused=True)))

    assert (child["apiVersion"], child["kind"]) == ("apps/v1", "DaemonSet")
    assert (name_of(child), child["metadata"]["namespace"]) == ("agent-large", NAMESPACE)


def test_a_field_that_the_api_server_stores_otherwise_is_named() -> None:
    """Metacontroller writes it at every sync: people can only know from here."""
    parent = autoscaler(template=template(odd={"a": ["x"]}))
    (child,) = running(parent=parent)
    child["spec"]["template"]["spec"]["odd"] = {"a": ["y"]}
    child["spec"]["template"]["spec"]["filledIn"] = "by the API server"

    assert said_of(ask_agent(own=[child], parent=parent)) == (
        "Running",
        f"{SIZE}; spec.template.spec.odd.a is stored otherwise than the template says, so it is written again",
    )
