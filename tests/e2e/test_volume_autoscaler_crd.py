"""The CRDs of the volume autoscaler on a real API server: what it refuses, stores and shows, and who may do what."""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from hooks.kube.metadata import JsonObject
from hooks.manifests import read_objects
from tests.autoscaler_verdicts import API_VERSION, PROJECT, VERDICTS, Verdict, autoscaler, given
from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.kube import AlreadyExists, ApiError, KubeClient, Object
from tests.e2e.processes import eventually

pytestmark = pytest.mark.e2e

EXAMPLES = sorted((PROJECT / "examples" / "volume-autoscaler").glob("*.yaml"))
STRICT = {"fieldValidation": "Strict"}


@pytest.fixture(scope="module", autouse=True)
def _crds(control_plane: ControlPlane) -> None:
    for plural in ("volumeautoscalers", "volumeexpansions"):
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
        plural = self.admin.resource_of(written).plural
        path = f"/apis/{API_VERSION}/namespaces/{written['metadata']['namespace']}/{plural}"
        stored = self.admin.request("POST", path, body=written, parameters=STRICT)
        self.created.append(f"{path}/{stored['metadata']['name']}")
        return stored

    def with_status(self, written: Object, status: JsonObject) -> Object:
        self(written)
        return self.admin.request(
            "PATCH",
            f"{self.created[-1]}/status",
            body={"status": status},
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


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_the_api_server_and_the_hook_agree_unless_the_table_says_why(verdict: Verdict) -> None:
    assert (bool(verdict.api) != bool(verdict.hook)) == bool(verdict.differ)


def test_fills_in_the_defaults_of_the_original(create: Creator) -> None:
    assert create(autoscaler())["spec"] == given(
        mode="Apply",
        thresholdPercent=80,
        inodeThresholdPercent=0,
        increasePercent=20,
        pollInterval="60s",
        cooldownPeriod="5m",
        onMetricsLost="Wait",
    )


@pytest.mark.parametrize("size", ["1024Mi", "1.5Gi", 107374182400, "1e12"])
def test_keeps_a_size_as_it_was_written(create: Creator, size: str | int) -> None:
    assert create(autoscaler(spec=given(maxSize=size)))["spec"]["maxSize"] == size


def test_drops_a_null_instead_of_refusing_it(create: Creator) -> None:
    target = {"pvcName": "data", "selector": None}

    assert create(autoscaler(spec=given(target=target)))["spec"]["target"] == {"pvcName": "data"}


ENTRY: JsonObject = {
    "name": "data-0",
    "currentSize": "10240Mi",
    "requestedSize": "10Gi",
    "desiredSize": "12Gi",
    "usageBytes": 9 * 2**30,
    "usagePercent": 90,
    "inodePercent": 3,
    "lastSampleTime": "2026-01-01T00:10:00Z",
    "lastScaleTime": "2026-01-01T00:00:00Z",
    "lastScaleSize": "10Gi",
    "reason": "Expanding",
    "message": "90 % used: 10Gi -> 12Gi",
}
STATUS: JsonObject = {
    "observedGeneration": 1,
    "lastPollTime": "2026-01-01T00:10:00Z",
    "totalScaleEvents": 3_000_000_000,
    "claims": 1,
    "fullestPercent": 90,
    "claimsByReason": {"Expanding": 1},
    "pvcs": [ENTRY],
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Polling",
            "message": "1 claim",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


def test_stores_a_status_as_it_was_written(create: Creator) -> None:
    """Whatever were changed or dropped would be written again at every sync."""
    assert create.with_status(autoscaler(), STATUS)["status"] == STATUS


@pytest.mark.parametrize(("count", "accepted"), [(500, True), (501, False)])
def test_a_status_has_room_for_500_claims(create: Creator, count: int, accepted: bool) -> None:
    claims = {"pvcs": [ENTRY | {"name": f"data-{number}"} for number in range(count)]}
    if accepted:
        assert len(create.with_status(autoscaler(), claims)["status"]["pvcs"]) == count
        return
    with pytest.raises(ApiError, match="must have at most 500 items"):
        create.with_status(autoscaler(), claims)


def test_kubectl_shows_how_an_autoscaler_is(create: Creator, control_plane: ControlPlane) -> None:
    create.with_status(autoscaler(name="columns"), STATUS)

    header, row = control_plane.kubectl("get", "va", "columns").splitlines()

    assert header.split() == [
        *("NAME", "READY", "REASON", "CLAIMS", "FULLEST", "THRESHOLD", "MAXSIZE", "SCALEEVENTS", "AGE"),
    ]
    assert row.split()[:-1] == ["columns", "True", "Polling", "1", "90", "80", "100Gi", "3000000000"]


def test_kubectl_shows_an_autoscaler_without_status(create: Creator, control_plane: ControlPlane) -> None:
    create(autoscaler(name="fresh", spec=given(maxSize=1000)))

    assert control_plane.kubectl("get", "va", "fresh", "--no-headers").split()[:-1] == ["fresh", "80", "1000"]


EXPANSION: JsonObject = {
    "claimName": "data-0",
    "claimUID": "ffc147ae-126e-4e3a-a4dc-66aa076b243e",
    "fromSize": "10240Mi",
    "size": "12Gi",
    "reason": "Expanding",
    "message": "90 % used: 10Gi -> 12Gi",
    "requestedAt": "2026-01-01T00:00:00Z",
    "count": 3,
    "attempt": 2,
}


def expansion(name: str, **spec: object) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "VolumeExpansion", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(EXPANSION, id="with a step"),
        pytest.param({"claimName": "data-0", "claimUID": "u", "count": 0}, id="before the first step"),
        pytest.param({"count": 7, "reason": "Retired", "leaving": {"u": 2}}, id="the record of claims that are gone"),
        pytest.param({}, id="empty"),
    ],
)
def test_stores_an_expansion_as_it_was_written(create: Creator, spec: JsonObject) -> None:
    assert create(expansion("stored", **spec))["spec"] == spec


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param({"count": -1}, "spec.count in body should be greater than or equal to 0", id="a negative count"),
        pytest.param({"attempt": -1}, "spec.attempt in body should be greater than", id="a negative attempt"),
        pytest.param({"leaving": {"u": -1}}, "spec.leaving.u in body should be greater than", id="a negative record"),
        pytest.param({"size": 12}, "spec.size in body must be of type string", id="a size that is a number"),
        pytest.param({"requestedAt": "now"}, "spec.requestedAt in body must be of type date-time", id="no time"),
        pytest.param({"claim": "data-0"}, 'unknown field "spec.claim"', id="an unknown field"),
    ],
)
def test_refuses_an_expansion(create: Creator, spec: JsonObject, complaint: str) -> None:
    with pytest.raises(ApiError) as refused:
        create(expansion("refused", **spec))
    assert complaint in refused.value.message


