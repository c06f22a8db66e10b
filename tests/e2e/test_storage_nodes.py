"""The storage nodes on a real API server: classes and pools come and go, data stays or leaves, kinds are missing."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hooks.kube.metadata import JsonObject, annotations_of
from hooks.storage.classes import API_VERSION, CLASS, CLASSES, LABEL, POOLS, ZONE
from hooks.storage.data import RESOURCE
from hooks.storage_nodes import REMOVABLE_SINCE, REMOVAL, REMOVALS
from tests.e2e.agent_world import NODES, until_shaped
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import USER, Driver, StandIn
from tests.e2e.hook_server import ROOT, HookServer
from tests.e2e.storage_world import COMPONENTS, CONTROLLERS, NEWER, OLDER, StorageWorld, define, install, storage_object

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module", autouse=True)
def storage(installed: ControlPlane, hooks: HookServer) -> Iterator[None]:
    """The older kinds and the overlay, before Metacontroller starts; in the end the default installation is left."""
    define(installed, OLDER)
    install(installed, hooks)
    yield
    installed.kubectl("delete", "decoratorcontroller", *CONTROLLERS, "--ignore-not-found")
    for component in COMPONENTS:
        installed.kubectl("delete", "-f", f"deploy/components/{component}/rbac.yaml")
    installed.kubectl("delete", "-f", OLDER)


@pytest.fixture
def world(installed: ControlPlane, driver: Driver, hooks: HookServer) -> Iterator[StorageWorld]:
    """A cluster without Nodes and classes, and the check that all is at rest when the test is done."""
    world = StorageWorld(installed, driver, hooks)
    world.clear()
    yield world
    try:
        assert not world.written_at_rest()
    finally:
        world.clear()


@pytest.fixture
def otherwise_installed(world: StorageWorld) -> Iterator[None]:
    """The test changes the installation: at rest is what it made of it, and then all is as before."""
    yield
    try:
        assert not world.written_at_rest()
    finally:
        world.clear()
        world.install()


@pytest.fixture
def newer(world: StorageWorld) -> Iterator[None]:
    """The kinds of the newer schema, as long as the test runs."""
    define(world.control_plane, NEWER)
    yield
    try:
        assert not world.written_at_rest()
    finally:
        world.clear()
        define(world.control_plane, OLDER)


# Classes of the older schema


def test_labels_the_nodes_that_a_new_class_means(world: StorageWorld) -> None:
    world.node("a-1", "a")
    world.node("a-2", "a", {"disk": "slow"})
    world.node("b-1", "b")
    world.node("nowhere")
    world.storage_class("fast", zones=["a"], nodeLabelSelector={"matchExpressions": [_not_in("disk", "slow")]})
    world.until_labelled("a-1")
    world.node("a-3", "a")
    world.until_labelled("a-1", "a-3")


def _not_in(key: str, *values: str) -> JsonObject:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def test_follows_the_zones_in_the_status_of_a_class(world: StorageWorld) -> None:
    """The original looks at the zones of the spec only."""
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1")
    world.reconfigure("fast", zones=["a", "b"])
    world.until_labelled("a-1", "b-1")
    world.reconfigure("fast", zones=["b"])
    world.until_labelled("b-1")


def test_follows_the_zone_of_a_node(world: StorageWorld) -> None:
    """The original looks at its own label only."""
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1")
    world.set_labels("b-1", {ZONE: "a"})
    world.until_labelled("a-1", "b-1")
    world.set_labels("a-1", {ZONE: None})
    world.until_labelled("b-1")


def test_brings_back_a_label_that_was_removed_by_hand(world: StorageWorld) -> None:
    world.node("a-1", "a")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1")
    world.set_labels("a-1", {LABEL: None})
    world.until_labelled("a-1")


def test_corrects_the_value_of_the_original(world: StorageWorld) -> None:
    """The original wrote the name of the node, and agents do not run where the value is not empty."""
    world.node("a-1", "a", {LABEL: "a-1"})
    world.node("b-1", "b", {LABEL: "b-1"})
    world.data("pvc-1", "b-1")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1", "b-1")


def test_a_class_without_a_configuration_freezes_removals_and_adds_nothing(world: StorageWorld) -> None:
    world.admin.create(storage_object(CLASS, "new") | {"spec": {}, "status": {"configuration": None}})
    world.storage_class("fast", zones=["a"])
    with world.decides("RemovalFrozen"), world.decides("Unresolved"):
        world.node("a-1", "a")
        world.node("b-1", "b", {LABEL: ""})
        world.node("c-1", "c")
    world.until_labelled("a-1", "b-1")
    world.delete(CLASSES, "new")
    world.until_labelled("a-1")


# Removals


def test_a_deleted_class_takes_the_label_along_where_no_data_is(world: StorageWorld) -> None:
    for name in ("a-1", "b-1", "b-2"):
        world.node(name, name[0])
    world.storage_class("in-a", zones=["a"])
    world.storage_class("in-b", zones=["b"])
    world.data("pvc-1", "b-2")
    world.until_labelled("a-1", "b-1", "b-2")
    world.until_data_is_marked()
    with world.decides("HoldsData"):
        world.delete(CLASSES, "in-b")
    world.until_labelled("a-1", "b-2")
    world.delete(RESOURCE, "pvc-1")
    world.until_labelled("a-1")


def test_data_labels_a_node_that_no_class_means(world: StorageWorld) -> None:
    """Also by a name that is too long to be the value of a label."""
    long = "b-" + "x" * 70
    world.node("b-1", "b")
    world.node(long, "b")
    world.storage_class("fast", zones=["a"])
    world.data("pvc-1", "b-1")
    world.until_labelled("b-1")
    world.data("pvc-2", long)
    world.until_labelled("b-1", long)
    world.delete(RESOURCE, "pvc-2")
    world.until_labelled("b-1")


@pytest.mark.usefixtures("otherwise_installed")
def test_a_label_stays_for_a_while_after_nothing_speaks_for_it_any_more(world: StorageWorld) -> None:
    """Metacontroller notices the setting without a restart, because the spec of the controller changes too."""
    world.node("a-1", "a", {LABEL: ""})
    world.node("b-1", "b", {LABEL: ""})
    world.set_delay("1h")
    with world.decides("RemovalPending"):
        world.storage_class("fast", zones=["a"])
    since = annotations_of(world.admin.get(*NODES, "b-1")).get(REMOVABLE_SINCE)
    assert since
    assert set(world.labelled()) == {"a-1", "b-1"}
    world.set_delay("1s")
    world.until_labelled("a-1")
    world.until(lambda: REMOVABLE_SINCE not in annotations_of(world.admin.get(*NODES, "b-1")), "the record to go")


def test_data_that_moves_takes_the_label_along(world: StorageWorld) -> None:
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["c"])
    world.data("pvc-1", "a-1")
    world.until_labelled("a-1")
    world.admin.patch(API_VERSION, RESOURCE, "pvc-1", {"spec": {"nodeName": "b-1"}})
    world.until_labelled("b-1")


def test_labels_stay_when_all_classes_are_deleted(world: StorageWorld) -> None:
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1")
    with world.decides("RemovalFrozen"):
        world.delete(CLASSES, "fast")
    assert set(world.labelled()) == {"a-1"}


def test_a_node_may_be_released_by_hand(world: StorageWorld) -> None:
    with world.decides("RemovalFrozen"):
        world.node("a-1", "a", {LABEL: ""})
        world.node("a-2", "a", {LABEL: ""})
    world.admin.patch(*NODES, "a-2", {"metadata": {"annotations": {REMOVAL: "Allowed"}}})
    world.until_labelled("a-1")


@pytest.mark.usefixtures("otherwise_installed")
def test_a_strict_controller_removes_as_the_original_does(world: StorageWorld) -> None:
    world.data("pvc-1", "b-1")
    world.until_data_is_marked()
    with world.decides("RemovalFrozen"):
        world.node("a-1", "a", {LABEL: ""})
        world.node("b-1", "b", {LABEL: ""})
    world.kubectl("annotate", "decoratorcontroller", "storage-nodes", f"{REMOVALS}=Strict")
    world.driver.restart()
    world.until_labelled("b-1")
    world.kubectl("annotate", "decoratorcontroller", "storage-nodes", f"{REMOVALS}-")


@pytest.mark.usefixtures("otherwise_installed")
def test_nothing_is_removed_without_the_guard(world: StorageWorld, tmp_path: Path) -> None:
    world.uninstall()
    world.install(without_guard(tmp_path))
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["a", "b"])
    world.until_labelled("a-1", "b-1")
    with world.decides("RemovalFrozen"):
        world.reconfigure("fast", zones=["a"])
    assert set(world.labelled()) == {"a-1", "b-1"}


def without_guard(folder: Path) -> str:
    """A kustomization with the storage nodes alone."""
    deploy = os.path.relpath(ROOT / "deploy", folder.resolve())
    text = f"resources: [{deploy}/overlays/default]\ncomponents: [{deploy}/components/storage-nodes]\n"
    (folder / "kustomization.yaml").write_text(text)
    return str(folder)


@pytest.mark.usefixtures("otherwise_installed")
def test_an_installation_takes_no_label_off_a_node_with_data(world: StorageWorld) -> None:
    """The DRBDResources are there before anybody wrote the names of their nodes on them."""
    world.uninstall()
    world.driver.restart()
    world.node("b-1", "b", {LABEL: ""})
    world.storage_class("fast", zones=["a"])
    for number in range(20):
        world.data(f"pvc-{number}", "b-1")
    until_shaped(world.driver, world.admin)
    mark = world.control_plane.mark()
    with world.decides("HoldsData"):
        world.install()
    written = [record for record in world.control_plane.writes_since(mark, USER) if record.resource == "nodes"]
    assert written == []


# Pools: the newer schema


@pytest.mark.usefixtures("newer")
def test_follows_the_eligible_nodes_of_a_pool(world: StorageWorld) -> None:
    for name in ("a-1", "a-2", "a-3"):
        world.node(name, "a")
    world.pool("ssd", "a-1", "a-2")
    world.class_with_pool("fast", "ssd")
    world.until_labelled("a-1", "a-2")
    world.set_eligible("ssd", "a-2", "a-3")
    world.until_labelled("a-2", "a-3")
    world.set_eligible("ssd")
    world.until_labelled()


@pytest.mark.usefixtures("newer")
def test_a_missing_pool_freezes_removals_and_adds_nothing(world: StorageWorld) -> None:
    with world.decides("Unresolved"):
        world.class_with_pool("fast", "ssd")
        world.class_with_pool("nameless", None)
        world.node("a-1", "a")
        world.node("a-2", "a")
    assert world.labelled() == {}
    world.delete(CLASSES, "nameless")
    world.pool("ssd", "a-1")
    world.until_labelled("a-1")
    with world.decides("RemovalFrozen"):
        world.delete(POOLS, "ssd")
    assert set(world.labelled()) == {"a-1"}
    world.pool("ssd", "a-2")
    world.until_labelled("a-2")


def test_a_class_that_lost_its_zones_to_a_newer_schema_labels_nobody(world: StorageWorld) -> None:
    """Until its controller writes the new configuration, the API server leaves out what the schema does not know."""
    world.node("a-1", "a")
    world.node("b-1", "b")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1")
    define(world.control_plane, NEWER)
    try:
        asked = world.asked()
        world.driver.restart()
        world.until(lambda: world.asked() >= asked + 2, "both Nodes to be looked at")
        time.sleep(0.5)  # a write that should not come
        assert set(world.labelled()) == {"a-1"}
        assert not world.written_at_rest()
    finally:
        world.clear()
        define(world.control_plane, OLDER)


# Others


def test_a_selector_may_ask_for_what_the_node_labeler_writes(world: StorageWorld) -> None:
    world.kubectl("apply", "-f", "deploy/base/workload-type.yaml")
    world.storage_class("fast", nodeLabelSelector={"matchLabels": {"workload-type": "database"}})
    for name in ("prod-database-1", "prod-general-1", "prod-database-2"):
        world.node(name)
    world.until_labelled("prod-database-1", "prod-database-2")
    world.until(lambda: world.labels("prod-general-1") == {"workload-type": "general"}, "the other Node")


def test_heartbeats_cause_nothing(world: StorageWorld) -> None:
    world.node("a-1", "a")
    world.node("b-1", "b", {LABEL: ""})
    world.data("pvc-1", "b-1")
    world.storage_class("fast", zones=["a"])
    world.until_labelled("a-1", "b-1")
    assert not world.written_at_rest()
    before, mark = world.hooks.answered("storage_nodes"), world.control_plane.mark()
    for number in range(10):
        condition = {"type": "Ready", "status": "True", "reason": "Test", "message": str(number)}
        for name in ("a-1", "b-1"):
            world.admin.patch(*NODES, name, {"status": {"conditions": [condition]}}, subresource="status")
    time.sleep(0.5)  # a request that should not come
    if world.driver.name != StandIn.name:  # which looks at everything in each round
        assert world.hooks.answered("storage_nodes") == before
    assert not [record for record in world.control_plane.writes_since(mark, USER) if record.resource == "nodes"]


def test_missing_kinds_stop_no_other_controller_and_are_noticed_when_they_come(world: StorageWorld) -> None:
    """It takes Metacontroller a minute or more: it looks for new kinds every 30 seconds, and tries ever less often."""
    world.kubectl("apply", "-f", "deploy/base/workload-type.yaml")
    world.kubectl("delete", "-f", OLDER)
    try:
        world.driver.restart()
        world.node("prod-compute-1", "a")
        world.until(lambda: "workload-type" in world.labels("prod-compute-1"), "the label of the node labeler")
        assert LABEL not in world.labels("prod-compute-1")
    finally:
        define(world.control_plane, OLDER)
    world.storage_class("fast", zones=["a"])
    world.until_labelled("prod-compute-1", seconds=180)
    world.data("pvc-1", "prod-compute-1")
    world.until_data_is_marked(seconds=180)


def test_metacontroller_may_do_no_more_than_it_needs(world: StorageWorld) -> None:
    for plural, verbs in {CLASSES: "list watch", POOLS: "list watch", RESOURCE: "list watch update"}.items():
        for verb in ("list", "watch", "create", "update", "patch", "delete"):
            assert _may(world, verb, plural) is (verb in verbs.split()), f"{verb} {plural}"


def _may(world: StorageWorld, verb: str, plural: str) -> bool:
    asked = {"verb": verb, "resource": plural, "group": API_VERSION.partition("/")[0]}
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}}
    answer = world.admin.create(kind | {"spec": {"user": USER, "resourceAttributes": asked}})
    return bool(answer["status"]["allowed"])
