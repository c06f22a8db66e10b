"""The CRDs of the node agent autoscaler on a real API server: what it refuses, stores and shows."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hooks.agents.autoscaler import read_autoscaler
from hooks.kube.metadata import JsonObject, name_of
from hooks.manifests import read_objects
from tests.agent_verdicts import API_VERSION, PROJECT, VERDICTS, Verdict, autoscaler, given
from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.kube import AlreadyExists, ApiError, KubeClient, Object
from tests.e2e.processes import eventually

pytestmark = pytest.mark.e2e

EXAMPLES = sorted((PROJECT / "examples" / "node-agent").glob("*.yaml"))
STRICT = {"fieldValidation": "Strict"}


@pytest.fixture(scope="module", autouse=True)
def _crds(control_plane: ControlPlane) -> None:
    for plural in ("nodeagentautoscalers", "nodeshapes"):
        path = str(PROJECT / "deploy" / "crds" / f"{plural}.yaml")
        control_plane.kubectl("apply", "--validate=strict", "--filename", path)
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "--filename", path)


@pytest.fixture
def create(admin: KubeClient) -> Iterator["Creator"]:
    creator = Creator(admin)
    yield creator
    creator.delete_all()


class Creator:
    """Creates objects as kubectl does: a field that the CRD does not know is an error."""

    def __init__(self, admin: KubeClient) -> None:
        self.admin = admin
        self.created: list[str] = []

    def __call__(self, written: Object) -> Object:
        plural, namespace = self.admin.resource_of(written).plural, written["metadata"].get("namespace")
        path = f"/apis/{API_VERSION}/" + (f"namespaces/{namespace}/{plural}" if namespace else plural)
        stored = self.admin.request("POST", path, body=written, parameters=STRICT)
        self.created.append(f"{path}/{stored['metadata']['name']}")
        return stored

    def patch(self, part: JsonObject, *, subresource: str = "") -> Object:
        """Of the last that was created."""
        return self.admin.request(
            "PATCH",
            self.created[-1] + subresource,
            body=part,
            parameters=STRICT,
            headers={"Content-Type": "application/merge-patch+json"},
        )

    def delete_all(self) -> None:
        for path in self.created:
            self.admin.request("DELETE", path)


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_an_autoscaler(create: Creator, verdict: Verdict) -> None:
    if not verdict.api:
        create(verdict.autoscaler)
        return
    with pytest.raises(ApiError) as refused:
        create(verdict.autoscaler)
    assert refused.value.code in (400, 422)  # 400 if a field is unknown
    assert verdict.api in refused.value.message


def test_refuses_an_autoscaler_without_spec(create: Creator) -> None:
    with pytest.raises(ApiError, match="spec: Required value"):
        create({key: value for key, value in autoscaler().items() if key != "spec"})


def test_fills_in_the_defaults_of_the_original(create: Creator) -> None:
    assert create(autoscaler())["spec"] == given(
        nodeGroupLabel="node.kubernetes.io/instance-type",
        defaultGroup="Disabled",
        resourcePercentages={"requestCPU": 2, "requestMemory": 2, "limitCPU": 5, "limitMemory": 5},
        minResources={"cpu": "100m", "memory": "180Mi"},
        maxResources={"cpu": "2", "memory": "4Gi"},
        goMemLimitPercent=80,
        emptyGroupGracePeriod="1h",
        paused=False,
    )


def test_fills_in_what_the_hook_assumes(create: Creator) -> None:
    spec = given(resourcePercentages={"limitCPU": 50}, minResources={"cpu": 1}, groups=[{"value": "a"}])
    stored = create(autoscaler(spec=spec))["spec"]

    assert stored["groups"] == [{"value": "a"}]
    assert stored["minResources"] == {"cpu": 1, "memory": "180Mi"}
    assert read_autoscaler("agent", stored).bounds(None) == read_autoscaler("agent", spec).bounds(None)


def test_fills_in_the_key_of_the_template(create: Creator) -> None:
    stored = create(autoscaler(spec={"templateConfigMap": {"name": "template"}}))["spec"]

    assert stored["templateConfigMap"] == {"name": "template", "key": "daemonset-template.yaml"}


@pytest.mark.parametrize("field", ["resourcePercentages", "minResources", "groups", "container", "paused"])
def test_a_null_is_as_if_it_were_not_there(create: Creator, field: str) -> None:
    plain = create(autoscaler(name="plain"))["spec"]

    assert create(autoscaler(spec=given(**{field: None})))["spec"] == plain


def test_keeps_a_template_as_it_was_written(create: Creator) -> None:
    """Also what is null or empty, and quantities in any form: to read them is the hook's."""
    container = {
        "name": "agent",
        "image": "example.com/agent:1",
        "resources": {"limits": {"memory": "1024Mi", "example.com/gpu": 1}, "requests": None},
        "securityContext": {"privileged": True},
        "unknown": {"to": ["us", 1.5]},
    }
    pod = {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}], "hostNetwork": False}
    template = {
        "metadata": {"labels": {"app": "agent"}, "annotations": {"a": ""}},
        "spec": {"minReadySeconds": 5, "selector": {}, "template": {"metadata": {"labels": {}}, "spec": pod}},
    }

    assert create(autoscaler(spec={"template": template}))["spec"]["template"] == template


