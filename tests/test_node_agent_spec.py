"""What people write in a NodeAgentAutoscaler: overrides of groups, templates, and where agents run."""

from typing import Any

import pytest

from hooks import node_agent, wire
from hooks.agents import daemonsets
from hooks.kube.metadata import JsonObject, compact_json, name_of
from tests.agents import (
    API,
    CONFIG_MAPS,
    DAEMONSETS,
    NAMESPACE,
    NOW,
    POOL,
    SHAPES,
    SIZE,
    TEMPLATE_TEXT,
    TEXT,
    agent_request,
    ask_agent,
    ask_body,
    autoscaler,
    body_of,
    child_of,
    children_of,
    condition_of,
    config_map,
    container_of,
    counted,
    env_of,
    running,
    said_of,
    shape,
    template,
    terms_of,
)

OWN = running()
PAIR = [shape(), shape(name="b", pool="small")]
TWO = running(nodes=PAIR)


# What is different for one group


def overridden(**group: Any) -> JsonObject:
    """The DaemonSet of a group with these overrides; the one of the other group is as without."""
    parent = autoscaler(groups=[{"value": "large", **group}], template=template(tolerations=[{"key": "a"}]))
    outcome = ask_agent(parent=parent, nodes=PAIR)

    assert child_of(outcome, "small") == child_of(
        ask_agent(parent=autoscaler(template=template(tolerations=[{"key": "a"}])), nodes=PAIR), "small"
    )
    return child_of(outcome)


def test_percentages_and_bounds_of_a_group() -> None:
    """Figures that it leaves out are those of all groups."""
    child = overridden(
        resourcePercentages={"requestMemory": 10, "limitMemory": 50},
        maxResources={"memory": "6Gi"},
        minResources={"cpu": "150m"},
        goMemLimitPercent=50,
    )

    assert container_of(child)["resources"] == {
        "requests": {"cpu": "150m", "memory": "1638Mi"},
        "limits": {"cpu": "200m", "memory": "6Gi"},
    }
    assert env_of(child) == {"GOMEMLIMIT": "3072MiB"}


def test_tolerations_of_a_group_come_after_those_of_all() -> None:
    child = overridden(tolerations=[{"key": "a"}, {"key": "gpu", "operator": "Exists", "value": None}])

    assert child["spec"]["template"]["spec"]["tolerations"] == [{"key": "a"}, {"key": "gpu", "operator": "Exists"}]


def test_priority_and_update_strategy_of_a_group() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}}
    child = overridden(priorityClassName="system-node-critical", updateStrategy=strategy)

    assert child["spec"]["template"]["spec"]["priorityClassName"] == "system-node-critical"
    assert child["spec"]["updateStrategy"] == strategy


def test_env_of_a_group_replaces_and_adds() -> None:
    env = [{"name": "GOMEMLIMIT", "value": "1GiB"}, {"name": "GPU", "value": "true"}]
    given = {"env": [{"name": "A", "value": "b"}, {"name": "GPU", "value": "false"}]}
    parent = autoscaler(template=template(container=given), groups=[{"value": "large", "env": env}])
    child = child_of(ask_agent(parent=parent))

    assert container_of(child)["env"] == [
        {"name": "A", "value": "b"},
        {"name": "GPU", "value": "true"},
        {"name": "GOMEMLIMIT", "value": "1GiB"},
    ]


