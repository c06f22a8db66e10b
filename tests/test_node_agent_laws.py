"""The laws of the node agent autoscaler, for any nodes, groups and histories, and for whatever people may write."""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hooks import node_agent, wire
from hooks.agents.autoscaler import read_autoscaler
from hooks.agents.daemonsets import EMPTY_SINCE, GROUPED_BY, NODE_GROUP, SIZED_FOR
from hooks.agents.report import Reason
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of, namespace_of
from hooks.kube.quantity import canonical, milli, whole_bytes
from hooks.kube.selector import parse_selector
from hooks.kube.times import format_time
from tests.agents import (
    DAEMONSETS,
    NAMESPACE,
    NOW,
    POOL,
    SHAPES,
    TEMPLATE_TEXT,
    AgentCluster,
    adopted,
    agent_request,
    applied,
    ask_agent,
    ask_body,
    autoscaler,
    body_of,
    children_of,
    config_map,
    container_of,
    daemonset,
    running,
    shape,
    template,
    terms_of,
    unfinished,
)

POOLS = [None, "", "large", "Large", "l.a", "l-a", "default", "m5.xlarge"]
CPUS = st.sampled_from(["1m", "100m", "940m", "2", "3920m", "4", "8", "128", "1k"])
MEMORIES = st.sampled_from(["1", "1Mi", "3976784Ki", "8Gi", "15944120Ki", "16Gi", "16393441280", "256Gi", "1Ei"])
ODD_QUANTITIES = st.sampled_from(["", "0", "-1", "much", "9Ei", "1e18", "1e30", "1e99", "0.1n"])
SHARES = st.sampled_from([0.01, 0.5, 1, 2, 2.5, 5, 33.3, 80, 100])
LEAST = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1m", "50m", 1]), "memory": st.sampled_from(["1Mi", "100M", "1500"])}
)
MOST = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["1", 4, "2500m"]), "memory": st.sampled_from(["1Gi", "5G", "8Gi"])}
)
PERCENTAGES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("requestCPU", "requestMemory", "limitCPU", "limitMemory"), SHARES)
)
SIZING: Mapping[str, st.SearchStrategy[Any]] = {
    "resourcePercentages": PERCENTAGES,
    "minResources": LEAST,
    "maxResources": MOST,
    "goMemLimitPercent": SHARES,
}
OVERRIDES = st.fixed_dictionaries(
    {"value": st.sampled_from(["large", "l.a"])},
    optional={
        **SIZING,
        "tolerations": st.just([{"operator": "Exists"}]),
        "priorityClassName": st.just("high"),
        "updateStrategy": st.just({"type": "OnDelete"}),
        "env": st.just([{"name": "GOMEMLIMIT", "value": "1GiB"}]),
    },
)
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        **SIZING,
        "defaultGroup": st.sampled_from(["Enabled", "Disabled"]),
        "groups": st.lists(OVERRIDES, max_size=2, unique_by=lambda group: str(group["value"])),
        "paused": st.booleans(),
        "emptyGroupGracePeriod": st.sampled_from(["0s", "1h"]),
        "nodeSelector": st.sampled_from([{}, {"matchLabels": {"zone": "a"}}]),
        "template": st.sampled_from([template(), template(image="agent:2"), template(tolerations=[{"key": "a"}])]),
    },
)


