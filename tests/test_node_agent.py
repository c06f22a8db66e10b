"""A NodeAgentAutoscaler's sync: which DaemonSets it makes, how they are sized, and when they change or go."""

from datetime import timedelta
from typing import Any

import pytest

from hooks import node_agent, wire
from hooks.agents import daemonsets, report
from hooks.agents.daemonsets import EMPTY_SINCE, GROUPED_BY, NODE_GROUP, SELECTED_BY, SIZED_FOR
from hooks.agents.groups import name_for
from hooks.agents.report import Reason
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of
from hooks.kube.times import format_time
from tests.agents import (
    HALF,
    NAMESPACE,
    NOW,
    POOL,
    SIZE,
    TEXT,
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
    config_map,
    container_of,
    daemonset,
    emptied,
    entry_of,
    env_of,
    news_of,
    running,
    said_of,
    shape,
    status_of,
    template,
    terms_of,
    told,
    unfinished,
    with_annotation,
)

OWN = running()
PAIR = [shape(), shape(name="b", pool="small")]
TWO = running(nodes=PAIR)


# What it makes


def test_a_group_gets_a_daemonset_with_all_that_is_needed() -> None:
    assert child_of(ask_agent()) == {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": "agent-large",
            "namespace": NAMESPACE,
            "labels": {
                "kubescape.io/managed-by": "operator-autoscaler",
                "kubescape.io/node-group": "large",
                "controller-uid": "uid-agent",
            },
            "annotations": {
                "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
                "argocd.argoproj.io/sync-options": "Prune=false",
                GROUPED_BY: POOL,
                SIZED_FOR: '{"cpu":"4","memory":"16Gi"}',
            },
        },
        "spec": {
            "selector": {"matchLabels": {SELECTED_BY: "agent-large"}},
            "template": {
                "metadata": {"labels": {"app": "agent", NODE_GROUP: "large", SELECTED_BY: "agent-large"}},
                "spec": {
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "affinity": {
                        "nodeAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {"matchExpressions": [{"key": POOL, "operator": "In", "values": ["large"]}]}
                                ]
                            }
                        }
                    },
                    "containers": [
                        {
                            "name": "agent",
                            "image": "example.com/agent:1",
                            "env": [{"name": "GOMEMLIMIT", "value": "655MiB"}],
                            "resources": {
                                "requests": {"cpu": "100m", "memory": "327Mi"},
                                "limits": {"cpu": "200m", "memory": "819Mi"},
                            },
                        }
                    ],
                },
            },
        },
    }


def test_a_text_with_placeholders_gives_the_same_sizes() -> None:
    """Its metadata and selector are ours; its labels stay."""
    child = child_of(ask_agent(parent=autoscaler(**TEXT), config_maps=[config_map()]))

    assert name_of(child) == "agent-large"
    assert labels_of(child)["app"] == "agent"
    assert child["spec"]["selector"] == {"matchLabels": {SELECTED_BY: "agent-large"}}
    assert child["spec"]["template"]["metadata"]["labels"]["group"] == "large"
    assert container_of(child)["resources"] == container_of(child_of(ask_agent()))["resources"]
    assert env_of(child) == {"GOMEMLIMIT": "655MiB"}


def test_names_stay_as_they_are_whatever_other_groups_there_are() -> None:
    """Cases 49 and 50: also of nodes without the label beside the values default and the empty one."""
    values = ["m5.large", "m5_large", "M5.large", "", "default", None]
    nodes = [shape(name=f"n{number}", pool=value) for number, value in enumerate(values)]
    parent = autoscaler(defaultGroup="Enabled")
    alone = [set(children_of(ask_agent(parent=parent, nodes=[node]))) for node in nodes]

    assert set(children_of(ask_agent(parent=parent, nodes=nodes))) == set[str]().union(*alone)
    assert sum(map(len, alone)) == len(values)


def test_long_values_and_values_that_look_like_names_get_daemonsets_of_their_own() -> None:
    """Cases 52 and 53."""
    values = ["x" * 50 + "-aaaaaaaaa", "x" * 50 + "-bbbbbbbbb", "m5.large", "m5-large-baa340"]
    outcome = ask_agent(nodes=[shape(name=f"n{number}", pool=value) for number, value in enumerate(values)])

    assert len(children_of(outcome)) == len(values)
    assert [labels_of(child_of(outcome, value))[NODE_GROUP] for value in values] == values


