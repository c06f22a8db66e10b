"""The node labeler on a real API server: Nodes come and go, policies change, people interfere, the hook is away."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hooks.kube.metadata import JsonObject, annotations_of, labels_of, name_of, uid_of
from hooks.node_labeler import CONFLICTS, OWNED
from tests.builders import policy
from tests.e2e.agent_world import until_shaped
from tests.e2e.conftest import apply_controllers
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import USER, Driver
from tests.e2e.hook_server import HookServer
from tests.e2e.kube import AlreadyExists, KubeClient, NotFound
from tests.e2e.processes import NotInTimeError, eventually

pytestmark = pytest.mark.e2e

POLICY_API = "node-labeler.io/v1alpha1"


class Nodes:
    """The Nodes and policies of one test."""

    def __init__(self, admin: KubeClient) -> None:
        self.admin = admin

    def create(self, *names: str, labels: dict[str, str] | None = None) -> None:
        for name in names:
            metadata = {"name": name, "labels": labels or {}}
            self.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})

    def set_labels(self, name: str, **labels: str | None) -> None:
        changes = {key.replace("_", "-"): value for key, value in labels.items()}
        self.admin.patch("v1", "nodes", name, {"metadata": {"labels": changes}})

    def labels(self, name: str) -> dict[str, str]:
        return labels_of(self.admin.get("v1", "nodes", name))

    def annotations(self, name: str) -> dict[str, str]:
        return annotations_of(self.admin.get("v1", "nodes", name))

    def workload(self, name: str) -> str | None:
        return self.labels(name).get("workload-type")

    def has_workload(self, name: str, value: str | None) -> Callable[[], bool]:
        return lambda: self.workload(name) == value

    def set_policy(self, wanted: JsonObject) -> None:
        try:
            self.admin.create(wanted)
        except AlreadyExists:
            stored = self.admin.get(POLICY_API, "nodelabelpolicies", name_of(wanted))
            self.admin.update(stored | {"spec": wanted["spec"]})

    def delete_policy(self, name: str) -> None:
        self.admin.delete(POLICY_API, "nodelabelpolicies", name)

    def clear(self) -> None:
        for found in self.admin.list("v1", "nodes"):
            self.admin.delete("v1", "nodes", name_of(found))
        for found in self.admin.list(POLICY_API, "nodelabelpolicies"):
            self.delete_policy(name_of(found))


@pytest.fixture
def nodes(installed: ControlPlane, admin: KubeClient, driver: Driver, hooks: HookServer) -> Iterator[Nodes]:
    """A cluster with the shipped policy and no Nodes, and the check that all is at rest when the test is done."""
    nodes = Nodes(admin)
    nodes.clear()
    installed.kubectl("apply", "-f", "deploy/base/workload-type.yaml")
    yield nodes
    until_shaped(driver, admin)  # another controller that follows Nodes
    parents = len(admin.list("v1", "nodes"))
    assert not driver.run_twice_more(parents, lambda: asked(hooks))
    nodes.clear()


def asked(hooks: HookServer) -> int:
    """How many parents were asked about: each needs a customize and a sync request."""
    return hooks.answered("node_labeler") // 2


def pool_rule(pool: str, value: str) -> JsonObject:
    return {"match": {"nameContains": f"-{pool}-"}, "labels": {"workload-type": value}}


def test_labels_new_nodes_by_their_names(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-general-1", "prod-compute-1", "prod-database-1", "prod-cp-1")
    driver.until(nodes.has_workload("prod-general-1", "general"), "general")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "compute")
    driver.until(nodes.has_workload("prod-database-1", "database"), "database")
    assert nodes.labels("prod-cp-1") == {}
    assert OWNED not in nodes.annotations("prod-cp-1")


def test_brings_back_a_label_that_was_removed_by_hand(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-compute-1")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label")
    nodes.set_labels("prod-compute-1", workload_type=None)
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label again")


def test_leaves_alone_what_others_set_unless_the_policy_enforces(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-compute-1", labels={"workload-type": "mine", "other": "stays"})
    nodes.create("prod-compute-2")
    driver.until(nodes.has_workload("prod-compute-2", "compute"), "the label")
    assert nodes.workload("prod-compute-1") == "mine"
    nodes.set_policy(policy(conflict="Enforce", rules=[pool_rule("compute", "compute")]))
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the enforced label")
    assert nodes.labels("prod-compute-1")["other"] == "stays"


def test_relabels_when_a_policy_changes(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-compute-1")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label")
    nodes.set_policy(policy(rules=[pool_rule("compute", "batch")]))
    driver.until(nodes.has_workload("prod-compute-1", "batch"), "the new label")


def test_relabels_when_a_policy_changed_while_the_hook_was_down_and_nothing_was_cached(
    nodes: Nodes, driver: Driver, hooks: HookServer
) -> None:
    nodes.create("prod-compute-1")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label")
    hooks.stop()
    try:
        driver.restart()
        nodes.set_policy(policy(rules=[pool_rule("compute", "batch")]))
        with pytest.raises(NotInTimeError):
            driver.until(nodes.has_workload("prod-compute-1", "batch"), "a change without a hook", seconds=2)
    finally:
        hooks.start()
    driver.until(nodes.has_workload("prod-compute-1", "batch"), "the new label", seconds=60)


def test_takes_labels_off_when_their_policy_is_deleted(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-compute-1", labels={"other": "stays"})
    nodes.create("prod-general-1", labels={"workload-type": "general"})
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label")
    nodes.delete_policy("workload-type")
    driver.until(nodes.has_workload("prod-compute-1", None), "the label to go")
    assert nodes.labels("prod-compute-1") == {"other": "stays"}
    assert OWNED not in nodes.annotations("prod-compute-1")
    assert nodes.workload("prod-general-1") == "general", "a label that somebody else set stays"


def test_labels_a_node_that_is_recreated_under_the_same_name(nodes: Nodes, driver: Driver) -> None:
    nodes.create("prod-compute-1")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label")
    nodes.admin.delete("v1", "nodes", "prod-compute-1")
    eventually(lambda: _is_gone(nodes, "prod-compute-1"), what="the Node to be gone")
    nodes.create("prod-compute-1")
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label on the new Node")


def _is_gone(nodes: Nodes, name: str) -> bool:
    try:
        nodes.labels(name)
    except NotFound:
        return True
    return False


def test_catches_up_after_the_hook_was_down(nodes: Nodes, driver: Driver, hooks: HookServer) -> None:
    hooks.stop()
    try:
        nodes.create("prod-compute-1")
        with pytest.raises(NotInTimeError):
            driver.until(nodes.has_workload("prod-compute-1", "compute"), "a label without a hook", seconds=2)
    finally:
        hooks.start()
    driver.until(nodes.has_workload("prod-compute-1", "compute"), "the label", seconds=60)


def test_reports_a_lost_priority_on_the_node(nodes: Nodes, driver: Driver) -> None:
    nodes.set_policy(policy(name="urgent", priority=5, rules=[pool_rule("compute", "urgent")]))
    nodes.create("prod-compute-1")
    driver.until(lambda: CONFLICTS in nodes.annotations("prod-compute-1"), "the report")
    assert nodes.workload("prod-compute-1") == "urgent"
    assert nodes.annotations("prod-compute-1")[CONFLICTS] == (
        'label workload-type: policy urgent, rule 1 (priority 5, "urgent") wins over '
        'policy workload-type, rule 2 (priority 0, "compute")'
    )
    nodes.delete_policy("urgent")
    driver.until(lambda: CONFLICTS not in nodes.annotations("prod-compute-1"), "the report to go")
    assert nodes.workload("prod-compute-1") == "compute"


def test_sends_one_event_if_node_events_are_installed(
    nodes: Nodes, driver: Driver, installed: ControlPlane, hooks: HookServer
) -> None:
    installed.kubectl("apply", "--validate=strict", "-f", "deploy/components/node-events/rbac.yaml")
    apply_controllers(installed, hooks, "deploy/overlays/node-events")
    try:
        nodes.create("prod-compute-1")
        driver.until(lambda: _labeled_events(nodes.admin, "prod-compute-1"), "the Event")
        until_shaped(driver, nodes.admin)
        assert not driver.run_twice_more(1, lambda: asked(hooks))
        [event] = _labeled_events(nodes.admin, "prod-compute-1")
        assert event["message"] == "label workload-type=compute added: policy workload-type, rule 2"
        assert event["type"] == "Normal"
        assert event["source"] == {"component": "node-labeler"}
        assert event["message"] in installed.kubectl("describe", "node", "prod-compute-1")
    finally:
        installed.kubectl("delete", "-f", "deploy/components/node-events/rbac.yaml")
        installed.kubectl("delete", "decoratorcontroller", "node-labeler")
        apply_controllers(installed, hooks, "metacontroller")


def _labeled_events(admin: KubeClient, name: str) -> list[JsonObject]:
    """By UID: Events of an earlier Node of that name go in their own time."""
    uid = uid_of(admin.get("v1", "nodes", name))
    events = admin.list("v1", "events", namespace="default")
    return [event for event in events if event["involvedObject"].get("uid") == uid and event["reason"] == "Labeled"]


def test_labels_a_thousand_nodes_at_once(nodes: Nodes, driver: Driver) -> None:
    pools = ("general", "compute", "database", "cp")
    names = [f"prod-{pools[number % 4]}-{number}" for number in range(1000)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(nodes.create, names))

    def labelled() -> int:
        return sum("workload-type" in labels_of(found) for found in nodes.admin.list("v1", "nodes"))

    driver.until(lambda: labelled() == 750, "750 of 1,000 Nodes to be labelled", seconds=120)
    for found in nodes.admin.list("v1", "nodes"):
        pool_name = name_of(found).split("-")[1]
        assert labels_of(found).get("workload-type") == (None if pool_name == "cp" else pool_name)


def test_metacontroller_may_do_no_more_than_it_needs(installed: ControlPlane) -> None:
    """Least privilege: what the tests above need, they get; what they do not need is refused."""
    asked = {
        ("update", "nodes"): True,
        ("delete", "nodes"): False,
        ("create", "nodes"): False,
        ("update", "nodelabelpolicies.node-labeler.io"): False,
        ("list", "secrets"): False,
        ("create", "pods"): False,
    }
    for (verb, resource), expected in asked.items():
        assert _may(installed.admin, verb, resource) is expected, f"{verb} {resource}"


def _may(admin: KubeClient, verb: str, resource: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": USER,
            "resourceAttributes": {
                "verb": verb,
                "resource": resource.partition(".")[0],
                "group": resource.partition(".")[2],
            },
        },
    }
    return bool(admin.create(review)["status"]["allowed"])