@st.composite
def nodes_of(draw: st.DrawFn, *, odd: bool = False) -> list[JsonObject]:
    """Of several groups, one value of a pool more often than others."""
    return [
        shape(
            name=f"n{number}",
            pool=draw(st.sampled_from(POOLS)),
            cpu=draw(CPUS | ODD_QUANTITIES if odd else CPUS),
            memory=draw(MEMORIES | ODD_QUANTITIES if odd else MEMORIES),
            os=draw(st.sampled_from(["linux", "linux", "linux", "", "windows"])),
            labels=draw(st.sampled_from([{}, {"zone": "a"}])),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


@st.composite
def requests(draw: st.DrawFn) -> JsonObject:
    """After some history: DaemonSets of other nodes and an earlier spec, some of them in the middle of a rollout."""
    before = autoscaler(**(draw(SPECS) | {"paused": False}))
    own = running(parent=before, nodes=draw(nodes_of()))
    if draw(st.booleans()):
        own = applied(ask_agent(parent=before, nodes=draw(nodes_of()), own=own), own)
    rolled = [unfinished(child) if draw(st.booleans()) else child for child in own]
    others = [daemonset(name="agent-large")] if draw(st.booleans()) and "agent-large" not in map(name_of, own) else []
    return agent_request(parent=autoscaler(**draw(SPECS)), nodes=draw(nodes_of(odd=True)), own=rolled, others=others)


LAWS = settings(max_examples=60)


def built(outcome: wire.Outcome, body: JsonObject) -> list[JsonObject]:
    """Those that are built anew, and not kept as they are."""
    before = {
        name_of(child): json.loads(annotations_of(child)[wire.LAST_APPLIED])["spec"]
        for child in body["children"][DAEMONSETS].values()
    }
    return [child for name, child in children_of(outcome).items() if before.get(name) != child["spec"]]


# Sizes


@LAWS
@given(requests())
def test_what_is_built_is_within_its_bounds_and_a_limit_is_never_below_its_request(body: JsonObject) -> None:
    read = read_autoscaler("agent", body["parent"]["spec"])
    for child in built(ask_body(body), body):
        sizes, bounds = container_of(child)["resources"], read.bounds(labels_of(child).get(NODE_GROUP))
        for part in ("requests", "limits"):
            assert bounds.least.cpu_milli <= milli(sizes[part]["cpu"]) <= bounds.most.cpu_milli
            assert bounds.least.memory_bytes <= whole_bytes(sizes[part]["memory"]) <= bounds.most.memory_bytes
            assert all(canonical(text) == text for text in sizes[part].values())
        assert milli(sizes["limits"]["cpu"]) >= milli(sizes["requests"]["cpu"])
        assert whole_bytes(sizes["limits"]["memory"]) >= whole_bytes(sizes["requests"]["memory"])


@LAWS
@given(requests())
def test_no_two_daemonsets_are_for_one_node(body: JsonObject) -> None:
    """Each term of what is built asks for one value of the label, or for none."""
    asked = []
    for child in built(ask_body(body), body):
        (term,) = terms_of(child)
        asked.append(compact_json(term["matchExpressions"][0]))
        assert term["matchExpressions"][0]["key"] == POOL

    assert len(set(asked)) == len(asked)


# Order, and other groups


@LAWS
@given(requests(), st.randoms(use_true_random=False))
def test_the_same_nodes_in_any_order_give_the_same_bytes(body: JsonObject, random: Any) -> None:
    def shuffled(objects: JsonObject) -> JsonObject:
        items = list(objects.items())
        random.shuffle(items)
        return dict(items)

    other = body | {
        part: {kind: shuffled(objects) for kind, objects in body[part].items()} for part in ("children", "related")
    }

    assert wire.encode(ask_body(body).response) == wire.encode(ask_body(other).response)


@LAWS
@given(requests(), CPUS, MEMORIES)
def test_a_group_more_or_less_changes_no_other_daemonset(body: JsonObject, cpu: str, memory: str) -> None:
    """But where there is no node at all without it: then nothing changes for want of nodes."""
    new = shape(name="new", pool="new.one", cpu=cpu, memory=memory, labels={"zone": "a"})
    related = body["related"] | {SHAPES: body["related"][SHAPES] | {"new": new}}
    without, beside = children_of(ask_body(body)), children_of(ask_body(body | {"related": related}))

    if any(_counts(body, node) for node in body["related"][SHAPES].values()):
        assert {
            name: child for name, child in beside.items() if labels_of(child).get(NODE_GROUP) != "new.one"
        } == without


def _counts(body: JsonObject, node: JsonObject) -> bool:
    is_chosen = read_autoscaler("agent", body["parent"]["spec"]).selector.matches(node["spec"]["labels"])
    return is_chosen and node["spec"]["os"] != "windows"


# Whatever is wrong, nothing goes

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["0", "1Gi", "large", POOL, "METAHOOKSx9x", "2026-11-16T03:00:00Z", "1h"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PAIR = [shape(), shape(name="b", pool="small")]
OWN = running(nodes=PAIR)
FIELDS = [
    *("template", "templateConfigMap", "nodeGroupLabel", "nodeSelector", "defaultGroup", "resourcePercentages"),
    *("minResources", "maxResources", "goMemLimitPercent", "container", "groups", "paused", "emptyGroupGracePeriod"),
]
GROUP_FIELDS = ["value", "default", "tolerations", "priorityClassName", "updateStrategy", "env", *SIZING]
POD_FIELDS = [
    *("containers", "initContainers", "tolerations", "affinity", "nodeSelector", "volumes", "overhead"),
    *("terminationGracePeriodSeconds", "priorityClassName"),
]
AFFINITIES = st.builds(
    lambda required: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
    JSON
    | st.fixed_dictionaries({"nodeSelectorTerms": JSON | st.lists(st.fixed_dictionaries({"matchExpressions": JSON}))}),
)


def names_kept(body: JsonObject) -> None:
    """An answer has all the DaemonSets that there are, each once; or there is none that would be carried out."""
    there = sorted(map(name_of, body["children"][DAEMONSETS].values()))
    try:
        request = wire.parse(node_agent.SyncRequest, compact_json(body).encode())
        answer = node_agent.sync(request, now=NOW).response
        wire.encode(answer)
    except (wire.RetryLater, wire.InvalidRequest):
        return
    returned = sorted(name_of(child) for child in answer.body()["children"] if _is_daemonset(child))
    assert set(returned) >= set(there)
    assert len(set(returned)) == len(returned)


def _is_daemonset(child: JsonObject) -> bool:
    return (child.get("apiVersion"), child.get("kind"), namespace_of(child)) == ("apps/v1", "DaemonSet", NAMESPACE)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))
def test_no_wrong_spec_drops_a_daemonset(spec: JsonObject) -> None:
    parent = autoscaler()
    names_kept(agent_request(own=OWN, nodes=PAIR, parent=parent | {"spec": parent["spec"] | spec}))


@LAWS
@given(JSON)
def test_no_spec_at_all_drops_a_daemonset(spec: Any) -> None:
    names_kept(agent_request(own=OWN, nodes=PAIR, parent=autoscaler() | {"spec": spec}))


@LAWS
@given(st.lists(st.dictionaries(st.sampled_from(GROUP_FIELDS), JSON, max_size=3), max_size=2))
def test_no_wrong_override_drops_a_daemonset(groups: list[JsonObject]) -> None:
    named = [{"value": value} | group for value, group in zip(("large", "small"), groups, strict=False)]
    for wanted in (groups, named):
        names_kept(agent_request(own=OWN, nodes=PAIR, parent=autoscaler(groups=wanted)))


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(POD_FIELDS), JSON, max_size=2), st.none() | AFFINITIES)
def test_no_wrong_pod_drops_a_daemonset(pod: JsonObject, affinity: JsonObject | None) -> None:
    given_pod = pod if affinity is None else pod | {"affinity": affinity}
    groups = [{"value": "large", "tolerations": [{"key": "a"}], "env": [{"name": "A", "value": "b"}]}]
    names_kept(agent_request(own=OWN, nodes=PAIR, parent=autoscaler(template=template(**given_pod), groups=groups)))