@pytest.mark.parametrize(
    ("cpu", "memory", "said"),
    [
        pytest.param("3920m", "16Gi", "100m CPU and 327Mi, at most 196m and 819Mi", id="case 55"),
        pytest.param("940m", "3976784Ki", "100m CPU and 180Mi, at most 100m and 194Mi", id="case 56"),
        pytest.param("128", "256Gi", "2 CPU and 4Gi, at most 2 and 4Gi", id="case 58"),
        pytest.param("4", "16393441280", "100m CPU and 312Mi, at most 200m and 781Mi", id="case 59"),
    ],
)
def test_sizes_are_of_what_the_node_can_allocate(cpu: str, memory: str, said: str) -> None:
    assert said_of(ask_agent(nodes=[shape(cpu=cpu, memory=memory)])) == ("Created", said)


@pytest.mark.parametrize("odd", [{"memory": ""}, {"cpu": "0"}, {"memory": "much"}, {"cpu": "-1"}])
def test_a_node_that_says_nothing_readable_does_not_count_for_the_size(odd: dict[str, Any]) -> None:
    """Case 61: the group has its DaemonSet all the same."""
    outcome = ask_agent(nodes=[shape(), shape(name="b", **odd)])

    assert said_of(outcome) == ("Created", SIZE)
    assert entry_of(outcome)["nodes"] == 2


@pytest.mark.parametrize(
    "odd", [{"memory": "1e30"}, {"memory": "9223372036854775808"}, {"cpu": "1e21"}, {"cpu": "1e30", "memory": "1e30"}]
)
def test_a_node_beyond_all_measure_breaks_nothing(odd: dict[str, Any]) -> None:
    """Case 61: whatever comes of its own group, the others have theirs."""
    outcome = ask_agent(nodes=[shape(), shape(name="b", pool="odd", **odd)])

    assert said_of(outcome) == ("Created", SIZE)


def test_the_smallest_node_of_a_group_counts_whatever_the_order() -> None:
    """Case 65."""
    nodes = [shape(name="b", memory="16116152Ki"), shape(name="a", memory="15944120Ki")]
    said = ("Created", "100m CPU and 311Mi, at most 200m and 778Mi")

    assert said_of(ask_agent(nodes=nodes)) == said_of(ask_agent(nodes=nodes[::-1])) == said


@pytest.mark.parametrize("value", [0, -1, 101, 100.5, "2", True, None])
def test_percentages_are_above_zero_and_at_most_a_hundred(value: Any) -> None:
    """Case 62; null is none at all."""
    outcome = ask_agent(parent=autoscaler(resourcePercentages={"requestMemory": value, "limitMemory": 100}))
    said = "resourcePercentages.requestMemory: must be a number above 0 and at most 100"

    assert said_of(outcome) == (("InvalidSpec", said) if value is not None else ("Created", said_of(outcome)[1]))


def test_fractions_of_a_percent_are_fine() -> None:
    """Case 62."""
    outcome = ask_agent(parent=autoscaler(resourcePercentages={"requestMemory": 2.5, "limitMemory": 7.25}))

    assert said_of(outcome) == ("Created", "100m CPU and 409Mi, at most 200m and 1187Mi")


def test_a_limit_is_raised_to_its_request() -> None:
    """Case 64: both are within the bounds, and a limit is never below."""
    percentages = {"requestMemory": 50, "limitMemory": 50, "requestCPU": 50, "limitCPU": 50}
    outcome = ask_agent(parent=autoscaler(resourcePercentages=percentages, minResources={"memory": "4Gi", "cpu": 2}))

    assert said_of(outcome) == ("Created", "2 CPU and 4Gi, at most 2 and 4Gi")


def test_windows_nodes_do_not_count() -> None:
    """Case 71: neither for a size nor as a group."""
    windows = [shape(name="w", os="windows", memory="1Gi"), shape(name="x", pool="windows", os="windows")]
    outcome = ask_agent(nodes=[shape(), *windows])

    assert [*children_of(outcome)] == ["agent-large"]
    assert said_of(outcome) == ("Created", SIZE)
    assert status_of(outcome)["nodes"] == 1


def test_a_node_that_does_not_say_its_system_counts() -> None:
    assert said_of(ask_agent(nodes=[shape(os="")])) == ("Created", SIZE)