def test_overrides_of_nodes_without_the_label() -> None:
    parent = autoscaler(defaultGroup="Enabled", groups=[{"default": True, "minResources": {"cpu": 1}}])
    outcome = ask_agent(parent=parent, nodes=[shape(), shape(name="b", pool=None)])

    assert container_of(child_of(outcome, None))["resources"]["requests"]["cpu"] == "1"
    assert container_of(child_of(outcome))["resources"]["requests"]["cpu"] == "100m"


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ({"resourcePercentages": {"limitCPU": 1}}, "groups.0.resourcePercentages: requestCPU is above limitCPU"),
        ({"minResources": {"memory": "5Gi"}}, "groups.0.minResources: memory is above maxResources"),
        ({"minResources": {"cpu": "x"}}, 'groups.0.minResources.cpu: "x" is not a quantity such as 10Gi, 250m or 1.5'),
        ({"tolerations": ["x"]}, "groups.0.tolerations.0: Input should be a valid dictionary"),
        (
            {"tolerations": [{"tolerationSeconds": 1.5}]},
            "groups.0.tolerations[0].tolerationSeconds: 1.5 is not a whole number",
        ),
        ({"env": [{"value": "x"}]}, "groups.0.env: is not a list of names and values"),
        ({"env": [{"name": "A", "value": 1}]}, 'groups.0.env: the value of "A" must be a string; put it in quotes'),
        ({"priorityClassName": 5}, "groups.0.priorityClassName: Input should be a valid string"),
        ({"updateStrategy": "OnDelete"}, "groups.0.updateStrategy: Input should be a valid dictionary"),
    ],
)
def test_an_override_that_cannot_be_used_stops_its_own_group_alone(group: JsonObject, complaint: str) -> None:
    parent = autoscaler(groups=[{"value": "large", **group}], template=template(image="agent:2"))
    outcome = ask_agent(own=TWO, parent=parent, nodes=PAIR)

    assert said_of(outcome) == ("InvalidSpec", complaint)
    assert child_of(outcome) == child_of(ask_agent(nodes=PAIR))
    assert said_of(outcome, "small") == ("Updated", SIZE)
    assert condition_of(outcome) == ("False", "GroupsFailing", f'"large": InvalidSpec: {complaint}')


# Where agents run


def test_terms_that_people_give_all_ask_for_the_group_as_well() -> None:
    """They are alternatives: a term of our own beside them would ask for less. The rest of the affinity stays."""
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
        {},
    ]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    affinity = {
        "nodeAffinity": {daemonsets.REQUIRED_AFFINITY: {"nodeSelectorTerms": terms}} | preferred,
        "podAntiAffinity": {"x": 1},
    }
    child = child_of(ask_agent(parent=autoscaler(template=template(affinity=affinity))))
    ours = {"key": POOL, "operator": "In", "values": ["large"]}

    assert terms_of(child) == [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1"]}, ours]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}], "matchExpressions": [ours]},
    ]
    found = child["spec"]["template"]["spec"]["affinity"]
    assert found["podAntiAffinity"] == {"x": 1}
    assert found["nodeAffinity"].items() >= preferred.items()


def affine(required: Any) -> JsonObject:
    return {"affinity": {"nodeAffinity": {daemonsets.REQUIRED_AFFINITY: required}}}


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(affine({"nodeSelectorTerms": [{}]}), id="a term for no node"),
        pytest.param(affine({"nodeSelectorTerms": "x"}), id="terms that are no list"),
        pytest.param(affine({"nodeSelectorTerms": ["x"]}), id="a term that is no object"),
        pytest.param(affine({"nodeSelectorTerms": [{"matchExpressions": 5}]}), id="expressions that are a number"),
        pytest.param(affine({"nodeSelectorTerms": [{"matchExpressions": "ab"}]}), id="expressions that are a text"),
        pytest.param({"affinity": "x"}, id="an affinity that is no object"),
        pytest.param({"nodeSelector": "x"}, id="a selector that is no object"),
        pytest.param({"nodeSelector": {"kubernetes.io/os": "windows"}}, id="another system"),
        pytest.param({"nodeSelector": {"a": True}}, id="a label that is no text"),
        pytest.param({"tolerations": 5}, id="tolerations that are a number"),
        pytest.param({"tolerations": "ab"}, id="tolerations that are a text"),
        pytest.param({"initContainers": "x"}, id="containers that are no list"),
        pytest.param({"terminationGracePeriodSeconds": 1.5}, id="a float"),
    ],
)
def test_a_pod_that_cannot_be_built_on_is_an_invalid_template(pod: JsonObject) -> None:
    parent = autoscaler(template=template(**pod), groups=[{"value": "large", "tolerations": [{"key": "a"}]}])
    outcome = ask_agent(own=OWN, parent=parent)

    assert said_of(outcome)[0] == "TemplateInvalid"
    assert child_of(outcome) == child_of(ask_agent())
    assert condition_of(outcome, "TemplateValid")[:2] == ("False", "TemplateInvalid")
    assert counted(outcome) == {"render_errors_total": 1}


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize("where", ["of the DaemonSet", "of the pods"])
@pytest.mark.parametrize("odd", [["x"], "x", 5])
def test_metadata_that_is_no_map_is_an_invalid_template(part: str, where: str, odd: Any) -> None:
    given = template()
    if where == "of the pods":
        given["spec"]["template"]["metadata"] = {part: odd}
    else:
        given["metadata"] = {part: odd}
    outcome = ask_agent(own=OWN, parent=autoscaler(template=given))

    assert said_of(outcome)[0] == "TemplateInvalid"
    assert child_of(outcome) == child_of(ask_agent())


