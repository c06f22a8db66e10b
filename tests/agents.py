"""NodeShapes, NodeAgentAutoscalers and their requests for tests: valid by default, nodes of 4 CPU, 16Gi."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import msgspec

from hooks import node_agent, wire
from hooks.agents import daemonsets, shapes
from hooks.agents.groups import name_for
from hooks.controllers import Controller, read_controllers
from hooks.kube.cluster import Cluster, Kinds
from hooks.kube.merge import apply, go_json
from hooks.kube.metadata import JsonObject, annotations_of, compact_json, labels_of, name_of, object_key
from hooks.kube.times import format_time
from hooks.manifests import read_manifests
from hooks.rehearsal import HookFailed, Rehearsal, Round

NOW = datetime(2026, 11, 16, 3, 0, tzinfo=UTC)
API = shapes.API_VERSION
POOL = "example.com/pool"
NAMESPACE = "monitoring"
SHAPES, DAEMONSETS = f"NodeShape.{API}", "DaemonSet.apps/v1"
CONFIG_MAPS, EVENTS = "ConfigMap.v1", "Event.v1"
HALF = "100m CPU and 180Mi, at most 200m and 409Mi"
"""For a node of 4 CPU and 8Gi."""
SIZE = "100m CPU and 327Mi, at most 200m and 819Mi"
"""For a node of 4 CPU and 16Gi."""
TEXT: JsonObject = {"templateConfigMap": {"name": "template"}}
"""A spec whose template is a text."""
CONTROLLER: JsonObject = {
    "spec": {
        "childResources": [
            {"apiVersion": "apps/v1", "resource": "daemonsets"},
            {"apiVersion": "v1", "resource": "events"},
        ]
    }
}
TEMPLATE_TEXT = """\
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Name }}
  labels:
    app: agent
spec:
  template:
    metadata:
      labels:
        app: agent
        group: "{{ .NodeGroupLabel }}"
    spec:
      containers:
        - name: agent
          image: example.com/agent:1
          resources:
            requests:
              cpu: {{ .Resources.Requests.CPU }}
              memory: {{ .Resources.Requests.Memory }}
            limits:
              cpu: {{ .Resources.Limits.CPU }}
              memory: {{ .Resources.Limits.Memory }}
          env:
            - name: GOMEMLIMIT
              value: "{{ .GoMemLimit }}"
"""


def shape(
    *,
    name: str = "a",
    pool: str | None = "large",
    cpu: str = "4",
    memory: str = "16Gi",
    os: str = "linux",
    labels: Mapping[str, str] | None = None,
) -> JsonObject:
    """Empty quantities are left out; without a pool the node has no such label."""
    allocatable = {key: value for key, value in {"cpu": cpu, "memory": memory}.items() if value}
    grouped = {} if pool is None else {POOL: pool}
    return {
        "apiVersion": API,
        "kind": "NodeShape",
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"labels": grouped | dict(labels or {}), "allocatable": allocatable, "os": os},
    }


def template(*, image: str = "example.com/agent:1", container: JsonObject | None = None, **pod: Any) -> JsonObject:
    """The DaemonSet as people give it inline; fields of the pod by their names."""
    agent = {"name": "agent", "image": image} | (container or {})
    metadata = {"labels": {"app": "agent"}}
    return {"spec": {"template": {"metadata": metadata, "spec": {"containers": [agent], **pod}}}}


def autoscaler(
    *,
    name: str = "agent",
    namespace: str = NAMESPACE,
    uid: str = "uid-agent",
    generation: int = 1,
    status: JsonObject | None = None,
    **spec: Any,
) -> JsonObject:
    """Spec fields as they are written: `defaultGroup="Enabled"`; None leaves one out.

    A status gets the generation, as Metacontroller adds it.
    """
    source = {} if "templateConfigMap" in spec else {"template": template()}
    wanted = {"nodeGroupLabel": POOL, **source, **spec}
    return {
        "apiVersion": API,
        "kind": "NodeAgentAutoscaler",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": generation},
        "spec": {key: value for key, value in wanted.items() if value is not None},
    } | ({"status": {"observedGeneration": generation} | status} if status is not None else {})


def config_map(
    text: str = TEMPLATE_TEXT, *, name: str = "template", key: str = "daemonset-template.yaml"
) -> JsonObject:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}}


def daemonset(
    *,
    name: str = "agent-large",
    uid: str | None = None,
    labels: Mapping[str, str] | None = None,
    owner: JsonObject | None = None,
    selector: JsonObject | None = None,
    pod_labels: Mapping[str, str] | None = None,
    container: str = "agent",
) -> JsonObject:
    """One that somebody else made: without the annotation that Metacontroller leaves."""
    metadata: JsonObject = {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}" if uid is None else uid}
    metadata |= {"labels": dict(labels or {"app": "other"}), "generation": 1}
    pod = {"containers": [{"name": container, "image": "example.com/other:1"}]}
    spec = {
        "selector": selector or {"matchLabels": {"app": "other"}},
        "template": {"metadata": {"labels": dict(pod_labels or {"app": "other"})}, "spec": pod},
    }
    found: JsonObject = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": spec}
    if owner is not None:
        metadata["ownerReferences"] = [{"controller": True} | owner]
    return found


def adopted(*, group: str | None = "large", **parts: Any) -> JsonObject:
    """Somebody else's DaemonSet, handed over by its label controller-uid."""
    labels = {"app": "other", "controller-uid": "uid-agent"} | ({} if group is None else {daemonsets.NODE_GROUP: group})
    owner = {"apiVersion": API, "kind": "NodeAgentAutoscaler", "name": "agent", "uid": "uid-agent"}
    return daemonset(**{"labels": labels, "owner": owner} | parts)