def test_nodes_can_be_left_out_by_the_selector() -> None:
    """Case 73: virtual nodes. The DaemonSet leaves them out too."""
    selector = {"matchExpressions": [{"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]}]}
    virtual = shape(name="v", memory="1Gi", labels={"type": "virtual-kubelet"})
    outcome = ask_agent(nodes=[shape(), virtual], parent=autoscaler(nodeSelector=selector))

    assert (entry_of(outcome)["nodes"], said_of(outcome)) == (1, ("Created", SIZE))
    assert terms_of(child_of(outcome)) == [
        {
            "matchExpressions": [
                {"key": POOL, "operator": "In", "values": ["large"]},
                {"key": "type", "operator": "NotIn", "values": ["virtual-kubelet"]},
            ]
        }
    ]


def test_every_kind_of_requirement_goes_into_the_daemonset() -> None:
    expressions = [
        {"key": "a", "operator": "In", "values": ["y", "x"]},
        {"key": "b", "operator": "Exists"},
        {"key": "c", "operator": "DoesNotExist"},
    ]
    parent = autoscaler(nodeSelector={"matchLabels": {"d": "z"}, "matchExpressions": expressions})
    (term,) = terms_of(child_of(ask_agent(parent=parent, nodes=[shape(labels={"a": "x", "b": "", "d": "z"})])))

    assert term["matchExpressions"][1:] == [
        {"key": "d", "operator": "In", "values": ["z"]},
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        *expressions[1:],
    ]


# Nodes without the label


def test_nodes_without_the_label_are_a_group_if_people_want_that() -> None:
    """Case 70: no term of the DaemonSet takes a node that has the label, and only Linux nodes are for it."""
    given = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, {"matchFields": [{"key": "metadata.name"}]}]
    affinity = {"nodeAffinity": {daemonsets.REQUIRED_AFFINITY: {"nodeSelectorTerms": given}}}
    parent = autoscaler(defaultGroup="Enabled", template=template(affinity=affinity))
    outcome = ask_agent(parent=parent, nodes=[shape(pool=None)])
    child = child_of(outcome, None)
    absent = {"key": POOL, "operator": "DoesNotExist"}

    assert name_of(child) == "agent-default-6e340b"
    assert NODE_GROUP not in labels_of(child)
    assert terms_of(child) == [
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}, absent]},
        {"matchFields": [{"key": "metadata.name"}], "matchExpressions": [absent]},
    ]
    assert child["spec"]["template"]["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert said_of(outcome, None) == ("Created", SIZE)
    assert entry_of(outcome, None)["isDefault"] is True


def test_nodes_without_the_label_are_named_if_they_get_no_agent() -> None:
    """Case 70: counted and reported; no DaemonSet."""
    nodes = [shape(), *(shape(name=f"n{number}", pool=None) for number in range(7))]
    outcome = ask_agent(nodes=nodes)

    assert [*children_of(outcome)] == ["agent-large"]
    assert status_of(outcome)["nodes"] == 8
    assert condition_of(outcome) == (
        "False",
        "NodesWithoutGroup",
        f"without the label {POOL}, and so without an agent: n0, n1, n2, n3, n4, and 2 more"
        "; set defaultGroup to Enabled, or leave them out by nodeSelector",
    )


def test_the_default_group_goes_at_once_when_it_is_disabled() -> None:
    enabled = autoscaler(defaultGroup="Enabled")
    nodes = [shape(), shape(name="b", pool=None)]
    own = running(parent=enabled, nodes=nodes)
    outcome = ask_agent(own=own, nodes=nodes)

    assert [*children_of(outcome)] == ["agent-large"]
    assert (
        "Normal",
        "Deleted",
        f"{name_for('agent', None)} for nodes without the label: defaultGroup is Disabled",
    ) in (news_of(outcome))


# Every reason, in full

ROWS = [
    pytest.param({}, ("Created", SIZE), id="a new group"),
    pytest.param({"own": OWN}, ("Running", SIZE), id="as it should be"),
    pytest.param(
        {"own": OWN, "parent": autoscaler(template=template(image="agent:2"))},
        ("Updated", SIZE),
        id="another template",
    ),
    pytest.param(
        {"own": OWN, "nodes": [shape(memory="8Gi")]},
        ("Resized", f"{HALF}, for the smallest node as it is now"),
        id="the smallest node is another one",
    ),
    pytest.param(
        {"own": [unfinished(OWN[0])], "nodes": [shape(memory="8Gi")]},
        ("ResizeDeferred", f"{HALF} waits: 1 of 3 agents are up to date"),
        id="case 80: the rollout before it is not finished",
    ),
    pytest.param(
        {"own": TWO, "nodes": [shape(name="b", pool="small")]},
        ("Empty", "no node is left; the DaemonSet goes after 2026-11-16T04:00:00Z"),
        id="case 68: the last node is gone",
    ),
    pytest.param(
        {"parent": autoscaler(status=told(reason="Created", requestedAt=ago(60)))},
        (
            "Failed",
            "the DaemonSet was asked for and is not there, for a minute or longer: "
            "the events of this NodeAgentAutoscaler say why",
        ),
        id="it was never created",
    ),
    pytest.param(
        {
            "own": OWN,
            "parent": autoscaler(
                status=told(reason="Updated", requestedAt=ago(60)), template=template(image="agent:2")
            ),
        },
        (
            "Failed",
            "the DaemonSet is not as it was asked for, for a minute or longer: "
            "the events of this NodeAgentAutoscaler say why",
        ),
        id="it was never updated",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(groups=[{"value": "large", "goMemLimitPercent": 0}])},
        ("InvalidSpec", "groups.0.goMemLimitPercent: must be a number above 0 and at most 100"),
        id="an override that cannot be used",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(emptyGroupGracePeriod="1d")},
        ("InvalidSpec", 'emptyGroupGracePeriod: "1d" is not a duration such as 90s, 5m or 1h30m'),
        id="a spec that cannot be used",
    ),
    pytest.param(
        {"others": [daemonset()]},
        (
            "NameTaken",
            "DaemonSet agent-large is not ours: delete it, or hand it over with the label controller-uid=uid-agent",
        ),
        id="case 76: somebody's DaemonSet has the name",
    ),
    pytest.param(
        {"others": [daemonset(owner={"kind": "Agent", "name": "main", "uid": "x"})]},
        (
            "NameTaken",
            "DaemonSet agent-large belongs to Agent main: stop that and delete it with --cascade=orphan, "
            "then hand it over with the label controller-uid=uid-agent",
        ),
        id="case 76: another controller's DaemonSet has the name",
    ),
    pytest.param(
        {"others": [daemonset(owner={"kind": "NodeAgentAutoscaler", "name": "other", "uid": "x"})]},
        (
            "NameTaken",
            "DaemonSet agent-large belongs to NodeAgentAutoscaler other: give one of them another name",
        ),
        id="case 76: a DaemonSet of another NodeAgentAutoscaler has the name",
    ),
    pytest.param(
        {"own": [adopted()]},
        ("Adopted", "handed over: it is brought up to date next"),
        id="handed over",
    ),
    pytest.param(
        {"nodes": [shape(memory="")]},
        ("NoAllocatable", "no node of the group says what it can allocate"),
        id="case 61: no node says anything",
    ),
    pytest.param(
        {"own": OWN, "nodes": [shape(cpu="0"), shape(name="b", memory="?")]},
        ("NoAllocatable", "no node of the group says what it can allocate"),
        id="case 61: no node says anything any more",
    ),
    pytest.param(
        {"own": OWN, "nodes": []},
        ("NoNodes", "there are no NodeShapes: is the controller node-shape running?"),
        id="no node is known",
    ),
    pytest.param(
        {"own": OWN, "nodes": [shape(os="windows")]},
        ("NoNodes", "nodeSelector chooses no Linux node"),
        id="case 71: only Windows nodes",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(paused=True)},
        ("Paused", "paused: what runs is kept as it is"),
        id="paused",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(nodeGroupLabel="other")},
        ("Superseded", f"it is for {POOL}, and stays until one for the label that is used now serves a"),
        id="another label, and nothing by it yet",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(template={"spec": {"template": {}}})},
        ("TemplateInvalid", "template: spec.template: is missing or empty"),
        id="case 77: a broken template",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(container="other")},
        ("TemplateInvalid", "template: there is no container other, only agent"),
        id="no such container",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(**TEXT), "config_maps": [config_map("kind: Pod")]},
        ("TemplateInvalid", "ConfigMap template, daemonset-template.yaml: is not a DaemonSet of apps/v1"),
        id="case 77: a broken text",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(**TEXT)},
        ("TemplateMissing", "there is no ConfigMap template"),
        id="no ConfigMap",
    ),
    pytest.param(
        {"own": OWN, "parent": autoscaler(**TEXT), "config_maps": [config_map(key="other")]},
        ("TemplateMissing", "ConfigMap template has no key daemonset-template.yaml"),
        id="no key of that name",
    ),
    pytest.param(
        {"nodes": [shape(), *(shape(name=f"n{number}", pool=f"p{number}") for number in range(200))]},
        ("TooManyGroups", f"{POOL} has 201 values, and there are at most 200 groups"),
        id="more groups than there may be",
    ),
    pytest.param(
        {"own": [*OWN, adopted(name="handed-over", group=None)]},
        ("UnknownGroup", f"it has no label {NODE_GROUP}"),
        id="handed over without its group",
    ),
]