@LAWS
@given(JSON, JSON, JSON)
def test_no_wrong_metadata_of_a_template_drops_a_daemonset(whole: Any, labels: Any, annotations: Any) -> None:
    for metadata in (whole, {"labels": labels, "annotations": annotations}):
        given_template = template()
        given_template["spec"]["template"]["metadata"] = metadata
        for wanted in (given_template, template() | {"metadata": metadata}):
            names_kept(agent_request(own=OWN, nodes=PAIR, parent=autoscaler(template=wanted)))


@LAWS
@given(st.text(max_size=60) | JSON.map(compact_json), st.integers(0, len(TEMPLATE_TEXT)), st.integers(0, 40))
def test_no_wrong_text_drops_a_daemonset(odd: str, start: int, length: int) -> None:
    """Alone, and in place of a part of one that works."""
    parent = autoscaler(templateConfigMap={"name": "template"})
    for text in (odd, TEMPLATE_TEXT[:start] + odd + TEMPLATE_TEXT[start + length :]):
        if "\ud7ff" < max(text, default="") < "\ue000":
            continue  # half a character, which is no JSON
        names_kept(agent_request(own=OWN, nodes=PAIR, parent=parent, config_maps=[config_map(text)]))


ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "value": st.sampled_from(["large", "small", None]) | JSON,
        "reason": st.sampled_from([*map(str, Reason)]) | JSON,
        "requestedAt": st.sampled_from(["2026-11-16T02:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]) | JSON,
        "requests": JSON,
        "limits": JSON,
        "goMemLimit": JSON,
    },
)
STATUSES = JSON | st.fixed_dictionaries(
    {"nodeGroups": st.lists(ENTRIES, max_size=3) | JSON, "conditions": JSON | st.lists(JSON, max_size=2)}
)


@LAWS
@given(STATUSES, st.booleans())
def test_no_status_drops_a_daemonset(status: Any, is_paused: bool) -> None:
    parent = autoscaler(paused=is_paused) | {"status": status}
    names_kept(agent_request(own=OWN, nodes=PAIR, parent=parent))


@LAWS
@given(nodes_of(odd=True))
def test_no_node_that_lies_drops_a_daemonset(nodes: Sequence[JsonObject]) -> None:
    names_kept(agent_request(own=OWN, nodes=[*PAIR, *nodes]))