# Status

GROUP: JsonObject = {
    "value": "m5.large",
    "daemonSet": "agent-m5-large-baa340",
    "nodes": 2,
    "ready": 1,
    "requests": {"cpu": "100m", "memory": "180Mi"},
    "limits": {"cpu": "100m", "memory": "194Mi"},
    "goMemLimit": "155MiB",
    "requestedAt": "2026-01-01T00:10:00Z",
    "reason": "Updated",
    "message": "100m CPU and 180Mi, at most 100m and 194Mi",
}
STATUS: JsonObject = {
    "observedGeneration": 1,
    "groups": 2,
    "nodes": 3,
    "agents": 3,
    "agentsReady": 1,
    "nodeGroups": [GROUP, {"isDefault": True, "nodes": 1, "ready": 0, "reason": "NameTaken", "message": "taken"}],
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "GroupsFailing",
            "message": "1 of 2 groups",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


def test_stores_a_status_as_it_was_written(create: Creator) -> None:
    """Whatever were changed or dropped would be written again at every sync."""
    create(autoscaler())

    assert create.patch({"status": STATUS}, subresource="/status")["status"] == STATUS


def test_a_status_is_written_apart_from_the_spec(create: Creator) -> None:
    assert "status" not in create(autoscaler() | {"status": STATUS})
    assert "status" not in create.patch({"status": STATUS})
    reported = create.patch({"status": STATUS, "spec": {"paused": True}}, subresource="/status")
    assert reported["spec"]["paused"] is False
    assert reported["metadata"]["generation"] == 1
    assert create.patch({"spec": {"paused": True}})["metadata"]["generation"] == 2


def test_refuses_a_status_that_the_crd_does_not_know(create: Creator) -> None:
    create(autoscaler())

    with pytest.raises(ApiError, match=r'unknown field "status.nodeGroups\[0\].size"'):
        create.patch({"status": {"nodeGroups": [GROUP | {"size": "large"}]}}, subresource="/status")


# NodeShapes


def shape(name: str, **spec: object) -> Object:
    return {"apiVersion": API_VERSION, "kind": "NodeShape", "metadata": {"name": name}, "spec": spec}


SHAPE: JsonObject = {
    "labels": {"node.kubernetes.io/instance-type": "m5.xlarge", "empty": ""},
    "allocatable": {"cpu": "3920m", "memory": "15944120Ki"},
    "os": "linux",
}


@pytest.mark.parametrize(
    "spec",
    [pytest.param(SHAPE, id="whole"), pytest.param({"os": "linux"}, id="of a new node"), pytest.param({}, id="empty")],
)
def test_stores_a_shape_as_it_was_written(create: Creator, spec: JsonObject) -> None:
    assert create(shape("stored", **spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param({"labels": {"a": 1}}, "spec.labels.a", id="a label that is a number"),
        pytest.param({"allocatable": {"cpu": 4}}, "spec.allocatable.cpu", id="a quantity that is a number"),
        pytest.param({"ready": True}, 'unknown field "spec.ready"', id="an unknown field"),
    ],
)
def test_refuses_a_shape(create: Creator, spec: JsonObject, complaint: str) -> None:
    with pytest.raises(ApiError) as refused:
        create(shape("refused", **spec))
    assert complaint in refused.value.message


# kubectl


def test_kubectl_shows_how_an_autoscaler_is(create: Creator, control_plane: ControlPlane) -> None:
    create(autoscaler(name="columns"))
    create.patch({"status": STATUS}, subresource="/status")

    header, row = control_plane.kubectl("get", "naa", "columns").splitlines()

    assert header.split() == ["NAME", "GROUPS", "NODES", "AGENTS", "READY", "REASON", "AGE"]
    assert row.split()[:-1] == ["columns", "2", "3", "1", "False", "GroupsFailing"]


def test_kubectl_shows_an_autoscaler_without_status(create: Creator, control_plane: ControlPlane) -> None:
    create(autoscaler(name="fresh"))

    assert control_plane.kubectl("get", "naa", "fresh", "--no-headers").split()[:-1] == ["fresh"]


def test_kubectl_shows_shapes(create: Creator, control_plane: ControlPlane) -> None:
    create(shape("shown", **SHAPE))

    header, row = control_plane.kubectl("get", "nodeshapes", "shown").splitlines()
    wide = control_plane.kubectl("get", "nodeshapes", "shown", "--output=wide").splitlines()

    assert header.split() == ["NAME", "GROUP", "CPU", "MEMORY", "AGE"]
    assert row.split()[:-1] == ["shown", "m5.xlarge", "3920m", "15944120Ki"]
    assert wide[0].split()[-2:] == ["OS", "AGE"]
    assert wide[1].split()[-2] == "linux"


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("naa", ["Runs an agent on every node"]),
        (
            "naa.spec",
            [
                "Nodes with the same value of this label are a group.",
                "Which nodes count, and get an agent.",
                "GOMEMLIMIT, in percent of the memory limit.",
                "How long a group keeps its DaemonSet",
                "Keeps everything as it is.",
            ],
        ),
        ("naa.spec.groups", ["The group of nodes without the label.", "Added to those of the template."]),
        ("nodeshapes", ["Not for people to write."]),
    ],
)
def test_kubectl_explains(control_plane: ControlPlane, path: str, parts: list[str]) -> None:
    """The API server publishes a new schema in its own time."""

    def lacking() -> list[str]:
        try:
            text = " ".join(control_plane.kubectl("explain", path).split())
        except KubectlError as error:
            return [str(error)]
        return [part for part in parts if part not in text]

    eventually(lambda: not lacking(), what=f"kubectl explain {path} to say all")