@pytest.mark.parametrize(("parts", "said"), ROWS)
def test_says_of_each_group_what_happens_and_why(parts: dict[str, Any], said: tuple[str, str]) -> None:
    outcome = ask_agent(**parts)
    group = None if said[0] == "UnknownGroup" else "large"

    assert said_of(outcome, group) == said
    assert {name_of(child) for child in parts.get("own", [])} <= children_of(outcome).keys()


def test_every_reason_is_in_the_table() -> None:
    """But for the DaemonSets that go: those are not in the status."""
    assert {str(reason) for reason in Reason} - {row.values[1][0] for row in ROWS} == {"Deleted", "Deleting"}  # type: ignore[index]  # pytest types values as object


def test_what_goes_is_logged_with_its_reason() -> None:
    outcome = ask_agent(own=TWO, nodes=[shape(name="b", pool="small")], parent=autoscaler(emptyGroupGracePeriod="0s"))

    (decision,) = [made for made in outcome.decisions if made.reason == "Deleted"]
    assert decision.message == '"large": no node of the group has been there for the grace period'
    assert decision.object == wire.ObjectRef("DaemonSet", "agent-large", NAMESPACE)
    assert decision.changes


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        (
            {"nodeGroupLabel": "a b"},
            'nodeGroupLabel: label key "a b" has a name that is not made of letters, digits, '
            "- _ . with a letter or digit at both ends",
        ),
        ({"defaultGroup": "Yes"}, "defaultGroup: Input should be 'Enabled' or 'Disabled'"),
        ({"nodeSelector": {"matchLabels": {"a": 1}}}, 'nodeSelector: matchLabels["a"] must be a string'),
        ({"nodeSelector": {"labels": {}}}, 'nodeSelector: selector: unknown field "labels"'),
        ({"emptyGroupGracePeriod": "-1s"}, "emptyGroupGracePeriod: must not be negative, and at most ten years"),
        ({"emptyGroupGracePeriod": "100000h"}, "emptyGroupGracePeriod: must not be negative, and at most ten years"),
        ({"minResources": {"cpu": "0"}}, "minResources.cpu: must be a quantity above zero, such as 100m or 2"),
        (
            {"minResources": {"memory": "much"}},
            'minResources.memory: "much" is not a quantity such as 10Gi, 250m or 1.5',
        ),
        ({"minResources": {"cpu": "3"}}, "minResources: cpu 3 is above maxResources 2"),
        ({"minResources": {"memory": "8Gi"}}, "minResources: memory is above maxResources"),
        (
            {"maxResources": {"memory": "9Ei"}},
            "maxResources.memory: must be a quantity above zero and below 8Ei, such as 10Gi",
        ),
        ({"resourcePercentages": {"requestCPU": 6}}, "resourcePercentages: requestCPU is above limitCPU"),
        ({"resourcePercentages": {"limitMemory": 1}}, "resourcePercentages: requestMemory is above limitMemory"),
        ({"paused": "yes"}, "paused: Input should be a valid boolean"),
        ({"template": None}, "template: give exactly one of template and templateConfigMap"),
        (
            {"template": template(), "templateConfigMap": {"name": "x"}},
            "template: give exactly one of template and templateConfigMap",
        ),
        ({"templateConfigMap": {}}, "templateConfigMap.name: Field required"),
        ({"groups": [{}]}, "groups.0: give either value, a label value, or default: true"),
        ({"groups": [{"value": "a", "default": True}]}, "groups.0: give either value, a label value, or default: true"),
        ({"groups": [{"value": "a b"}]}, "groups.0: give either value, a label value, or default: true"),
        ({"groups": [{"value": "a"}, {"value": "a"}]}, 'groups.1: "a" is there twice'),
        ({"groups": [{"default": True}, {"default": True}]}, "groups.1: nodes without the label is there twice"),
    ],
)
def test_a_spec_that_cannot_be_used_is_answered_with_what_to_change(spec: dict[str, Any], complaint: str) -> None:
    """And all that runs is kept to the letter."""
    outcome = ask_agent(own=OWN, parent=autoscaler(**spec))

    assert condition_of(outcome) == ("False", "InvalidSpec", complaint)
    assert child_of(outcome) == child_of(ask_agent())


