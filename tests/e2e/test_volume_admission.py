"""The admission step on a real API server, as a policy and as a webhook: both do with every case what the hook does."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from hooks import wire
from hooks.kube.metadata import JsonObject, name_of
from hooks.volume_admission import AdmissionReview, admit
from tests.admission_cases import CASES, STORAGE_CLASS, Case, Claim
from tests.e2e.controlplane import ControlPlane
from tests.e2e.hook_server import ROOT
from tests.e2e.kube import Forbidden, Invalid, KubeClient, Object
from tests.e2e.processes import eventually

pytestmark = pytest.mark.e2e

COMPONENTS = ROOT / "deploy" / "components"
CLAIMS = ("v1", "persistentvolumeclaims")
HOLD = "example.com/hold"
"""A finalizer that keeps a deleted claim there."""
STORABLE = {name: case for name, case in CASES.items() if not case.unstorable}


class Step:
    """A control plane that takes the admission step in one of two ways, and nothing else of ours."""

    def __init__(self, admin: KubeClient, namespace: str, webhook: "Webhook | None" = None) -> None:
        self.admin, self.namespace, self.webhook = admin, namespace, webhook
        self._claims = 0

    def create(self, claim: Claim, **spec: object) -> Object:
        """Makes it what it is, in the roles of a user, of the volume controller, and of a user again."""
        self._claims += 1
        body = claim.body(name=f"claim-{self._claims}", namespace=self.namespace)
        body["metadata"] = _without(body["metadata"], "deletionTimestamp") | {"finalizers": [HOLD]}
        created = self.admin.create(_without(body, "status") | {"spec": body["spec"] | spec})
        if claim.phase:
            created = self.admin.update_status(created | {"status": body["status"]})
        return self.delete(created) if claim.deleting else created

    def delete(self, claim: Object) -> Object:
        """The claim, once Kubernetes has removed its own finalizer."""
        self.admin.delete(*CLAIMS, name_of(claim), namespace=self.namespace)
        return eventually(lambda: self._held(name_of(claim)), what="a claim that only our finalizer holds")

    def _held(self, name: str) -> Object | None:
        claim = self.admin.get(*CLAIMS, name, namespace=self.namespace)
        return claim if claim["metadata"]["finalizers"] == [HOLD] else None

    def update(self, stored: Object, case: Case) -> Object:
        """Puts what the case sends, with what a client has from its last read."""
        sent = case.sent(name=name_of(stored), namespace=self.namespace)
        metadata = _without(stored["metadata"], "deletionTimestamp", "annotations")
        if case.new.deleting:
            metadata["deletionTimestamp"] = stored["metadata"]["deletionTimestamp"]
        spec = stored["spec"] | {"resources": sent["spec"]["resources"]}
        annotations = {"annotations": case.new.annotations}
        return self.admin.update(sent | {"metadata": metadata | annotations, "spec": spec})

    def annotate(self, stored: Object, size: str) -> Object:
        patch = {"metadata": {"annotations": Claim(size=size).annotations}}
        return self.admin.patch(*CLAIMS, name_of(stored), patch, namespace=self.namespace)


class Webhook:
    """Answers admission reviews over TLS with what the hook says."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_broken = False

    def answer(self, path: str, body: bytes) -> JsonObject | None:
        self.calls += 1
        if self.is_broken or path != "/volume-claim/admit":
            return None
        return admit(wire.parse(AdmissionReview, body)).response.body()


@pytest.fixture(scope="module", params=["policy", "webhook"])
def step(request: pytest.FixtureRequest, controlplane_binaries: Path) -> Iterator[Step]:
    """Each on a control plane of its own: elsewhere the default installation may be there, with the policy."""
    with ControlPlane(controlplane_binaries) as control_plane:
        prepare(control_plane)
        ways = {"policy": by_policy, "webhook": by_webhook}
        with ways[request.param](control_plane) as webhook:
            step = Step(control_plane.admin, "default", webhook)
            probe = step.create(Claim())
            sizes = iter(range(11, 1000))
            eventually(lambda: grows(step, probe, f"{next(sizes)}Gi"), what="the admission step to be taken")
            yield step


def grows(step: Step, claim: Object, size: str) -> bool:
    return request_of(step.annotate(claim, size)) == size


def prepare(control_plane: ControlPlane) -> None:
    for name, expandable in ((STORAGE_CLASS, True), ("fixed", False)):
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
        control_plane.admin.create(kind | {"provisioner": "example.com/none", "allowVolumeExpansion": expandable})


