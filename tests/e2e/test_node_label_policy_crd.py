"""The NodeLabelPolicy CRD on a real API server: it refuses what the hook could not use, and says why."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hooks.node_label_policy import API_VERSION, RESOURCE
from tests.builders import policy
from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.kube import ApiError, KubeClient, Object
from tests.policy_verdicts import CRD, PROJECT, VERDICTS, Verdict

pytestmark = pytest.mark.e2e

SHIPPED = [*sorted((PROJECT / "examples" / "node-labeler").glob("*.yaml")), PROJECT / "deploy/base/workload-type.yaml"]


@pytest.fixture(scope="module", autouse=True)
def _crd(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "--validate=strict", "--filename", str(CRD))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "--filename", str(CRD))


@pytest.fixture
def create(admin: KubeClient) -> Iterator["Creator"]:
    creator = Creator(admin)
    yield creator
    for name in creator.created:
        admin.delete(API_VERSION, RESOURCE, name)


class Creator:
    """Creates policies as kubectl does: a field that the CRD does not know is an error."""

    def __init__(self, admin: KubeClient) -> None:
        self.admin = admin
        self.created: list[str] = []

    def __call__(self, written: Object) -> Object:
        path = f"/apis/{API_VERSION}/{RESOURCE}"
        stored = self.admin.request("POST", path, body=written, parameters={"fieldValidation": "Strict"})
        self.created.append(stored["metadata"]["name"])
        return stored


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_policy(create: Creator, verdict: Verdict) -> None:
    if not verdict.api:
        create(verdict.policy)
        return
    with pytest.raises(ApiError) as refused:
        create(verdict.policy)
    assert refused.value.code in (400, 422)  # 400 if a field is unknown
    assert verdict.api in refused.value.message


def test_fills_in_the_defaults(create: Creator) -> None:
    spec = create(policy(name="defaults"))["spec"]

    assert (spec["priority"], spec["conflict"]) == (0, "Keep")


def test_drops_a_null_instead_of_refusing_it(create: Creator) -> None:
    """That is why the hook reads null as not given: nobody can store one."""
    rule = {"match": {"nameContains": "x", "nodeSelector": None}, "labels": {"a": "b"}, "annotations": None}

    stored = create(policy(name="nulls", rules=[rule]))

    assert stored["spec"]["rules"] == [{"match": {"nameContains": "x"}, "labels": {"a": "b"}}]


@pytest.mark.parametrize(
    ("output", "columns"),
    [
        pytest.param([], ["NAME", "PRIORITY", "CONFLICT", "AGE"], id="by default"),
        pytest.param(["--output=wide"], ["NAME", "PRIORITY", "CONFLICT", "RULES", "AGE"], id="wide"),
    ],
)
def test_kubectl_shows_columns(
    create: Creator, control_plane: ControlPlane, output: list[str], columns: list[str]
) -> None:
    create(policy(name="columns", priority=7, conflict="Enforce"))

    header, row = control_plane.kubectl("get", "nlp", "columns", *output).splitlines()

    assert header.split() == columns
    assert row.split()[:3] == ["columns", "7", "Enforce"]
    assert ("nameContains" in row) == ("RULES" in columns)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_accepts_what_is_shipped(control_plane: ControlPlane, path: Path) -> None:
    said = control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "--filename", str(path))

    assert said.startswith("nodelabelpolicy.node-labeler.io/")


def test_kubectl_tells_a_misspelt_field(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(SHIPPED[-1].read_text().replace("nameContains", "nameContain"))

    with pytest.raises(KubectlError, match=r'unknown field "spec.rules\[0\].match.nameContain"'):
        control_plane.kubectl("apply", "--dry-run=server", "--filename", str(path))