def test_a_name_that_would_leave_no_room_for_groups_is_refused() -> None:
    outcome = ask_agent(parent=autoscaler(name="x" * 41))

    assert condition_of(outcome)[1:] == (
        "InvalidSpec",
        "metadata.name: longer than 40 characters, and it begins the names of the DaemonSets",
    )
    assert children_of(outcome) == {}


# Sizes that change, and those that wait


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        pytest.param("16Gi", "15600Mi", "Running", id="just below 5 % less"),
        pytest.param("16Gi", "15500Mi", "Resized", id="just above 5 % less"),
        pytest.param("16Gi", "17190Mi", "Running", id="just below 5 % more"),
        pytest.param("16Gi", "17210Mi", "Resized", id="just above 5 % more"),
        pytest.param("16116152Ki", "15944120Ki", "Running", id="case 65: a node in place of another of its type"),
        pytest.param("256Gi", "128Gi", "Resized", id="above the maximum and below it"),
        pytest.param("512Gi", "256Gi", "Running", id="at the maximum as before"),
    ],
)
def test_a_size_changes_only_if_that_is_worth_a_rollout(before: str, after: str, reason: str) -> None:
    outcome = ask_agent(own=running(nodes=[shape(memory=before)]), nodes=[shape(memory=after)])

    assert said_of(outcome)[0] == reason
    assert outcome.decisions[1].changes is (reason == "Resized")