def told(*, group: str | None = "large", reason: str = "Running", **more: Any) -> JsonObject:
    """A status of an earlier sync, about one group."""
    return {"nodeGroups": [{"value": group, "reason": reason} | more]}


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


# Requests and answers


def keyed(objects: Sequence[JsonObject]) -> JsonObject:
    return {object_key(obj): obj for obj in objects}


def agent_request(
    *,
    parent: JsonObject | None = None,
    nodes: Sequence[JsonObject] | None = None,
    own: Sequence[JsonObject] = (),
    others: Sequence[JsonObject] = (),
    config_maps: Sequence[JsonObject] = (),
    events: Sequence[JsonObject] = (),
    controller: JsonObject | None = None,
) -> JsonObject:
    """By default one node, and no DaemonSet yet."""
    return {
        "controller": CONTROLLER if controller is None else controller,
        "parent": parent or autoscaler(),
        "children": {DAEMONSETS: keyed(own), EVENTS: keyed(events)},
        "related": {
            SHAPES: keyed([shape()] if nodes is None else nodes),
            DAEMONSETS: keyed([*own, *others]),
            CONFIG_MAPS: keyed(config_maps),
        },
        "finalizing": False,
    }


def ask_body(body: JsonObject, *, now: datetime = NOW) -> wire.Outcome:
    return node_agent.sync(wire.parse(node_agent.SyncRequest, compact_json(body).encode()), now=now)


def ask_agent(*, now: datetime = NOW, **parts: Any) -> wire.Outcome:
    return ask_body(agent_request(**parts), now=now)


def emptied(own: Sequence[JsonObject], *, now: datetime = NOW, **spec: Any) -> wire.Outcome:
    """After the group large has lost its nodes, and the group small has not."""
    return ask_agent(own=own, nodes=[shape(name="b", pool="small")], parent=autoscaler(**spec), now=now)


def body_of(outcome: wire.Outcome) -> JsonObject:
    return outcome.response.body()


def status_of(outcome: wire.Outcome) -> JsonObject:
    status: JsonObject = body_of(outcome)["status"]
    return status


def entry_of(outcome: wire.Outcome, group: str | None = "large") -> JsonObject:
    return next(entry for entry in status_of(outcome)["nodeGroups"] if entry.get("value") == group)


def said_of(outcome: wire.Outcome, group: str | None = "large") -> tuple[str, str]:
    entry = entry_of(outcome, group)
    return entry["reason"], entry["message"]


def condition_of(outcome: wire.Outcome, type_: str = "Ready") -> tuple[str, str, str]:
    found = next(item for item in status_of(outcome)["conditions"] if item["type"] == type_)
    return found["status"], found["reason"], found["message"]


def children_of(outcome: wire.Outcome, kind: str = "DaemonSet") -> dict[str, JsonObject]:
    """By name."""
    return {name_of(child): child for child in body_of(outcome)["children"] if child["kind"] == kind}


def child_of(outcome: wire.Outcome, group: str | None = "large", *, of: str = "agent") -> JsonObject:
    return children_of(outcome)[name_for(of, group)]


def news_of(outcome: wire.Outcome) -> list[tuple[str, str, str]]:
    """Type, reason and message of the Events."""
    return [(item["type"], item["reason"], item["message"]) for item in children_of(outcome, "Event").values()]


def counted(outcome: wire.Outcome) -> dict[str, int]:
    return {item.metric.removeprefix("node_agent_autoscaler_"): item.value for item in outcome.measurements}


def container_of(child: JsonObject) -> JsonObject:
    found: JsonObject = child["spec"]["template"]["spec"]["containers"][0]
    return found


def env_of(child: JsonObject) -> dict[str, str]:
    return {item["name"]: item.get("value", "") for item in container_of(child).get("env", [])}