def test_kubectl_shows_expansions(create: Creator, control_plane: ControlPlane) -> None:
    create(expansion("shown", **EXPANSION))

    header, row = control_plane.kubectl("get", "vex", "shown").splitlines()
    wide = control_plane.kubectl("get", "vex", "shown", "--output=wide")

    assert header.split() == ["NAME", "CLAIM", "FROM", "SIZE", "REASON", "REQUESTED", "COUNT", "AGE"]
    assert row.split()[:5] == ["shown", "data-0", "10240Mi", "12Gi", "Expanding"]
    assert row.split()[6] == "3"
    assert wide.splitlines()[0].split()[-4:] == ["COUNT", "ATTEMPT", "MESSAGE", "AGE"]
    assert "90 % used: 10Gi -> 12Gi" in wide


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
    assert all(line.startswith("volumeautoscaler.autoscaling.volume-autoscaler.io/") for line in said.splitlines())


@pytest.mark.usefixtures("_namespaces_of_the_examples")
def test_kubectl_tells_a_misspelt_field(control_plane: ControlPlane) -> None:
    """The check above can fail."""
    misspelt = EXAMPLES[0].read_text().replace("pvcName", "claimName")

    with pytest.raises(KubectlError, match=r'unknown field "spec.target.claimName"'):
        control_plane.kubectl("apply", "--dry-run=server", "--filename=-", input=misspelt)


METACONTROLLER = "system:serviceaccount:metahooks:metacontroller"
GROUP, CORE = API_VERSION.partition("/")[0], ""


def may(admin: KubeClient, user: str, verb: str, group: str, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    asked = {"namespace": "default", "verb": verb, "group": group, "resource": plural, "subresource": subresource}
    body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    answer = admin.request("POST", path, body=body | {"spec": {"user": user, "resourceAttributes": asked}})
    return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
def roles(control_plane: ControlPlane) -> KubeClient:
    """Our roles, and people who have the roles of the cluster: somebody called view, edit and admin."""
    path = PROJECT / "deploy" / "base" / "volume-autoscaler-rbac.yaml"
    control_plane.kubectl("apply", "--validate=strict", "--filename", str(path))
    for role in ("view", "edit", "admin"):
        written = ["--dry-run=client", "--output=yaml", f"--clusterrole={role}", f"--user={role}"]
        control_plane.kubectl(
            "apply", "--filename=-", input=control_plane.kubectl("create", "rolebinding", role, *written)
        )
        eventually(
            partial(may, control_plane.admin, role, "list", GROUP, "volumeexpansions"),
            what="the roles of the cluster to take ours in",
        )
    return control_plane.admin


@pytest.mark.parametrize(
    ("user", "verbs", "group", "resource", "allowed"),
    [
        ("view", "get list watch", GROUP, "volumeautoscalers", True),
        ("view", "get list watch", GROUP, "volumeexpansions", True),
        ("view", "create update patch delete", GROUP, "volumeautoscalers", False),
        ("edit", "get list watch create update patch delete deletecollection", GROUP, "volumeautoscalers", True),
        ("admin", "get list watch create update patch delete deletecollection", GROUP, "volumeautoscalers", True),
        ("edit", "create update patch delete deletecollection", GROUP, "volumeexpansions", False),
        ("admin", "create update patch delete deletecollection", GROUP, "volumeexpansions", False),
        ("edit", "update patch", GROUP, "volumeautoscalers/status", False),
        (METACONTROLLER, "get list watch update", CORE, "persistentvolumeclaims", True),
        (METACONTROLLER, "create patch delete deletecollection", CORE, "persistentvolumeclaims", False),
        (METACONTROLLER, "update patch", CORE, "persistentvolumeclaims/status", False),
        (METACONTROLLER, "get list watch", "storage.k8s.io", "storageclasses", True),
        (METACONTROLLER, "get list watch", GROUP, "volumeautoscalers", True),
        (METACONTROLLER, "create update patch delete", GROUP, "volumeautoscalers", False),
        (METACONTROLLER, "update", GROUP, "volumeautoscalers/status", True),
        (METACONTROLLER, "update", GROUP, "volumeautoscalers/finalizers", True),
        (METACONTROLLER, "get list watch create update delete", GROUP, "volumeexpansions", True),
        (METACONTROLLER, "get list watch", CORE, "secrets", False),
    ],
)
def test_who_may_do_what(roles: KubeClient, user: str, verbs: str, group: str, resource: str, allowed: bool) -> None:
    assert {verb: may(roles, user, verb, group, resource) for verb in verbs.split()} == dict.fromkeys(
        verbs.split(), allowed
    )