def test_small_differences_do_not_add_up_unseen() -> None:
    """What counts is the node that the size is for, however often others came and went."""
    own = running()
    for memory in ("15900Mi", "15600Mi"):
        own = applied(ask_agent(own=own, nodes=[shape(memory=memory)]), own)
    outcome = ask_agent(own=own, nodes=[shape(memory="15400Mi")])

    assert said_of(outcome) == (
        "Resized",
        "100m CPU and 308Mi, at most 200m and 770Mi, for the smallest node as it is now",
    )


def test_another_size_waits_for_the_rollout_before_it() -> None:
    """Case 80: it is looked at again, and comes when all agents are up to date."""
    nodes = [shape(memory="8Gi")]
    waiting = ask_agent(own=[unfinished(OWN[0])], nodes=nodes)

    assert child_of(waiting) == child_of(ask_agent())
    assert body_of(waiting)["resyncAfterSeconds"] == 60
    assert entry_of(waiting)["requests"] == {"cpu": "100m", "memory": "327Mi"}
    assert child_of(ask_agent(own=OWN, nodes=nodes)) == child_of(ask_agent(nodes=nodes))


@pytest.mark.parametrize(
    ("status", "generation", "is_finished"),
    [
        pytest.param({}, 1, False, id="nothing is known yet"),
        pytest.param({"observedGeneration": 1}, 2, False, id="a revision that nobody has noticed"),
        pytest.param(
            {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 2},
            2,
            False,
            id="one agent is behind",
        ),
        pytest.param(
            {"observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3},
            2,
            True,
            id="all agents are up to date",
        ),
        pytest.param({"observedGeneration": 2}, 2, True, id="no agent is wanted"),
        pytest.param({"observedGeneration": "x", "desiredNumberScheduled": True}, 1, False, id="nothing readable"),
    ],
)
def test_a_rollout_is_finished_when_every_agent_is_up_to_date(
    status: JsonObject, generation: int, is_finished: bool
) -> None:
    child = OWN[0] | {"metadata": OWN[0]["metadata"] | {"generation": generation}, "status": status}
    outcome = ask_agent(own=[child], nodes=[shape(memory="8Gi")])

    assert said_of(outcome)[0] == ("Resized" if is_finished else "ResizeDeferred")


def test_pods_that_are_replaced_by_hand_are_not_waited_for() -> None:
    parent = autoscaler(template={"spec": template()["spec"] | {"updateStrategy": {"type": "OnDelete"}}})
    own = [unfinished(child) for child in running(parent=parent)]

    assert said_of(ask_agent(own=own, parent=parent, nodes=[shape(memory="8Gi")]))[0] == "Resized"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"template": template(image="agent:2")}, id="another template"),
        pytest.param({"resourcePercentages": {"requestMemory": 2.01, "limitMemory": 5.01}}, id="other percentages"),
        pytest.param({"maxResources": {"memory": "800Mi"}}, id="another bound"),
        pytest.param({"goMemLimitPercent": 90}, id="another share for Go"),
        pytest.param({"groups": [{"value": "large", "env": [{"name": "A", "value": "b"}]}]}, id="an override"),
    ],
)
def test_what_people_change_goes_out_at_once(spec: dict[str, Any]) -> None:
    """Even while a rollout is unfinished, even if it is a small change, and still for the node of before."""
    parent = autoscaler(**spec)
    outcome = ask_agent(own=[unfinished(OWN[0])], parent=parent, nodes=[shape(memory="8Gi")])

    assert said_of(outcome)[0] == "ResizeDeferred"
    assert child_of(outcome) == child_of(ask_agent(parent=parent)) != child_of(ask_agent())