def test_only_one_container_gets_the_size() -> None:
    """The first, or the one that is named; other figures of its resources stay."""
    sidecar = {"name": "sidecar", "resources": {"requests": {"cpu": "1000m"}}}
    agent = {"name": "agent", "resources": {"limits": {"cpu": "9", "nvidia.com/gpu": 1}, "claims": [{"name": "x"}]}}
    given = template(containers=[sidecar, agent], initContainers=[{"name": "init"}])
    first = child_of(ask_agent(parent=autoscaler(template=given)))["spec"]["template"]["spec"]
    named = child_of(ask_agent(parent=autoscaler(template=given, container="agent")))["spec"]["template"]["spec"]

    assert first["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "327Mi"}
    assert named["containers"][0] == {"name": "sidecar", "resources": {"requests": {"cpu": "1"}}}
    assert named["containers"][1]["resources"] == {
        "requests": {"cpu": "100m", "memory": "327Mi"},
        "limits": {"cpu": "200m", "memory": "819Mi", "nvidia.com/gpu": "1"},
        "claims": [{"name": "x"}],
    }
    assert first["initContainers"] == [{"name": "init"}]


# Templates that are missing or broken


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{{ .Unknown }}", id="a field that is not known"),
        pytest.param("a: [", id="no YAML"),
        pytest.param(TEMPLATE_TEXT.replace("DaemonSet", "Deployment"), id="another kind"),
        pytest.param("", id="nothing"),
    ],
)
def test_a_broken_text_changes_nothing_that_runs(text: str) -> None:
    """Case 77; where nothing runs yet, nothing is made."""
    outcome = ask_agent(own=OWN, parent=autoscaler(**TEXT), config_maps=[config_map(text)])
    first = ask_agent(parent=autoscaler(**TEXT), config_maps=[config_map(text)])

    assert child_of(outcome) == child_of(ask_agent())
    assert children_of(first) == {}
    for answer in (outcome, first):
        assert condition_of(answer)[:2] == ("False", "TemplateInvalid")
        assert condition_of(answer, "TemplateValid")[:2] == ("False", "TemplateInvalid")
        assert counted(answer) == {"render_errors_total": 1}


def test_a_value_that_breaks_the_template_stops_its_own_group_alone() -> None:
    text = f"{TEMPLATE_TEXT}      nodeSelector:\n        kubernetes.io/os: '{{{{ .NodeGroupLabel }}}}'\n"
    nodes = [shape(pool="linux"), shape(name="b", pool="x")]
    outcome = ask_agent(parent=autoscaler(**TEXT), config_maps=[config_map(text)], nodes=nodes)

    assert said_of(outcome, "linux")[0] == "Created"
    assert said_of(outcome, "x") == (
        "TemplateInvalid",
        "ConfigMap template, daemonset-template.yaml: "
        "spec.template.spec.nodeSelector: asks for kubernetes.io/os x; only linux is managed",
    )
    assert condition_of(outcome, "TemplateValid")[:2] == ("False", "TemplateInvalid")
    assert counted(outcome) == {"render_errors_total": 1}