NOTES = st.fixed_dictionaries(
    {},
    optional={
        SIZED_FOR: st.text(max_size=8) | st.sampled_from(["{", '{"cpu":"1e30","memory":"1e30"}', '{"cpu":"4"}']),
        GROUPED_BY: st.text(max_size=8),
        EMPTY_SINCE: st.text(max_size=8) | st.just(format_time(NOW - timedelta(days=900))),
    },
)


@st.composite
def tampered(draw: st.DrawFn) -> JsonObject:
    """A DaemonSet on whose annotations somebody has written."""
    child = deepcopy(OWN[0])
    last: Any = {
        **json.loads(annotations_of(child)[wire.LAST_APPLIED]),
        **draw(st.dictionaries(st.sampled_from(["spec", "kind", "apiVersion", "x"]), JSON)),
    }
    if draw(st.booleans()):
        last["metadata"] = last["metadata"] | {"annotations": annotations_of(last) | draw(NOTES)}
    text = draw(st.just(compact_json(last)) | JSON.map(compact_json) | st.text(max_size=20))
    child["metadata"]["annotations"] = {wire.LAST_APPLIED: text} | draw(NOTES)
    return child


@settings(max_examples=150)
@given(tampered(), st.booleans())
def test_nothing_that_is_written_on_a_daemonset_drops_it(child: JsonObject, is_paused: bool) -> None:
    names_kept(agent_request(own=[child, OWN[1]], nodes=PAIR, parent=autoscaler(paused=is_paused)))


# At rest


@settings(max_examples=40)
@given(requests())
def test_a_second_sync_after_the_first_was_carried_out_changes_no_daemonset(body: JsonObject) -> None:
    first = ask_body(body)
    own = applied(first, list(body["children"][DAEMONSETS].values()))
    second_body = deepcopy(body)
    second_body["parent"]["status"] = body_of(first)["status"]
    second_body["children"] = {DAEMONSETS: {f"monitoring/{name_of(child)}": child for child in own}}
    settled = ask_body(second_body)
    third = applied(settled, own)
    again = deepcopy(second_body)
    again["children"] = {DAEMONSETS: {f"monitoring/{name_of(child)}": child for child in third}}

    assert children_of(ask_body(again)) == children_of(settled)
    if not any(
        child.get("status", {}).get("updatedNumberScheduled") == 1 for child in body["children"][DAEMONSETS].values()
    ):
        assert children_of(settled) == children_of(first)


@settings(max_examples=25)
@given(SPECS, SPECS, nodes_of(), nodes_of(odd=True), st.booleans())
def test_a_cluster_comes_to_rest_whatever_changes(
    before: dict[str, Any],
    after: dict[str, Any],
    nodes: Sequence[JsonObject],
    later: Sequence[JsonObject],
    is_handed_over: bool,
) -> None:
    """And then nothing is written, however often it is asked."""
    handed = [adopted(name="legacy")] if is_handed_over else []
    cluster = AgentCluster(autoscaler(**before), *handed, *nodes)
    cluster.settle()
    for node in nodes:
        cluster.cluster.delete(node)
    for node in later:
        cluster.cluster.put(node)
    cluster.cluster.put(autoscaler(generation=2, status=cluster.parent().get("status"), **after))
    cluster.settle()
    cluster.now += timedelta(hours=2)
    cluster.settle()

    assert cluster.round().writes == []


LABELLED = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=4)


@settings(max_examples=40)
@given(LABELLED)
def test_another_label_leaves_no_node_without_an_agent_on_the_way(values: list[tuple[str, str]]) -> None:
    """Whatever the values have in common; and in the end each node has one."""
    nodes = [shape(name=f"n{number}", pool=new, labels={"old": old}) for number, (old, new) in enumerate(values)]
    cluster = AgentCluster(autoscaler(nodeGroupLabel="old"), *nodes)
    cluster.settle()
    cluster.cluster.put(autoscaler(generation=2, status=cluster.parent()["status"]))
    for _ in range(5):
        cluster.round()
        cluster.roll_out()
        assert all(_agents(cluster, node) for node in nodes)
    cluster.settle()

    assert [_agents(cluster, node) for node in nodes] == [1] * len(nodes)
    assert len(cluster.daemonsets()) == len({new for _, new in values})


def _agents(cluster: AgentCluster, node: JsonObject) -> int:
    """How many DaemonSets take the node."""
    terms = [term for child in cluster.daemonsets().values() for term in terms_of(child)]
    return sum(parse_selector(term).matches(node["spec"]["labels"]) for term in terms)