def test_the_size_stays_if_no_node_says_anything_any_more() -> None:
    """Case 61: a change of the template still goes out, and the group is counted as one that fails."""
    parent = autoscaler(template=template(image="agent:2"))
    outcome = ask_agent(own=OWN, parent=parent, nodes=[shape(memory="")])

    assert child_of(outcome) == child_of(ask_agent(parent=parent))
    assert condition_of(outcome)[:2] == ("False", "GroupsFailing")
    assert outcome.gauges is not None
    assert [(v.value, v.labels["reason"]) for v in outcome.gauges.values if "reason" in v.labels] == [
        (1, "NoAllocatable")
    ]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"cpu":1}', '{"cpu":"4"}', '{"cpu":"x","memory":"y"}'])
def test_a_size_that_was_noted_unreadably_is_computed_anew(note: str) -> None:
    wanted = child_of(ask_agent())
    wanted["metadata"]["annotations"][SIZED_FOR] = note
    odd = unfinished(OWN[0])
    odd["metadata"] = odd["metadata"] | {"annotations": {wire.LAST_APPLIED: compact_json(wanted)}}
    outcome = ask_agent(own=[odd], nodes=[shape(memory="8Gi")])

    assert said_of(outcome) == ("Updated", HALF)
    assert child_of(outcome) == child_of(ask_agent(nodes=[shape(memory="8Gi")]))


def test_a_request_that_came_to_nothing_is_a_failure_after_a_minute_not_before() -> None:
    first = ask_agent()
    soon = ask_agent(parent=autoscaler(status=status_of(first)), now=NOW + timedelta(seconds=59))
    late = ask_agent(parent=autoscaler(status=status_of(soon)), now=NOW + timedelta(seconds=60))

    assert [said_of(outcome)[0] for outcome in (first, soon, late)] == ["Created", "Created", "Failed"]
    assert {entry_of(outcome)["requestedAt"] for outcome in (first, soon, late)} == {"2026-11-16T03:00:00Z"}
    assert all(child_of(outcome) == child_of(first) for outcome in (soon, late))
    assert body_of(late)["resyncAfterSeconds"] == 60
    assert "requestedAt" not in entry_of(ask_agent(own=OWN, parent=autoscaler(status=status_of(late))))


@pytest.mark.parametrize("garbage", ["", "soon", 5, None])
def test_a_time_of_a_request_that_cannot_be_read_starts_anew(garbage: Any) -> None:
    outcome = ask_agent(parent=autoscaler(status=told(reason="Created", requestedAt=garbage)))

    assert said_of(outcome) == ("Created", SIZE)
    assert entry_of(outcome)["requestedAt"] == "2026-11-16T03:00:00Z"


def test_another_spec_gets_a_minute_of_its_own() -> None:
    """What was refused was something else."""
    status = told(reason="Failed", requestedAt=ago(600)) | {"observedGeneration": 1}
    outcome = ask_agent(own=OWN, parent=autoscaler(status=status, generation=2, template=template(image="agent:2")))

    assert said_of(outcome) == ("Updated", SIZE)
    assert entry_of(outcome)["requestedAt"] == "2026-11-16T03:00:00Z"


# Groups without nodes


def test_an_empty_group_goes_after_its_grace_period_and_not_before() -> None:
    """Case 68: since when it is empty is written down on its DaemonSet, and nothing else changes on it."""
    first = emptied(TWO, emptyGroupGracePeriod="30m")
    own = applied(first, TWO)
    later = [emptied(own, emptyGroupGracePeriod="30m", now=NOW + timedelta(seconds=s)) for s in (600, 1799, 1800)]

    without = child_of(first) | {"metadata": child_of(ask_agent())["metadata"]}
    assert annotations_of(child_of(first))[EMPTY_SINCE] == "2026-11-16T03:00:00Z"
    assert without == child_of(ask_agent())
    assert body_of(first)["resyncAfterSeconds"] == 1800
    assert [body_of(outcome).get("resyncAfterSeconds") for outcome in later] == [1200, 1, None]
    assert [child_of(outcome) for outcome in later[:2]] == [child_of(first)] * 2
    assert [*children_of(later[2])] == ["agent-small"]


def test_a_node_that_comes_back_ends_the_grace_period() -> None:
    own = applied(emptied(TWO), TWO)
    back = ask_agent(own=own, nodes=PAIR, now=NOW + timedelta(hours=2))

    assert EMPTY_SINCE not in annotations_of(child_of(back))
    again = emptied(applied(back, own), now=NOW + timedelta(hours=3))
    assert annotations_of(child_of(again))[EMPTY_SINCE] == "2026-11-16T06:00:00Z"