@pytest.mark.parametrize("word", ["METAHOOKSx0x", "METAHOOKSx9x"])
def test_no_word_of_an_inline_template_is_a_placeholder(word: str) -> None:
    outcome = ask_agent(parent=autoscaler(template=template(image=word)))

    assert said_of(outcome)[0] == "TemplateInvalid" or container_of(child_of(outcome))["image"] == word


@pytest.mark.parametrize("depth", [100, 600, 900, 5000])
def test_an_inline_template_that_is_nested_deeply_breaks_nothing(depth: int) -> None:
    nested = '{"a":' * depth + "1" + "}" * depth
    body = compact_json(agent_request(own=OWN, parent=autoscaler(template=template(x="NESTED")))).replace(
        '"NESTED"', nested
    )
    try:
        outcome = node_agent.sync(wire.parse(node_agent.SyncRequest, body.encode()), now=NOW)
    except (wire.InvalidRequest, wire.RetryLater):
        return
    assert "agent-large" in children_of(outcome)


@pytest.mark.parametrize(
    "part", ["children DaemonSets", "related DaemonSets", "related NodeShapes", "related ConfigMaps"]
)
def test_a_kind_that_is_not_wired_is_not_one_without_objects(part: str) -> None:
    where, kind = part.split()
    body = agent_request(own=OWN, parent=autoscaler(**TEXT), config_maps=[config_map()])
    del body[where][{"DaemonSets": DAEMONSETS, "NodeShapes": SHAPES, "ConfigMaps": CONFIG_MAPS}[kind]]

    with pytest.raises(wire.RetryLater, match=f"the request has no {part}, not even an empty map of them") as caught:
        ask_body(body)
    assert caught.value.seconds == 60


def test_config_maps_need_not_be_wired_for_an_inline_template() -> None:
    body = agent_request()
    del body["related"][CONFIG_MAPS]

    assert said_of(ask_body(body)) == ("Created", SIZE)


def test_keys_with_and_without_a_namespace_are_read_alike() -> None:
    """Case 82: as hook versions v2 and v1 give them."""
    body = agent_request(own=OWN, parent=autoscaler(**TEXT), config_maps=[config_map()])
    bare = body | {
        part: {kind: {name_of(obj): obj for obj in objects.values()} for kind, objects in body[part].items()}
        for part in ("children", "related")
    }

    assert wire.encode(ask_body(bare).response) == wire.encode(ask_body(body).response)


# What it relates to


def related(parent: JsonObject) -> list[JsonObject]:
    request = wire.parse(wire.CustomizeRequest, compact_json({"parent": parent}).encode())
    rules: list[JsonObject] = body_of(node_agent.customize(request))["relatedResources"]
    return rules


def test_relates_to_all_shapes_the_daemonsets_of_its_namespace_and_its_text() -> None:
    rules = [
        {"apiVersion": API, "resource": "nodeshapes"},
        {"apiVersion": "apps/v1", "resource": "daemonsets", "namespace": NAMESPACE},
    ]
    text = {"apiVersion": "v1", "resource": "configmaps", "namespace": NAMESPACE, "names": ["template"]}

    assert related(autoscaler()) == rules
    assert related(autoscaler(**TEXT)) == [*rules, text]


@pytest.mark.parametrize("spec", [None, "x", 5, [], {"templateConfigMap": "x"}, {"templateConfigMap": {"name": ""}}])
def test_relates_to_the_rest_if_the_spec_cannot_be_read(spec: Any) -> None:
    assert len(related(autoscaler() | {"spec": spec})) == 2