# Examples


@pytest.fixture(scope="module")
def _namespaces_of_the_examples(control_plane: ControlPlane) -> None:
    for name in {example["metadata"]["namespace"] for example in read_objects(EXAMPLES)} - {"default"}:
        with suppress(AlreadyExists):
            control_plane.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


@pytest.mark.usefixtures("_namespaces_of_the_examples")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_accepts_the_example(control_plane: ControlPlane, path: Path) -> None:
    said = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", str(path))

    assert len(said.splitlines()) == len(read_objects([path]))


@pytest.mark.parametrize(
    "example",
    [found for found in read_objects(EXAMPLES) if found["kind"] == "NodeAgentAutoscaler"],
    ids=name_of,
)
def test_the_hook_can_use_an_example_as_it_is_stored(create: Creator, example: Object) -> None:
    stored = create(example | {"metadata": {"name": name_of(example), "namespace": "default"}})
    read, written = (read_autoscaler(name_of(found), found["spec"]) for found in (stored, example))

    assert (read.complaint, read.faults) == ("", {})
    assert {value: read.bounds(value) for value in (None, *read.overrides)} == {
        value: written.bounds(value) for value in (None, *written.overrides)
    }


@pytest.mark.usefixtures("_namespaces_of_the_examples")
def test_kubectl_tells_a_misspelt_field(control_plane: ControlPlane) -> None:
    """The check above can fail."""
    misspelt = EXAMPLES[0].read_text().replace("defaultGroup", "fallbackGroup")

    with pytest.raises(KubectlError, match=r'unknown field "spec.fallbackGroup"'):
        control_plane.kubectl("apply", "--dry-run=server", "--filename=-", input=misspelt)