def terms_of(child: JsonObject) -> list[JsonObject]:
    """The terms by which it chooses its nodes."""
    affinity = child["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms: list[JsonObject] = affinity[daemonsets.REQUIRED_AFFINITY]["nodeSelectorTerms"]
    return terms


# What becomes of an answer


def applied(outcome: wire.Outcome, own: Sequence[JsonObject] = (), *, nodes: int = 1) -> list[JsonObject]:
    """The DaemonSets after Metacontroller has carried out the answer, and their rollouts are finished."""
    before = {name_of(child): child for child in own}
    return [
        finished(_applied(before.get(name), wanted), nodes=nodes)
        for name, wanted in sorted(children_of(outcome).items())
    ]


def _applied(before: JsonObject | None, wanted: JsonObject) -> JsonObject:
    if before is not None:
        after = apply(before, wanted)
        after["metadata"]["generation"] += after["spec"] != before["spec"]
        return after
    new = deepcopy(wanted)
    new["metadata"]["annotations"][wire.LAST_APPLIED] = go_json(wanted)
    owner = {"apiVersion": API, "kind": "NodeAgentAutoscaler", "name": "agent", "uid": "uid-agent", "controller": True}
    new["metadata"] |= {
        "uid": f"uid-{name_of(new)}",
        "generation": 1,
        "creationTimestamp": "2026-11-16T03:00:00Z",
        "ownerReferences": [owner],
    }
    return new


def finished(child: JsonObject, *, nodes: int = 1) -> JsonObject:
    """Every pod is of the latest revision, and ready."""
    return child | {
        "status": {
            "observedGeneration": child["metadata"]["generation"],
            "desiredNumberScheduled": nodes,
            "updatedNumberScheduled": nodes,
            "numberReady": nodes,
        }
    }


def unfinished(child: JsonObject, *, updated: int = 1, nodes: int = 3) -> JsonObject:
    done = finished(child, nodes=nodes)
    return done | {"status": done["status"] | {"updatedNumberScheduled": updated, "numberReady": updated}}


def running(
    *, nodes: Sequence[JsonObject] | None = None, parent: JsonObject | None = None, **parts: Any
) -> list[JsonObject]:
    """The DaemonSets of an autoscaler that is at rest."""
    return applied(ask_agent(parent=parent, nodes=nodes, **parts))


def with_label(child: JsonObject, key: str, value: str | None) -> JsonObject:
    labels = {name: text for name, text in labels_of(child).items() if name != key}
    more = {} if value is None else {key: value}
    return child | {"metadata": child["metadata"] | {"labels": labels | more}}


def with_annotation(child: JsonObject, key: str, value: str) -> JsonObject:
    return child | {"metadata": child["metadata"] | {"annotations": annotations_of(child) | {key: value}}}


@cache
def _shipped() -> tuple[Kinds, Sequence[Controller]]:
    kinds = Kinds.of(read_manifests("deploy/crds"))
    (manifest,) = (found for found in read_manifests("metacontroller") if name_of(found) == "node-agent")
    manifest["spec"]["childResources"].append({"apiVersion": "v1", "resource": "events"})
    return kinds, read_controllers([manifest], kinds)


class AgentCluster:
    """A cluster in memory in which the hook acts through the manifest that we ship, with Events."""

    def __init__(self, *objects: JsonObject, now: datetime = NOW) -> None:
        kinds, controllers = _shipped()
        self.now = now
        self.cluster = Cluster(kinds, objects)
        self.rehearsal = Rehearsal(controllers, kinds, self._call)

    def _call(self, path: str, body: JsonObject) -> JsonObject:
        data = compact_json(body).encode()
        try:
            if path == "/node-agent/customize":
                outcome = node_agent.customize(wire.parse(wire.CustomizeRequest, data))
            else:
                outcome = node_agent.sync(wire.parse(node_agent.SyncRequest, data), now=self.now)
        except (wire.RetryLater, wire.InvalidRequest) as error:
            raise HookFailed(str(error)) from error
        answer: JsonObject = msgspec.json.decode(wire.encode(outcome.response))
        return answer

    def round(self) -> Round:
        return self.rehearsal.round(self.cluster.snapshot(), self.cluster)

    def settle(self) -> None:
        """Until nothing is written any more; at most ten rounds."""
        for _ in range(10):
            done = self.round()
            assert not done.errors, done.errors
            if not done.writes:
                return
            self.roll_out()
        raise AssertionError("it does not come to rest")

    def roll_out(self) -> None:
        """Every rollout finishes."""
        for child in self.daemonsets().values():
            self.cluster.update_status(finished(child))

    def daemonsets(self) -> dict[str, JsonObject]:
        return {name_of(child): child for child in self._all("DaemonSet")}

    def events(self) -> list[JsonObject]:
        return self._all("Event")

    def parent(self) -> JsonObject:
        return self._all("NodeAgentAutoscaler")[0]

    def _all(self, kind: str) -> list[JsonObject]:
        return [obj for obj in self.cluster.snapshot().all().values() if obj["kind"] == kind]


def resized() -> list[JsonObject]:
    """Requests after which every metric of the hook has a sample: a size that has arrived, and a broken template.

    They are small, as the tests of the app have a low limit: of the DaemonSet only what is known by its annotation.
    """
    (child,) = running()
    told = {"nodeGroups": [{"value": "large", "reason": "Resized"}]}
    arrived = agent_request(parent=autoscaler(status=told), own=[child | {"spec": {}}], controller={})
    arrived["related"][DAEMONSETS] = {}
    broken = autoscaler(name="broken", uid="uid-broken", template={"spec": {}})
    return [arrived, agent_request(parent=broken, controller={})]
