"""A cluster for node agents: Nodes that a test speaks for, NodeAgentAutoscalers, and the DaemonSets made of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from hooks.kube.metadata import JsonObject, is_deleting, labels_of, name_of, owner_of, uid_of
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import Driver
from tests.e2e.hook_server import HookServer
from tests.e2e.kube import KubeClient, NotFound
from tests.e2e.processes import eventually

API = "autoscaling.node-agent.io/v1alpha1"
AUTOSCALERS, SHAPES = (API, "nodeagentautoscalers"), (API, "nodeshapes")
NODES, DAEMONSETS, CONFIG_MAPS = ("v1", "nodes"), ("apps/v1", "daemonsets"), ("v1", "configmaps")
POOL = "example.com/pool"
UNDER_WAY = {"Created", "Updated", "Resized", "ResizeDeferred", "Adopted"}
AGENT: JsonObject = {
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "agent", "image": "example.com/agent:1"}]},
        }
    }
}


class AgentWorld:
    """One namespace, and all Nodes of the cluster: no other test runs beside."""

    def __init__(self, control_plane: ControlPlane, driver: Driver, hooks: HookServer, namespace: str) -> None:
        self.control_plane, self.driver, self.hooks, self.namespace = control_plane, driver, hooks, namespace
        self.admin = control_plane.admin

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 30) -> None:
        self.driver.until(check, what, seconds=seconds)

    # Nodes

    def node(
        self, name: str, pool: str | None = None, *, cpu: str = "4", memory: str = "16Gi", os: str = "linux"
    ) -> None:
        labels = {"kubernetes.io/os": os} | ({} if pool is None else {POOL: pool})
        self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        self.admin.patch(*NODES, name, {"spec": {"taints": None}})  # as when it becomes ready
        self.resize(name, cpu=cpu, memory=memory)

    def report(self, node: str, **status: object) -> None:
        """What its kubelet would: a heartbeat, or a change of what can be allocated."""
        self.admin.patch(*NODES, node, {"status": status}, subresource="status")

    def heartbeat(self, node: str, *, ready: bool = True) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastHeartbeatTime": now}
        self.report(node, conditions=[condition | {"reason": "Test", "message": str(time.monotonic_ns())}])

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        self.admin.patch(*NODES, node, {"metadata": {"labels": dict(labels)}})

    def resize(self, node: str, *, memory: str, cpu: str = "4") -> None:
        """And a changed label, so that it is noticed now and not within five minutes."""
        self.report(node, allocatable={"cpu": cpu, "memory": memory})
        self.label(node, {"reported": str(time.monotonic_ns())})

    def delete_node(self, name: str) -> None:
        self.admin.delete(*NODES, name)

    # NodeAgentAutoscalers

    def autoscale(self, name: str = "agent", **spec: object) -> JsonObject:
        source = {} if "templateConfigMap" in spec else {"template": AGENT}
        given = {"nodeGroupLabel": POOL, **source, **spec}
        wanted = {"apiVersion": API, "kind": "NodeAgentAutoscaler", "spec": given}
        return self.admin.create(wanted | {"metadata": {"name": name, "namespace": self.namespace}})

    def change(self, name: str = "agent", **spec: object) -> None:
        self.admin.patch(*AUTOSCALERS, name, {"spec": spec}, namespace=self.namespace)

    def status(self, name: str = "agent") -> JsonObject:
        found: JsonObject = self.admin.get(*AUTOSCALERS, name, namespace=self.namespace).get("status") or {}
        return found

    def group(self, value: str | None, *, of: str = "agent") -> JsonObject:
        entries = self.status(of).get("nodeGroups") or []
        return next((entry for entry in entries if entry.get("value") == value), {})

    def condition(self, kind: str = "Ready", *, of: str = "agent") -> tuple[str, str]:
        found = [item for item in self.status(of).get("conditions") or [] if item["type"] == kind]
        return (found[0]["status"], found[0]["reason"]) if found else ("", "")

    def until_says(self, value: str | None, reason: str, *, of: str = "agent") -> JsonObject:
        self.until(lambda: self.group(value, of=of).get("reason") == reason, f"{of} to say {reason} of {value}")
        return self.group(value, of=of)

    def until_ready(self, reason: str = "Managing", *, of: str = "agent") -> None:
        self.until(lambda: self.condition(of=of)[1] == reason, f"{of} to be {reason}")

    def events(self, name: str = "agent") -> Sequence[tuple[str, str]]:
        """Ours: reasons and messages."""
        found = self.admin.list("v1", "events", namespace=self.namespace)
        return sorted(
            (event["reason"], event["message"])
            for event in found
            if event["involvedObject"]["name"] == name and event["source"] == {"component": "node-agent-autoscaler"}
        )

    # DaemonSets

    def daemonsets(self) -> Mapping[str, JsonObject]:
        return {name_of(found): found for found in self.admin.list(*DAEMONSETS, namespace=self.namespace)}

    def daemonset(self, name: str) -> JsonObject:
        return self.admin.get(*DAEMONSETS, name, namespace=self.namespace)

    def until_daemonsets(self, *names: str) -> None:
        self.until(lambda: set(self.daemonsets()) == set(names), f"the DaemonSets {', '.join(names)}", seconds=90)

    def until_image(self, daemonset: str, image: str) -> None:
        self.until(lambda: container(self.daemonset(daemonset))["image"] == image, f"{daemonset} to run {image}")

    def kubectl(self, *arguments: str) -> str:
        return self.control_plane.kubectl(*arguments, "--namespace", self.namespace)

    def pods(self) -> Sequence[JsonObject]:
        return self.admin.list("v1", "pods", namespace=self.namespace)

    def schedule(self) -> None:
        """There is no scheduler: each pod goes to the node that the DaemonSet controller made it for."""
        for pod in self.pods():
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}/binding"
            target = {"apiVersion": "v1", "kind": "Node", "name": meant_for(pod)}
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name_of(pod)}, "target": target}
            self.admin.request("POST", path, body=binding)

    def agents_that_stay(self) -> Mapping[str, Sequence[str]]:
        """By DaemonSet the nodes of its pods. Without kubelets those that were scheduled never go, but are told to."""
        found: dict[str, list[str]] = {}
        for pod in self.pods():
            if not is_deleting(pod):
                owner = pod["metadata"]["ownerReferences"][0]["name"]
                found.setdefault(owner, []).append(meant_for(pod))
        return found

    def config_map(self, name: str, text: str) -> None:
        metadata = {"name": name, "namespace": self.namespace}
        data = {"daemonset-template.yaml": text}
        try:
            self.admin.patch(*CONFIG_MAPS, name, {"data": data}, namespace=self.namespace)
        except NotFound:
            self.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    # The end

    def syncs(self) -> int:
        """How many NodeAgentAutoscalers were asked about afresh: each needs a customize and a sync request."""
        return self.hooks.answered("node_agent") // 2

    def written_at_rest(self) -> Sequence[object]:
        until_shaped(self.driver, self.admin)
        self.until(self.is_reported, "the status to show what became of the DaemonSets")
        return self.driver.run_twice_more(len(self.admin.list(*AUTOSCALERS)), self.syncs)

    def is_reported(self) -> bool:
        """Whether the DaemonSet controller has done its part, and the NodeAgentAutoscalers tell of it."""
        found = [daemonset for daemonset in self.daemonsets().values() if owner_of(daemonset)]
        done = [item for item in found if item["metadata"]["generation"] == item["status"].get("observedGeneration")]
        reported = [item.get("status", {}) for item in self.admin.list(*AUTOSCALERS, namespace=self.namespace)]
        wanted = sum(item["status"]["desiredNumberScheduled"] for item in done)
        reasons = {group["reason"] for status in reported for group in status.get("nodeGroups", [])}
        is_told = not reported or wanted == sum(status.get("agents", -1) for status in reported)
        return done == found and is_told and not reasons & UNDER_WAY

    def clear(self) -> None:
        """Nothing is left that would be synced; Kubernetes deletes the namespace in its own time."""
        for kind in (AUTOSCALERS, DAEMONSETS):
            for found in self.admin.list(*kind, namespace=self.namespace):
                with suppress(NotFound):  # or with its owner
                    self.admin.delete(*kind, name_of(found), namespace=self.namespace, uid=uid_of(found))
        for pod in self.pods():
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name_of(pod)}"
            with suppress(NotFound):
                self.admin.request("DELETE", path, body={"gracePeriodSeconds": 0})
        for node in self.admin.list(*NODES):
            self.admin.delete(*NODES, name_of(node))
        eventually(lambda: not self.admin.list(*SHAPES), what="the NodeShapes to be collected", seconds=120)


def until_shaped(driver: Driver, admin: KubeClient) -> None:
    """Until every Node has its NodeShape as it should be, and no other is left."""

    def are_same() -> bool:
        nodes = {name_of(node): labels_of(node) for node in admin.list(*NODES)}
        return nodes == {name_of(shape): shape["spec"].get("labels", {}) for shape in admin.list(*SHAPES)}

    driver.until(are_same, "the NodeShapes", seconds=90)


def meant_for(pod: JsonObject) -> str:
    """The node that the DaemonSet controller wrote into the pod's affinity."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(affinity["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def container(daemonset: JsonObject) -> JsonObject:
    found: JsonObject = daemonset["spec"]["template"]["spec"]["containers"][0]
    return found


def env(daemonset: JsonObject) -> Mapping[str, str]:
    return {item["name"]: item.get("value", "") for item in container(daemonset).get("env", [])}


def chosen(daemonset: JsonObject) -> Sequence[JsonObject]:
    """The terms by which it chooses its nodes."""
    affinity = daemonset["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms: Sequence[JsonObject] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return terms
