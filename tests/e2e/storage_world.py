"""A cluster with replicated storage: Nodes, classes, pools and data that a test speaks for."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from hooks.kube.metadata import JsonObject, labels_of, name_of
from hooks.storage.classes import API_VERSION, CLASS, CLASSES, LABEL, POOL, POOLS, ZONE
from hooks.storage.data import KIND, NODE_LABEL, RESOURCE, label_for
from hooks.storage_nodes import REMOVAL_DELAY
from tests.e2e.agent_world import NODES, until_shaped
from tests.e2e.conftest import HERE, apply_controllers
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import Driver
from tests.e2e.hook_server import HookServer
from tests.e2e.processes import eventually

OVERLAY = "deploy/overlays/storage-nodes"
COMPONENTS = ("storage-nodes", "storage-data-guard")
CONTROLLERS = ("storage-nodes", "storage-data")
OLDER, NEWER = str(HERE / "storage-crds-older.yaml"), str(HERE / "storage-crds-newer.yaml")
PLURALS = (CLASSES, POOLS, RESOURCE)
CRDS = [f"{plural}.storage.deckhouse.io" for plural in PLURALS]
OLDER_CONFIGURATION: JsonObject = {
    "topology": "Ignored",
    "replication": "ConsistencyAndAvailability",
    "volumeAccess": "PreferablyLocal",
    "systemNetworkNames": ["Internal"],
    "eligibleNodesPolicy": {"notReadyGracePeriod": "10m"},
}
NEWER_CONFIGURATION: JsonObject = {
    "topology": "Ignored",
    "volumeAccess": "PreferablyLocal",
    "failuresToTolerate": 1,
    "guaranteedMinimumDataRedundancy": 1,
}


class StorageWorld:
    """All Nodes, classes, pools and data of the cluster: no other test runs beside."""

    def __init__(self, control_plane: ControlPlane, driver: Driver, hooks: HookServer) -> None:
        self.control_plane, self.driver, self.hooks = control_plane, driver, hooks
        self.admin, self.kubectl = control_plane.admin, control_plane.kubectl
        self._periods = 0

    # Nodes

    def node(self, name: str, zone: str | None = None, labels: Mapping[str, str] | None = None) -> None:
        given = {**(labels or {}), **({} if zone is None else {ZONE: zone})}
        self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": given}})

    def set_labels(self, node: str, labels: Mapping[str, str | None]) -> None:
        self.admin.patch(*NODES, node, {"metadata": {"labels": dict(labels)}})

    def labels(self, node: str) -> Mapping[str, str]:
        return labels_of(self.admin.get(*NODES, node))

    def labelled(self) -> Mapping[str, str]:
        """The Nodes that have the label, and its value."""
        found = {name_of(node): labels_of(node) for node in self.admin.list(*NODES)}
        return {name: labels[LABEL] for name, labels in sorted(found.items()) if LABEL in labels}

    def until_labelled(self, *names: str, seconds: float = 30) -> None:
        wanted = dict.fromkeys(sorted(names), "")
        self.until(lambda: self.labelled() == wanted, f"the label on {names} and nowhere else", seconds=seconds)

    # What they are chosen by

    def storage_class(self, name: str, **configuration: object) -> None:
        """A class of the older schema, with these fields in the configuration of its status."""
        status = {"configuration": OLDER_CONFIGURATION | configuration}
        self.admin.create(storage_object(CLASS, name) | {"spec": {}, "status": status})

    def reconfigure(self, name: str, **configuration: object) -> None:
        self.admin.patch(API_VERSION, CLASSES, name, {"status": {"configuration": configuration}})

    def class_with_pool(self, name: str, pool: str | None) -> None:
        """A class of the newer schema."""
        self.admin.create(storage_object(CLASS, name) | {"spec": {}})
        named = {} if pool is None else {"replicatedStoragePoolName": pool}
        self._report(CLASSES, name, {"configuration": NEWER_CONFIGURATION | named})

    def pool(self, name: str, *nodes: str) -> None:
        self.admin.create(storage_object(POOL, name) | {"spec": {"type": "LVM"}})
        self.set_eligible(name, *nodes)

    def set_eligible(self, pool: str, *nodes: str) -> None:
        self._report(POOLS, pool, {"eligibleNodes": [{"nodeName": node} for node in nodes]})

    def data(self, name: str, node: str) -> None:
        self.admin.create(storage_object(KIND, name) | {"spec": {"nodeName": node}})

    def until_data_is_marked(self, *, seconds: float = 30) -> None:
        self.until(self._is_data_marked, "the DRBDResources to name their nodes", seconds=seconds)

    def delete(self, plural: str, name: str) -> None:
        self.admin.delete(API_VERSION, plural, name)

    # The loop

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 30) -> None:
        self.driver.until(check, what, seconds=seconds)

    @contextmanager
    def decides(self, reason: str) -> Iterator[None]:
        """What is done inside leads to such a decision."""
        before = self.decided(reason)
        yield
        self.until(lambda: self.decided(reason) > before, f"the decision {reason}")

    def decided(self, reason: str) -> int:
        return self.hooks.decided("storage_nodes", reason)

    def asked(self) -> int:
        """How many Nodes were asked about: each needs a customize and a sync request."""
        return self.hooks.answered("storage_nodes") // 2

    def written_at_rest(self) -> object:
        self.until_data_is_marked()
        until_shaped(self.driver, self.admin)
        return self.driver.run_twice_more(len(self.admin.list(*NODES)), self.asked)

    def clear(self) -> None:
        for found in self.admin.list(*NODES):
            self.admin.delete(*NODES, name_of(found))
        for plural in PLURALS:
            for found in self.admin.list(API_VERSION, plural):
                self.delete(plural, name_of(found))

    # The installation

    def install(self, folder: str = OVERLAY) -> None:
        install(self.control_plane, self.hooks, folder)
        self.driver.restart()  # Metacontroller reads the annotations of a controller when it starts

    def set_delay(self, delay: str) -> None:
        """How long a label stays that nothing speaks for. The changed period makes Metacontroller read it."""
        self._periods += 1
        patch = {
            "metadata": {"annotations": {REMOVAL_DELAY: delay}},
            "spec": {"resyncPeriodSeconds": 590 - self._periods},
        }
        self.kubectl("patch", "decoratorcontroller", "storage-nodes", "--type=merge", "-p", json.dumps(patch))

    def uninstall(self) -> None:
        self.kubectl("delete", "decoratorcontroller", *CONTROLLERS, "--ignore-not-found")

    def _report(self, plural: str, name: str, status: JsonObject) -> None:
        """Again until all of it is stored: right after a change of the schema the older one may still count."""
        patch = partial(self.admin.patch, API_VERSION, plural, name, {"status": status}, subresource="status")
        eventually(lambda: patch().get("status", {}).items() >= status.items(), what=f"the status of {name}")

    def _is_data_marked(self) -> bool:
        found = self.admin.list(API_VERSION, RESOURCE)
        return all(labels_of(item).get(NODE_LABEL) == label_for(item["spec"]["nodeName"]) for item in found)


def storage_object(kind: str, name: str) -> JsonObject:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}}


def install(control_plane: ControlPlane, hooks: HookServer, folder: str = OVERLAY) -> None:
    """With labels that go at once."""
    apply_controllers(control_plane, hooks, folder)
    control_plane.kubectl("annotate", "decoratorcontroller", "storage-nodes", f"{REMOVAL_DELAY}=0s", "--overwrite")


def define(control_plane: ControlPlane, crds: str) -> None:
    """Replaces the definitions, and waits until the API server serves them so."""
    control_plane.kubectl("apply", "--validate=strict", "-f", crds)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", *CRDS)
    eventually(partial(_is_served, control_plane, has_status=crds == NEWER), what="the kinds to be served")


def _is_served(control_plane: ControlPlane, *, has_status: bool) -> bool:
    """Discovery knows the kinds, and a class is stored with its status, or without where that is a subresource."""
    admin = control_plane.admin
    found = {entry["name"] for entry in admin.request("GET", f"/apis/{API_VERSION}")["resources"]}
    if not found.issuperset(PLURALS):
        return False
    probe = storage_object(CLASS, "probe") | {"spec": {}, "status": {"configuration": OLDER_CONFIGURATION}}
    path, dry_run = f"/apis/{API_VERSION}/{CLASSES}", {"dryRun": "All"}
    return ("status" in admin.request("POST", path, body=probe, parameters=dry_run)) is not has_status
