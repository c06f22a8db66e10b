"""What the volume autoscaler lives in: claims, the kubelets that report how full they are, and a Prometheus.

The test plays the storage driver: it binds claims and finishes their resizes through the status subresource.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hooks.kube.metadata import annotations_of, name_of, namespace_of, uid_of
from hooks.kube.quantity import whole_bytes
from hooks.volumes.claims import HISTORY, REQUESTED_SIZE, Resize, read_history
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import Driver
from tests.e2e.hook_server import ROOT, HookServer
from tests.e2e.kube import KubeClient, NotFound, Object
from tests.e2e.kubelets import Backend
from tests.e2e.processes import eventually

API = "autoscaling.volume-autoscaler.io/v1alpha1"
CLAIMS = ("v1", "persistentvolumeclaims")
AUTOSCALERS = (API, "volumeautoscalers")
EXPANSIONS = (API, "volumeexpansions")
FAST, FIXED = "tests-fast", "tests-fixed"
"""StorageClasses: one whose claims can grow, and one whose claims cannot."""
POLICY = str(ROOT / "deploy" / "components" / "admission-policy" / "policy.yaml")
POLL_SECONDS = 10
"""The shortest poll that the CRD allows."""


class Status(dict[str, Any]):
    """One reading. A moment later there may be an older one: a sync that had not seen it may write over it."""

    def entry(self, claim: str = "data") -> Mapping[str, Any]:
        return next((entry for entry in self.get("pvcs", []) if entry["name"] == claim), {})

    def message(self, claim: str = "data") -> str:
        return str(self.entry(claim)["message"])

    def condition(self, kind: str = "Ready") -> Mapping[str, Any]:
        return next((found for found in self.get("conditions", []) if found["type"] == kind), {})


class World:
    """One namespace with claims and VolumeAutoscalers. Unless told otherwise they are `data` and `autoscaler`."""

    def __init__(
        self, control_plane: ControlPlane, driver: Driver, hooks: HookServer, backend: Backend, namespace: str
    ) -> None:
        self.control_plane, self.driver, self.hooks, self.backend = control_plane, driver, hooks, backend
        self.admin: KubeClient = control_plane.admin
        self.namespace = namespace
        self._nudges = 0
        self._nudged_at = time.monotonic()

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 60) -> None:
        self.driver.until(check, what, seconds=seconds)

    # Claims, and the storage driver

    def claim(
        self,
        name: str = "data",
        *,
        size: str = "10Gi",
        used: str | None = None,
        storage_class: str = FAST,
        annotations: Mapping[str, str] | None = None,
        inodes: tuple[int, int] = (0, 0),
    ) -> Object:
        """A bound claim; if it is said how much is used, a pod mounts it, and its kubelet reports."""
        bound = bound_claim(
            self.admin,
            name,
            namespace=self.namespace,
            size=size,
            storage_class=storage_class,
            annotations=annotations,
        )
        if used is not None:
            self.fill(used, claim=name, inodes=inodes)
        return bound

    def fill(self, used: str, *, claim: str = "data", node: str = "node-1", inodes: tuple[int, int] = (0, 0)) -> None:
        """So much of the file system is used, says the kubelet, and so many of how many inodes."""
        size, filled = whole_bytes(self.get_claim(claim)["status"]["capacity"]["storage"]), whole_bytes(used)
        sizes = {"capacity_bytes": size, "used_bytes": filled, "available_bytes": size - filled}
        stats = sizes | {"inodes_used": inodes[0], "inodes": inodes[1]}
        self.backend.kubelets.report(self.namespace, claim, node=node, **stats)

    def finish_resize(self, used: str, *, claim: str = "data") -> None:
        """The driver has made the volume, and kubelet the file system, as large as the claim requests."""
        self._set_status(claim, capacity={"storage": self.request(claim)})
        self.fill(used, claim=claim)

    def get_claim(self, name: str = "data") -> Object:
        return self.admin.get(*CLAIMS, name, namespace=self.namespace)

    def request(self, claim: str = "data") -> str:
        return str(self.get_claim(claim)["spec"]["resources"]["requests"]["storage"])

    def requests(self) -> Mapping[str, str]:
        found = self.admin.list(*CLAIMS, namespace=self.namespace)
        return {name_of(claim): claim["spec"]["resources"]["requests"]["storage"] for claim in found}

    def annotations(self, claim: str = "data") -> Mapping[str, str]:
        return annotations_of(self.get_claim(claim))

    def history(self, claim: str = "data") -> Sequence[Resize]:
        return read_history(self.annotations(claim).get(HISTORY, ""))

    def until_remembered(self, claim: str = "data") -> None:
        """Until the claim itself tells that it has grown."""
        self.until(lambda: [step for step in self.history(claim)[-1:] if step.shown], "the step to be remembered")

    def set_request(self, size: str, *, claim: str = "data") -> None:
        """A person does."""
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        self.admin.patch(*CLAIMS, claim, patch, namespace=self.namespace)

    def unmount(self, claim: str) -> None:
        """Its pod is gone, and no kubelet reports it any more."""
        self.backend.kubelets.forget(self.namespace, claim)

    def set_labels(self, claim: str, **labels: str | None) -> None:
        self.admin.patch(*CLAIMS, claim, {"metadata": {"labels": labels}}, namespace=self.namespace)

    def delete_claim(self, name: str = "data") -> None:
        self.admin.delete(*CLAIMS, name, namespace=self.namespace)
        eventually(lambda: self._is_gone(name), what="the claim to be gone")

    def until_requests(self, size: str, *, claim: str = "data", of: str | None = "autoscaler") -> None:
        """Lets the VolumeAutoscaler look again and again; without one, until its polls have come to it."""
        self.look_until(lambda: self.request(claim) == size, f"claim {claim} to request {size}", of)

    def _set_status(self, claim: str, **status: object) -> Object:
        return self.admin.patch(*CLAIMS, claim, {"status": status}, namespace=self.namespace, subresource="status")

    def _is_gone(self, claim: str) -> bool:
        try:
            self.get_claim(claim)
        except NotFound:
            return True
        return False

    # VolumeAutoscalers

    def autoscale(self, name: str = "autoscaler", *, claim: str = "data", **spec: object) -> Object:
        """A VolumeAutoscaler for one claim, once Prometheus knows what kubelets report."""
        self.until_scraped()
        given = {"target": {"pvcName": claim}, "maxSize": "100Gi", "pollInterval": "10s", "cooldownPeriod": "10m"}
        metadata = {"name": name, "namespace": self.namespace}
        wanted = {"apiVersion": API, "kind": "VolumeAutoscaler", "metadata": metadata, "spec": given | spec}
        return self.admin.create(wanted)

    def until_scraped(self) -> None:
        eventually(lambda: self.backend.has_scraped(self.namespace), what="Prometheus to scrape the kubelets")

    def change(self, name: str = "autoscaler", **spec: object) -> None:
        """And lets it look at once."""
        changed = self.admin.patch(*AUTOSCALERS, name, {"spec": spec}, namespace=self.namespace)
        self._until_polled(name, changed["metadata"]["generation"])

    def delete_autoscaler(self, name: str = "autoscaler") -> None:
        self.admin.delete(*AUTOSCALERS, name, namespace=self.namespace)

    def status(self, name: str = "autoscaler") -> Status:
        return Status(self.admin.get(*AUTOSCALERS, name, namespace=self.namespace).get("status") or {})

    def expansions(self) -> Mapping[str, Object]:
        """Their specs by the claim that they are about."""
        found = self.admin.list(*EXPANSIONS, namespace=self.namespace)
        return {item["spec"].get("claimName", ""): item["spec"] for item in found}

    def poll(self, name: str = "autoscaler") -> Status:
        """Lets it look once more, now. What Prometheus said may be five seconds old."""
        return self._until_polled(name, self.nudge(name))

    def poll_all(self) -> Mapping[str, Status]:
        return {name: status for (_, name), status in poll_all([self]).items()}

    def names(self) -> Sequence[str]:
        return [name_of(found) for found in self.admin.list(*AUTOSCALERS, namespace=self.namespace)]

    def until_says(self, reason: str, *, claim: str = "data", of: str = "autoscaler") -> Status:
        """Lets it look again and again until that is what it says of the claim."""

        def says(status: Status) -> bool:
            return bool(status.entry(claim).get("reason") == reason)

        return self.until_shows(says, f"{of} to say {reason} of {claim}", of=of)

    def until_shows(self, check: Callable[[Status], bool], what: str, *, of: str = "autoscaler") -> Status:
        """Lets it look again and again until its status is so."""
        found = Status()

        def shows() -> bool:
            nonlocal found
            found = self.status(of)
            return check(found)

        self.look_until(shows, what, of)
        return found

    def _until_polled(self, name: str, generation: int) -> Status:
        found = Status()

        def is_polled() -> bool:
            nonlocal found
            found = self.status(name)
            return bool(found.get("observedGeneration") == generation)

        self.until(is_polled, f"a poll of {name}")
        return found

    def look_until(self, check: Callable[[], bool], what: str, of: str | None = "autoscaler") -> None:
        """Lets it look every two seconds until the check holds."""

        def looks() -> bool:
            if of and time.monotonic() > self._nudged_at + 2:
                self.nudge(of)
            return check()

        self.until(looks, what)

    def nudge(self, name: str, seconds: int = POLL_SECONDS) -> int:
        """A changed spec opens the gate before the poll is due: this change makes no other difference."""
        self._nudges += 1
        self._nudged_at = time.monotonic()
        patch = {"spec": {"pollInterval": f"{1000 * seconds + self._nudges}ms"}}
        changed = self.admin.patch(*AUTOSCALERS, name, patch, namespace=self.namespace)
        return int(changed["metadata"]["generation"])

    # What people see

    def events(self, name: str = "data") -> Mapping[str, str]:
        """Our Events on a claim or a VolumeAutoscaler: reason and message; of several for a reason, one."""
        return {event["reason"]: event["message"] for event in self._events(name)}

    def messages(self, reason: str, *, on: str) -> Sequence[str]:
        return [event["message"] for event in self._events(on) if event["reason"] == reason]

    def _events(self, name: str) -> Sequence[Object]:
        found = self.admin.list("v1", "events", namespace=self.namespace)
        ours = [event for event in found if event["source"] == {"component": "volume-autoscaler"}]
        return [event for event in ours if event["involvedObject"]["name"] == name]

    def kubectl(self, *arguments: str) -> str:
        return self.control_plane.kubectl(*arguments, "--namespace", self.namespace)

    def clear(self) -> None:
        """Nothing is left that would be synced; Kubernetes deletes the namespace in its own time."""
        self.backend.kubelets.forget(self.namespace)
        for plural in (AUTOSCALERS, CLAIMS):
            for found in self.admin.list(*plural, namespace=self.namespace):
                self.admin.delete(*plural, name_of(found), namespace=self.namespace, uid=uid_of(found))


def poll_all(worlds: Sequence[World], *, seconds: int = POLL_SECONDS) -> Mapping[tuple[str, str], Status]:
    """Lets all VolumeAutoscalers look now, and then after so many seconds; their status by namespace and name."""
    nudged = [(world, name, world.nudge(name, seconds)) for world in worlds for name in world.names()]
    found: dict[tuple[str, str], Status] = {}

    def are_polled() -> bool:
        for world, name, generation in nudged:
            status = Status() if (world.namespace, name) in found else world.status(name)
            if status.get("observedGeneration") == generation:
                found[world.namespace, name] = status
        return len(found) == len(nudged)

    worlds[0].until(are_polled, "a poll of all")
    return found


# What the worlds stand on


def create_storage_classes(admin: KubeClient) -> None:
    for name, expandable in ((FAST, True), (FIXED, False)):
        found = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        admin.create(found | {"provisioner": "tests.metahooks/none", "allowVolumeExpansion": expandable})


def bound_claim(
    admin: KubeClient,
    name: str,
    *,
    namespace: str,
    size: str = "10Gi",
    storage_class: str = FAST,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    metadata = {"name": name, "namespace": namespace, "annotations": dict(annotations or {})}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "volumeName": f"pv-{namespace}-{name}",
        "resources": {"requests": {"storage": size}},
    }
    admin.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    status = {"phase": "Bound", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    return admin.patch(*CLAIMS, name, {"status": status}, namespace=namespace, subresource="status")


def policy_acts(admin: KubeClient, claim: Object) -> bool:
    """Whether the API server would raise the request of a bound claim; nothing is written."""
    answered = admin.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace_of(claim)}/persistentvolumeclaims/{name_of(claim)}",
        body={"metadata": {"annotations": {REQUESTED_SIZE: "1Ti"}}},
        parameters={"dryRun": "All"},
        headers={"Content-Type": "application/merge-patch+json"},
    )
    return bool(answered["spec"]["resources"]["requests"]["storage"] == "1Ti")


def await_policy(admin: KubeClient) -> None:
    """The API server takes a moment to act on a new policy."""
    probe = bound_claim(admin, "probe", namespace="default")
    eventually(lambda: policy_acts(admin, probe), what="the admission policy to act")
    admin.delete(*CLAIMS, "probe", namespace="default")