def test_a_clock_that_goes_backwards_prolongs_nothing_for_ever() -> None:
    own = applied(emptied(TWO, now=NOW + timedelta(days=400)), TWO)
    outcome = emptied(own)

    assert annotations_of(child_of(outcome))[EMPTY_SINCE] == "2026-11-16T03:00:00Z"
    assert said_of(outcome)[1] == "no node is left; the DaemonSet goes after 2026-11-16T04:00:00Z"


@pytest.mark.parametrize("garbage", ["", "yesterday", "2026-13-01T00:00:00Z", "0"])
def test_a_time_that_cannot_be_read_starts_anew(garbage: str) -> None:
    own = applied(emptied(TWO), TWO)
    note = annotations_of(own[0])[wire.LAST_APPLIED].replace("2026-11-16T03:00:00Z", garbage)
    own[0]["metadata"]["annotations"] |= {wire.LAST_APPLIED: note}

    assert annotations_of(child_of(emptied(own)))[EMPTY_SINCE] == "2026-11-16T03:00:00Z"


def test_what_somebody_else_writes_as_the_time_does_not_count() -> None:
    own = [with_annotation(child, EMPTY_SINCE, "2020-01-01T00:00:00Z") for child in TWO]

    assert said_of(emptied(own))[0] == "Empty"


def test_a_node_that_moves_leaves_both_daemonsets_valid() -> None:
    """Case 74: each takes only nodes with its own value, so no node has two agents."""
    outcome = ask_agent(own=TWO, nodes=[shape(pool="small"), shape(name="b", pool="small")])

    assert [*children_of(outcome)] == ["agent-large", "agent-small"]
    for group in ("large", "small"):
        (term,) = terms_of(child_of(outcome, group))
        assert term["matchExpressions"] == [{"key": POOL, "operator": "In", "values": [group]}]
    assert (entry_of(outcome)["nodes"], entry_of(outcome, "small")["nodes"]) == (0, 2)


def test_no_group_goes_while_no_node_is_known_at_all() -> None:
    own = applied(emptied(TWO), TWO)
    outcome = ask_agent(own=own, nodes=[], now=NOW + timedelta(days=9))

    assert set(children_of(outcome)) == {"agent-large", "agent-small"}
    assert condition_of(outcome) == (
        "False",
        "NoNodes",
        "there are no NodeShapes: is the controller node-shape running?",
    )


# More groups than there may be


def test_too_many_groups_leave_those_that_run_alone() -> None:
    """Only some of the others are named."""
    nodes = [shape(), *(shape(name=f"n{number}", pool=f"p{number:03}") for number in range(200))]
    outcome = ask_agent(own=OWN, nodes=nodes)
    said = ("TooManyGroups", f"{POOL} has 201 values, and there are at most 200 groups")

    assert [*children_of(outcome)] == ["agent-large"]
    assert said_of(outcome) == ("Running", SIZE)
    assert [said_of(outcome, f"p{number:03}") for number in range(5)] == [said] * 5
    assert len(status_of(outcome)["nodeGroups"]) == 6
    assert condition_of(outcome)[1] == "GroupsFailing"


def test_as_many_groups_as_there_may_be_are_fine() -> None:
    nodes = [shape(name=f"n{number}", pool=f"p{number:03}") for number in range(node_agent.MOST_GROUPS)]

    assert len(children_of(ask_agent(nodes=nodes))) == 200


# In a cluster


def test_a_group_comes_grows_empties_and_goes() -> None:
    """And at each stage nothing is written once all is told."""
    cluster = AgentCluster(autoscaler(), *PAIR)
    cluster.settle()
    assert set(cluster.daemonsets()) == {"agent-large", "agent-small"}
    cluster.cluster.put(shape(memory="8Gi"))
    cluster.settle()
    assert container_of(cluster.daemonsets()["agent-large"])["resources"]["requests"]["memory"] == "180Mi"
    cluster.cluster.delete(shape())
    cluster.settle()
    assert set(cluster.daemonsets()) == {"agent-large", "agent-small"}
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert set(cluster.daemonsets()) == {"agent-small"}


def test_the_events_of_a_life_in_a_cluster() -> None:
    cluster = AgentCluster(autoscaler(), *PAIR)
    cluster.cluster.now = format_time(NOW)
    cluster.settle()
    cluster.cluster.put(shape(memory="8Gi"))
    cluster.settle()
    cluster.cluster.delete(shape())
    cluster.settle()
    cluster.now += timedelta(hours=1)
    cluster.settle()

    found = [event["reason"] for event in cluster.events()]
    assert sorted(found) == ["Created", "Created", "Deleted", "Resized"]
    assert {event["source"]["component"] for event in cluster.events()} == {report.COMPONENT}
