"""The node agent autoscaler on a real API server with real DaemonSets: groups come and go, people interfere."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hooks.kube.metadata import JsonObject, annotations_of, labels_of, name_of, uid_of
from tests.e2e.agent_world import AUTOSCALERS, DAEMONSETS, POOL, AgentWorld, chosen, container, env, until_shaped
from tests.e2e.conftest import DEFAULT_OVERLAY, apply_controllers
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import Driver
from tests.e2e.hook_server import HookServer

pytestmark = pytest.mark.e2e

TEMPLATE = Path(__file__).resolve().parent / "daemonset-template.yaml"


@pytest.fixture
def world(installed: ControlPlane, driver: Driver, hooks: HookServer, namespace: str) -> Iterator[AgentWorld]:
    """An empty cluster, and the check that all is at rest when the test is done."""
    apply_controllers(installed, hooks, DEFAULT_OVERLAY)  # another test may have applied other ones
    world = AgentWorld(installed, driver, hooks, namespace)
    world.clear()
    yield world
    try:
        assert not world.written_at_rest()
    finally:
        world.clear()


def test_each_group_gets_a_daemonset_that_fits_its_nodes(world: AgentWorld) -> None:
    world.node("a-1", "small")
    world.node("b-1", "big", cpu="20", memory="100Gi")
    world.node("b-2", "big", cpu="40", memory="200Gi")
    world.node("windows", "big", cpu="1", memory="1Gi", os="windows")
    world.autoscale()
    world.until_daemonsets("agent-small", "agent-big")
    small, big = world.daemonset("agent-small"), world.daemonset("agent-big")
    assert container(small)["resources"] == {
        "requests": {"cpu": "100m", "memory": "327Mi"},
        "limits": {"cpu": "200m", "memory": "819Mi"},
    }
    assert env(small) == {"GOMEMLIMIT": "655MiB"}
    assert container(big)["resources"]["limits"] == {"cpu": "1", "memory": "4Gi"}
    assert chosen(big) == [{"matchExpressions": [{"key": POOL, "operator": "In", "values": ["big"]}]}]
    world.until(lambda: len(world.pods()) == 3, "a pod on every Linux node")
    world.until_ready()
    assert world.group("big")["nodes"] == 2
    world.until(lambda: {reason for reason, _ in world.events()} == {"Created"}, "the Events")
    shown = world.control_plane.kubectl("get", "naa", "agent", "-n", world.namespace)
    assert shown.split()[:6] == ["NAME", "GROUPS", "NODES", "AGENTS", "READY", "REASON"]
    assert shown.split()[7:13] == ["agent", "2", "3", "0", "True", "Managing"]


def test_names_that_look_alike_stay_apart(world: AgentWorld) -> None:
    for number, value in enumerate(("m5.large", "m5_large", "M5.large", "m5-large", "")):
        world.node(f"n-{number}", value)
    world.node("n-plain")
    world.autoscale(defaultGroup="Enabled")
    hashes = ("-baa340", "-ad36e8", "-3e5611", "")
    names = [*(f"agent-m5-large{mark}" for mark in hashes), "agent-default-e3b0c4", "agent-default-6e340b"]
    world.until_daemonsets(*names)
    world.until(lambda: len(world.pods()) == 6, "one pod on each node")
    absent = [{"matchExpressions": [{"key": POOL, "operator": "DoesNotExist"}]}]
    assert chosen(world.daemonset("agent-default-6e340b")) == absent
    world.until_ready()
    before = {name: found["metadata"]["generation"] for name, found in world.daemonsets().items()}
    world.delete_node("n-0")
    world.until_says("m5.large", "Empty")
    assert {name: found["metadata"]["generation"] for name, found in world.daemonsets().items()} == before


def test_nodes_without_the_label_are_named_in_a_condition(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.node("plain")
    world.autoscale()
    world.until_ready("NodesWithoutGroup")
    message = next(item["message"] for item in world.status()["conditions"] if item["type"] == "Ready")
    assert "without an agent: plain;" in message
    world.change(nodeSelector={"matchExpressions": [{"key": POOL, "operator": "Exists"}]})
    world.until_ready()


def test_a_node_that_moves_to_another_group_has_one_agent(world: AgentWorld) -> None:
    world.node("a-1", "a")
    world.node("a-2", "a")
    world.autoscale()
    world.until(lambda: len(world.pods()) == 2, "the agents")
    world.schedule()
    world.label("a-2", {POOL: "b"})
    world.until_daemonsets("agent-a", "agent-b")
    world.until(lambda: world.agents_that_stay() == {"agent-a": ["a-1"], "agent-b": ["a-2"]}, "one agent on each node")
    world.until(lambda: world.group("a").get("nodes") == 1, "the smaller group")


def test_heartbeats_and_nodes_that_are_not_ready_cause_nothing(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.node("a-2", "pool")
    world.autoscale()
    world.until_ready()
    world.until(lambda: world.group("pool").get("reason") == "Running", "the DaemonSet to run")
    assert not world.written_at_rest()
    before = world.hooks.answered("node_agent"), world.hooks.answered("node_shape")
    for _ in range(10):
        for name in ("a-1", "a-2"):
            world.heartbeat(name, ready=False)
    if world.driver.name != "stand-in":  # which looks at everything in each round
        time.sleep(0.5)  # a request that should not come
        assert (world.hooks.answered("node_agent"), world.hooks.answered("node_shape")) == before
    world.label("a-1", {"seen": "now"})
    until_shaped(world.driver, world.admin)
    assert set(world.daemonsets()) == {"agent-pool"}
    assert world.group("pool")["nodes"] == 2


def test_an_empty_group_keeps_its_daemonset_for_the_grace_period(world: AgentWorld) -> None:
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.autoscale(emptyGroupGracePeriod="1h")
    world.until_daemonsets("agent-a", "agent-b")
    world.delete_node("b-1")
    world.until_says("b", "Empty")
    assert "autoscaling.node-agent.io/empty-since" in annotations_of(world.daemonset("agent-b"))
    world.node("b-2", "b")
    world.until_says("b", "Running")
    assert "autoscaling.node-agent.io/empty-since" not in annotations_of(world.daemonset("agent-b"))
    world.delete_node("b-2")
    world.until_says("b", "Empty")
    world.change(emptyGroupGracePeriod="1s")
    world.until_daemonsets("agent-a")
    world.until(lambda: "Deleted" in dict(world.events()), "the Event")
    world.delete_node("a-1")
    world.until_ready("NoNodes")
    assert set(world.daemonsets()) == {"agent-a"}


def test_a_daemonset_of_somebody_else_is_not_touched(world: AgentWorld) -> None:
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent-a", "namespace": world.namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "theirs"}},
            "template": {
                "metadata": {"labels": {"app": "theirs"}},
                "spec": {"nodeSelector": {"never": "here"}, "containers": [{"name": "x", "image": "example.com/x:1"}]},
            },
        },
    }
    stored = world.admin.create(theirs)
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.autoscale()
    world.until_daemonsets("agent-a", "agent-b")
    assert "is not ours" in world.until_says("a", "NameTaken")["message"]
    world.until_ready("GroupsFailing")
    world.until_says("b", "Running")
    now = world.daemonset("agent-a")
    assert (now["spec"], labels_of(now)) == (stored["spec"], {})
    assert "ownerReferences" not in now["metadata"]
    world.until(lambda: "Failed" in dict(world.events()), "the Event")
    world.admin.delete(*DAEMONSETS, "agent-a", namespace=world.namespace)
    world.until_says("a", "Running")


def test_the_size_follows_the_smallest_node_but_not_every_little_change(world: AgentWorld) -> None:
    world.node("a-1", "pool", memory="16Gi")
    world.autoscale()
    world.until_says("pool", "Running")
    generation = world.daemonset("agent-pool")["metadata"]["generation"]
    world.node("a-2", "pool", memory="16116152Ki")  # 4 % less
    world.until(lambda: world.group("pool").get("nodes") == 2, "the second node")
    assert world.daemonset("agent-pool")["metadata"]["generation"] == generation
    world.resize("a-2", memory="12Gi")
    world.until(lambda: env(world.daemonset("agent-pool"))["GOMEMLIMIT"] == "491MiB", "the smaller size")
    world.until(lambda: "Resized" in dict(world.events()), "the Event")


def test_another_size_waits_for_the_rollout_and_the_spec_does_not(world: AgentWorld) -> None:
    world.node("a-1", "pool", memory="16Gi")
    world.autoscale()
    world.until(lambda: len(world.pods()) == 1, "the agent")
    world.until_says("pool", "Running")
    [pod] = world.pods()
    pods = ("v1", "pods", name_of(pod))
    world.admin.patch(*pods, {"metadata": {"finalizers": ["example.com/busy"]}}, namespace=world.namespace)
    world.change(template=agent("example.com/agent:2"))
    world.until_image("agent-pool", "example.com/agent:2")
    world.resize("a-1", memory="12Gi")
    assert "0 of 1 agents are up to date" in world.until_says("pool", "ResizeDeferred")["message"]
    world.change(template=agent("example.com/agent:3"))
    world.until_image("agent-pool", "example.com/agent:3")
    assert env(world.daemonset("agent-pool"))["GOMEMLIMIT"] == "655MiB"
    world.admin.patch(*pods, {"metadata": {"finalizers": None}}, namespace=world.namespace)
    world.until(lambda: env(world.daemonset("agent-pool"))["GOMEMLIMIT"] == "491MiB", "the size that had to wait")


def agent(image: str) -> JsonObject:
    return {"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": image}]}}}}


def test_what_others_write_on_a_daemonset_stays(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.autoscale()
    world.until_says("pool", "Running")
    theirs = {"metadata": {"annotations": {"theirs": "stays"}}}
    restart = {"spec": {"template": {"metadata": {"annotations": {"restarted": "today"}}}}}
    world.admin.patch(*DAEMONSETS, "agent-pool", theirs | restart, namespace=world.namespace)
    world.change(template=agent("example.com/agent:2"))
    world.until_image("agent-pool", "example.com/agent:2")
    now = world.daemonset("agent-pool")
    assert annotations_of(now)["theirs"] == "stays"
    assert annotations_of(now["spec"]["template"]) == {"restarted": "today"}


def test_a_template_in_a_config_map_is_followed_and_a_broken_one_changes_nothing(world: AgentWorld) -> None:
    """With all that the API server fills in or writes in another way: at rest nothing is written."""
    text = TEMPLATE.read_text()
    world.node("a-1", "true")  # a value that YAML would take for something else
    world.autoscale(templateConfigMap={"name": "template"})
    world.until_ready("TemplateMissing")
    world.config_map("template", text)
    world.until_daemonsets("agent-true")
    world.until_ready()
    found = world.daemonset("agent-true")
    assert container(found)["resources"]["limits"] == {"cpu": "200m", "memory": "819Mi"}
    assert env(found)["GROUP"] == "true"
    assert not world.written_at_rest()
    world.config_map("template", text.replace("{{ .GoMemLimit }}", "{{ if .Big }}x{{ end }}"))
    world.until_ready("TemplateInvalid")
    assert world.condition("TemplateValid")[0] == "False"
    kept = world.daemonset("agent-true")
    assert kept["spec"] == found["spec"]
    world.config_map("template", text.replace("agent:1", "agent:2"))
    world.until_image("agent-true", "example.com/agent:2")
    world.until_ready()


def test_a_daemonset_that_the_api_server_refuses_is_reported(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.autoscale(template=agent(""))
    world.until(lambda: world.group("pool").get("reason") == "Failed", "the refusal to be noticed", seconds=120)
    world.until_ready("GroupsFailing")
    world.change(template=agent("example.com/agent:1"))
    world.until_says("pool", "Running")


def test_another_label_replaces_all_daemonsets_and_a_wrong_one_none(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.label("a-1", {"size": "big"})
    world.autoscale()
    world.until_says("pool", "Running")
    world.change(nodeGroupLabel="no-such-label")
    world.until_says("pool", "Superseded")
    assert set(world.daemonsets()) == {"agent-pool"}
    world.change(nodeGroupLabel="size")
    world.until_daemonsets("agent-big")
    world.until_ready()


def test_what_is_paused_stays_and_what_is_deleted_takes_its_daemonsets_along(world: AgentWorld) -> None:
    world.node("a-1", "pool")
    world.autoscale()
    world.until_says("pool", "Running")
    world.change(paused=True, template=agent("example.com/agent:2"))
    world.until_ready("Paused")
    assert container(world.daemonset("agent-pool"))["image"] == "example.com/agent:1"
    world.admin.delete(*AUTOSCALERS, "agent", namespace=world.namespace)
    world.until_daemonsets()


def test_daemonsets_of_the_original_are_taken_over_with_one_rollout(world: AgentWorld) -> None:
    """As the README says: the operator goes without them, they are handed over, and keep their names and selectors."""
    world.node("a-1", "m5.large")
    labels = {"kubescape.io/managed-by": "operator-autoscaler", "kubescape.io/node-group": "m5.large"}
    deployment = world.admin.create(deployment_of_the_operator(world.namespace))
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "operator", "uid": uid_of(deployment)}
    selector = {"app": "node-agent", "kubescape.io/node-group": "m5.large"}
    containers = [{"name": "agent", "image": "example.com/agent:0"}]
    world.admin.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {
                "name": "node-agent-m5-large",
                "namespace": world.namespace,
                "labels": labels,
                "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "selector": {"matchLabels": selector},
                "template": {"metadata": {"labels": selector}, "spec": {"containers": containers}},
            },
        }
    )
    world.until(lambda: len(world.pods()) == 1, "the agent of the original")
    kubectl = world.kubectl
    kubectl("scale", "deployment", "operator", "--replicas=0")
    kubectl("delete", "deployment", "operator", "--cascade=orphan")
    world.until(lambda: not owners(world), "the DaemonSet to be an orphan")
    world.autoscale("node-agent", paused=True)
    uid = kubectl("get", "naa", "node-agent", "-o", "jsonpath={.metadata.uid}")
    kubectl("label", "daemonset", "-l", "kubescape.io/managed-by=operator-autoscaler", f"controller-uid={uid}")
    world.until(lambda: [owner["uid"] for owner in owners(world)] == [uid], "the DaemonSet to be adopted")
    world.until_says("m5.large", "Paused", of="node-agent")
    assert world.daemonset("node-agent-m5-large")["metadata"]["generation"] == 1
    kubectl("patch", "naa", "node-agent", "--type=merge", "-p", '{"spec":{"paused":false}}')
    world.until_says("m5.large", "Running", of="node-agent")
    now = world.daemonset("node-agent-m5-large")
    assert set(world.daemonsets()) == {"node-agent-m5-large"}
    assert now["metadata"]["generation"] == 2
    assert now["spec"]["selector"] == {"matchLabels": selector}
    assert container(now)["image"] == "example.com/agent:1"
    assert container(now)["resources"]["limits"] == {"cpu": "200m", "memory": "819Mi"}


def owners(world: AgentWorld) -> Sequence[JsonObject]:
    found: Sequence[JsonObject] = world.daemonset("node-agent-m5-large")["metadata"].get("ownerReferences") or []
    return found


def deployment_of_the_operator(namespace: str) -> JsonObject:
    labels = {"app": "operator"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "example.com/operator:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
