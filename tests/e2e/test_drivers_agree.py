"""The stand-in does what the real Metacontroller does: a scenario ends with the same objects and the same requests.

What the real one did is kept in tests/data/drivers-agree.json, so that the stand-in is held to it where there is no
`metacontroller` program. With one, the file itself is checked. METAHOOKS_RECORD=1 and the real program write it anew.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hooks.kube.metadata import JsonObject, uid_of
from tests.e2e.controlplane import ControlPlane
from tests.e2e.drivers import Driver, RealMetacontroller
from tests.e2e.kube import KubeClient
from tests.e2e.toy_hooks import GROUP, ROUTES, ToyHooks

pytestmark = pytest.mark.e2e

TOYS = Path(__file__).resolve().parent / "toys.yaml"
RECORDING = Path(__file__).resolve().parent.parent / "data" / "drivers-agree.json"
KINDS = (
    ("v1", "configmaps"),
    ("v1", "services"),
    ("v1", "resourcequotas"),
    ("v1", "serviceaccounts"),
    ("v1", "secrets"),
)
GADGET_API = f"{GROUP}/v1"


@pytest.fixture
def toys(installed: ControlPlane) -> Iterator[ToyHooks]:
    with ToyHooks() as hooks:
        manifests = TOYS.read_text().replace("TOY_URL", hooks.url)
        installed.kubectl("apply", "-f", "-", input=manifests.partition("---")[0])
        installed.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "gadgets.toys.metahooks.test")
        installed.kubectl("apply", "--validate=strict", "-f", "-", input=manifests)
        yield hooks
        installed.kubectl("delete", "compositecontroller", "toy-gadget")
        installed.kubectl("delete", "decoratorcontroller", "toy-shadow")
        installed.kubectl("delete", "clusterrolebinding", "metahooks-toys")


class World:
    """One namespace with toys in it."""

    def __init__(self, admin: KubeClient, namespace: str) -> None:
        self.admin, self.namespace = admin, namespace

    def config_map(self, name: str, **metadata: object) -> None:
        self.admin.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": self.namespace, **metadata},
                "data": {"from": "somebody else"},
            }
        )

    def gadget(self, **spec: object) -> JsonObject:
        name = {"name": "gadget", "namespace": self.namespace}
        return self.admin.create({"apiVersion": GADGET_API, "kind": "Gadget", "metadata": name, "spec": spec})

    def change_gadget(self, **spec: object) -> None:
        self.admin.patch(GADGET_API, "gadgets", "gadget", {"spec": spec}, namespace=self.namespace)

    def label(self, config_map: str, labels: dict[str, str | None]) -> None:
        self.admin.patch("v1", "configmaps", config_map, {"metadata": {"labels": labels}}, namespace=self.namespace)

    def owners(self, config_map: str) -> list[JsonObject]:
        found = self.admin.get("v1", "configmaps", config_map, namespace=self.namespace)
        return list(found["metadata"].get("ownerReferences") or [])

    def data(self, name: str) -> dict[str, str]:
        found = {obj["metadata"]["name"]: obj for obj in self.admin.list("v1", "configmaps", namespace=self.namespace)}
        data: dict[str, str] = found.get(name, {}).get("data", {})
        return data

    def objects(self) -> list[JsonObject]:
        found = [obj for api, plural in KINDS for obj in self.admin.list(api, plural, namespace=self.namespace)]
        found += self.admin.list(GADGET_API, "gadgets", namespace=self.namespace)
        return [obj for obj in found if obj["metadata"]["name"] not in ("default", "kube-root-ca.crt")]


def scenario(world: World, driver: Driver) -> None:
    """Children of every update strategy are created, changed and deleted while somebody else writes to them."""
    world.config_map("shared", labels={"toy": "related"})
    world.config_map("plain", labels={"toy": "decorate", "toy/remove-me": "x"})
    world.config_map("skipped", labels={"toy": "decorate"}, annotations={"toy/skip": "yes"})
    world.config_map("gadget-c", labels={"mine": "yes"})
    world.config_map("gadget-d", labels={"given": "away"})
    ports = [{"name": "http", "port": 80}, {"name": "admin", "port": 81}]
    gadget = world.gadget(size=1, names=["a", "b"], ports=ports, colour="red")
    driver.until(lambda: world.data("gadget-a") and world.data("gadget-b"), "the first children")

    foreign = {"metadata": {"annotations": {"foreign": "stays"}}, "data": {"foreign": "stays"}}
    world.admin.patch("v1", "configmaps", "gadget-a", foreign, namespace=world.namespace)
    world.change_gadget(size=2, names=["a", "c", "d", "e"], ports=[{"name": "http", "port": 8080}], colour=None)
    driver.until(
        lambda: world.data("gadget-a").get("size") == "2" and world.data("gadget-e") and not world.data("gadget-b"),
        "the changed children",
    )
    world.label("gadget-d", {"controller-uid": uid_of(gadget)})  # an orphan becomes a child
    world.label("gadget-e", {"controller-uid": None})  # a child becomes an orphan
    driver.until(lambda: world.data("gadget-d").get("size") == "2", "the adopted child")
    driver.until(lambda: not world.owners("gadget-e"), "the released child")

    world.config_map("shared-too", labels={"toy": "related"})
    driver.until(lambda: world.data("gadget-a").get("related") == "shared,shared-too", "the new related object")
    quota = ("v1", "resourcequotas")
    driver.until(
        lambda: [
            found
            for found in world.admin.list(*quota, namespace=world.namespace)
            if found["spec"]["hard"] == {"pods": "2"}
        ],
        "the recreated child",
    )


def test_ends_like_the_real_metacontroller(driver: Driver, toys: ToyHooks, admin: KubeClient, namespace: str) -> None:
    world = World(admin, namespace)
    scenario(world, driver)
    parents = 2  # the gadget and the decorated ConfigMap
    driver.until(lambda: not driver.run_twice_more(parents, lambda: toys.syncs), "everything to be at rest", seconds=60)
    toys.requests.clear()
    driver.restart()
    driver.until(lambda: {path for _, path, _ in toys.of(namespace)} == set(ROUTES), "every hook to be asked afresh")
    seen = settled(world, toys)
    if os.environ.get("METAHOOKS_RECORD") and driver.name == RealMetacontroller.name:
        RECORDING.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n")
    assert _flat(seen) == _flat(json.loads(RECORDING.read_text()))


def settled(world: World, toys: ToyHooks) -> JsonObject:
    """All objects and the last request for each parent, without what differs from run to run."""
    requests = {
        f"{path} {name}": body | {"controller": body["controller"] | {"status": {}}}  # Go writes it even if empty
        for (_, path, name), body in sorted(toys.of(world.namespace).items())
    }
    text = json.dumps({"objects": sorted(world.objects(), key=_order), "requests": requests}, sort_keys=True)
    numbers = {uid: f"UID-{index}" for index, uid in enumerate(_uids(text))}
    for uid, number in numbers.items():
        text = text.replace(uid, number)
    text = text.replace(world.namespace, "NAMESPACE").replace(toys.url, "TOY_URL")
    return dict(_without_noise(json.loads(text)))


def _flat(value: object, path: str = "") -> dict[str, object]:
    """Leaves by their path: a difference then shows where it is."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if not inside:
        return {path: value}
    return {place: leaf for key, item in inside for place, leaf in _flat(item, f"{path}/{key}").items()}


def _order(obj: JsonObject) -> tuple[str, str]:
    return obj["kind"], obj["metadata"]["name"]


def _uids(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text)))


NOISE = {
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "clusterIP",
    "clusterIPs",
    "kubectl.kubernetes.io/last-applied-configuration",
    "statusChecks",  # another field that Go writes even if empty
}


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_noise(item) for key, item in value.items() if key not in NOISE}
    return [_without_noise(item) for item in value] if isinstance(value, list) else value