@contextmanager
def by_policy(control_plane: ControlPlane) -> Iterator[None]:
    path = str(COMPONENTS / "admission-policy" / "policy.yaml")
    control_plane.kubectl("apply", "--validate=strict", "--filename", path)
    yield


@contextmanager
def by_webhook(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The configuration that we ship, pointed at this process."""
    webhook = Webhook()
    with serving(webhook, control_plane.folder) as url:
        configuration = yaml.safe_load((COMPONENTS / "admission-webhook" / "webhook.yaml").read_text())
        path = configuration["webhooks"][0]["clientConfig"]["service"]["path"]
        authority = base64.b64encode(control_plane.ca_file.read_bytes()).decode()
        configuration["webhooks"][0]["clientConfig"] = {"url": url + path, "caBundle": authority}
        control_plane.kubectl("apply", "--validate=strict", "--filename=-", input=json.dumps(configuration))
        yield webhook


@contextmanager
def serving(webhook: Webhook, folder: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "serving.crt", folder / "serving.key")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(webhook.answer)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def handler(answer: Callable[[str, bytes], JsonObject | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            path = self.path.partition("?")[0]  # the API server adds its timeout
            found = answer(path, self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(found).encode() if found else b"broken"
            self.send_response(200 if found else 500)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def request_of(claim: Object) -> str:
    return str(claim["spec"]["resources"]["requests"]["storage"])


def _without(of: JsonObject, *keys: str) -> JsonObject:
    return {key: value for key, value in of.items() if key not in keys}


@pytest.mark.parametrize("case", STORABLE.values(), ids=STORABLE.keys())
def test_what_a_claim_requests_after_an_update(step: Step, case: Case) -> None:
    if case.old is None:
        assert request_of(step.create(case.new)) == case.request
        return
    stored = step.create(case.old)
    assert request_of(stored) == case.old.request

    updated = step.update(stored, case)

    assert request_of(updated) == case.request
    assert updated["metadata"].get("annotations", {}) == case.new.annotations
    assert updated.get("status") == stored.get("status")


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items() if case.unstorable])
def test_the_api_server_has_no_such_claim(step: Step, case: Case) -> None:
    assert case.old
    if case.old.request is None:
        with pytest.raises(Invalid, match="Required value"):
            step.create(case.old)
    else:
        assert step.create(case.old)["status"]["phase"] == "Pending"


def test_a_storage_class_that_cannot_expand_refuses_the_grown_size(step: Step) -> None:
    """And with it the annotation: it never arrives."""
    claim = step.create(Claim(), storageClassName="fixed")

    with pytest.raises(Forbidden, match="must support resize"):
        step.annotate(claim, "12Gi")
    assert request_of(step.annotate(claim, "9Gi")) == "10Gi"


def test_a_quota_counts_the_grown_size(step: Step) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "narrow"}}
    step.admin.create(namespace)
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "narrow"}}
    step.admin.create(quota | {"spec": {"hard": {"requests.storage": "15Gi"}}})
    eventually(
        lambda: "hard" in step.admin.get("v1", "resourcequotas", "q", namespace="narrow")["status"], what="a quota"
    )
    narrow = Step(step.admin, "narrow")
    claim = narrow.create(Claim())

    with pytest.raises(Forbidden, match="exceeded quota"):
        narrow.annotate(claim, "16Gi")
    assert request_of(narrow.annotate(claim, "15Gi")) == "15Gi"


@pytest.mark.parametrize("step", ["webhook"], indirect=True)
def test_the_webhook_is_not_asked_about_other_updates(step: Step) -> None:
    claim = step.create(Claim(size="10Gi"))
    assert step.webhook
    before = step.webhook.calls

    step.admin.patch(*CLAIMS, name_of(claim), {"metadata": {"labels": {"a": "b"}}}, namespace=step.namespace)
    step.admin.patch(
        *CLAIMS, name_of(claim), {"spec": {"resources": {"requests": {"storage": "11Gi"}}}}, namespace=step.namespace
    )
    assert step.webhook.calls == before
    step.annotate(claim, "12Gi")
    assert step.webhook.calls == before + 1


@pytest.mark.parametrize("step", ["webhook"], indirect=True)
def test_a_webhook_that_fails_stands_in_nobodys_way(step: Step) -> None:
    claim = step.create(Claim())
    assert step.webhook

    step.webhook.is_broken = True
    try:
        assert request_of(step.annotate(claim, "12Gi")) == "10Gi"
    finally:
        step.webhook.is_broken = False
    assert request_of(step.annotate(claim, "13Gi")) == "13Gi"
