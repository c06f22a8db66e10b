"""The control plane under the end-to-end tests is a real one, and leaves nothing behind."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.e2e.controlplane import KEEP_LOGS, ControlPlane, KubectlError, Prometheus
from tests.e2e.kube import AlreadyExists, Conflict, Forbidden, KubeClient, NotFound, Object, Resource
from tests.e2e.processes import Process, ProcessError, eventually, start_on_free_port

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).resolve().parents[2]


def config_map(name: str, *, namespace: str, **metadata: object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **metadata}}


@pytest.fixture
def stranger(control_plane: ControlPlane, admin: KubeClient, namespace: str) -> Iterator[KubeClient]:
    """A service account without roles."""
    admin.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "stranger", "namespace": namespace}}
    )
    token = admin.token_for("stranger", namespace)
    with KubeClient(control_plane.url, token, control_plane.ca_file) as client:
        yield client


def test_is_the_kubernetes_that_we_support(admin: KubeClient, control_plane: ControlPlane) -> None:
    assert re.fullmatch(r"v1\.36\.\d+", admin.request("GET", "/version")["gitVersion"])
    assert "serverVersion" in control_plane.kubectl("version", "--output=yaml")


def test_discovery_tells_scope_and_status(admin: KubeClient) -> None:
    assert admin.resource("v1", "nodes") == Resource("nodes", "Node", namespaced=False, has_status=True)
    assert admin.resource("v1", "configmaps") == Resource("configmaps", "ConfigMap", namespaced=True, has_status=False)
    with pytest.raises(NotFound, match="no unicorns in v1"):
        admin.resource("v1", "unicorns")


def test_sees_a_kind_that_came_later(admin: KubeClient, namespace: str) -> None:
    group = f"{namespace}.example.com"
    with pytest.raises(NotFound, match=f"no things in {group}/v1; if it is a custom resource, apply its CRD"):
        admin.resource(f"{group}/v1", "things")
    admin.create(custom_resource_definition(group))
    try:
        eventually(lambda: is_served(admin, f"{group}/v1"), what="the CRD to be served")
        admin.create(
            {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one", "namespace": namespace}}
        )
        assert names(admin.list(f"{group}/v1", "things")) == ["one"]
    finally:
        admin.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", f"things.{group}")


def test_serves_mutating_admission_policies(admin: KubeClient) -> None:
    served = admin.resource("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies")
    assert served.kind == "MutatingAdmissionPolicy"


def test_refuses_a_service_account_without_roles(
    stranger: KubeClient, control_plane: ControlPlane, admin: KubeClient, namespace: str
) -> None:
    with pytest.raises(Forbidden) as refused:
        stranger.list("v1", "configmaps", namespace=namespace)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    token = admin.token_for("stranger", namespace)
    with pytest.raises(KubectlError, match="cannot list resource"):
        control_plane.kubectl("get", "configmaps", f"--namespace={namespace}", token=token)


def test_collects_the_dependants_of_a_deleted_owner(admin: KubeClient, namespace: str) -> None:
    owner = admin.create(config_map("owner", namespace=namespace))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    admin.create(config_map("dependant", namespace=namespace, ownerReferences=[reference]))

    admin.delete("v1", "configmaps", "owner", namespace=namespace, uid=owner["metadata"]["uid"])

    eventually(
        lambda: not admin.list("v1", "configmaps", namespace=namespace),
        what="garbage collection of the dependant",
        seconds=60,
    )


def test_a_claim_goes_when_it_is_deleted(admin: KubeClient, namespace: str) -> None:
    """An admission plugin adds a finalizer: a controller has to run that removes it."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": namespace}}
    admin.create({**claim, "spec": spec})

    admin.delete("v1", "persistentvolumeclaims", "data", namespace=namespace)

    eventually(
        lambda: not admin.list("v1", "persistentvolumeclaims", namespace=namespace), what="the claim to go", seconds=60
    )


def test_the_audit_log_holds_writes_and_their_user(
    control_plane: ControlPlane, admin: KubeClient, stranger: KubeClient, namespace: str
) -> None:
    mark = control_plane.mark()
    admin.create(config_map("seen", namespace=namespace))
    admin.get("v1", "configmaps", "seen", namespace=namespace)
    admin.patch("v1", "configmaps", "seen", {"data": {"key": "value"}}, namespace=namespace)
    with pytest.raises(Forbidden):
        stranger.create(config_map("unseen", namespace=namespace))

    by_admin = control_plane.writes_since(mark, "admin")
    by_stranger = control_plane.writes_since(mark, f"system:serviceaccount:{namespace}:stranger")

    assert [(write.verb, write.resource, write.name, write.code) for write in by_admin] == [
        ("create", "configmaps", "seen", 201),
        ("patch", "configmaps", "seen", 200),
    ]
    assert [(write.verb, write.namespace, write.code) for write in by_stranger] == [("create", namespace, 403)]
    assert control_plane.writes_since(control_plane.mark(), "admin") == []
    assert set(by_admin) <= set(control_plane.writes("admin"))


def test_says_which_conflict_it_was(admin: KubeClient, namespace: str) -> None:
    first = admin.create(config_map("one", namespace=namespace))
    with pytest.raises(AlreadyExists):
        admin.create(config_map("one", namespace=namespace))
    admin.update({**first, "data": {"key": "new"}})
    with pytest.raises(Conflict):
        admin.update({**first, "data": {"key": "old"}})
    with pytest.raises(Conflict):
        admin.delete("v1", "configmaps", "one", namespace=namespace, uid="another")


def test_lists_by_label_and_past_one_page(admin: KubeClient, namespace: str, control_plane: ControlPlane) -> None:
    items = [config_map(f"item-{number}", namespace=namespace, labels={"even": str(number % 2)}) for number in range(7)]
    for item in items:
        admin.create(item)
    with KubeClient(control_plane.url, control_plane.admin_token, control_plane.ca_file, page_size=2) as client:
        listed = client.list("v1", "configmaps", namespace=namespace)
        even = client.list("v1", "configmaps", namespace=namespace, label_selector="even=0")
    assert [item["metadata"]["name"] for item in listed] == [f"item-{number}" for number in range(7)]
    assert {item["kind"] for item in listed} == {"ConfigMap"}
    assert len(even) == 4


def test_answers_what_kubectl_was_given(control_plane: ControlPlane, admin: KubeClient, namespace: str) -> None:
    control_plane.kubectl("apply", "--filename=-", input=json.dumps(config_map("applied", namespace=namespace)))
    assert admin.get("v1", "configmaps", "applied", namespace=namespace)["metadata"]["name"] == "applied"


def test_a_second_one_runs_beside_the_first_and_leaves_nothing(
    control_plane: ControlPlane,
    admin: KubeClient,
    controlplane_binaries: Path,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(KEEP_LOGS, raising=False)
    with ControlPlane(controlplane_binaries) as second:
        assert second.url != control_plane.url
        assert namespace not in names(second.admin.list("v1", "namespaces"))
        assert namespace in names(admin.list("v1", "namespaces"))
        mistaken = KubeClient(second.url, second.admin_token, control_plane.ca_file)
        with mistaken, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            mistaken.request("GET", "/version")
    assert not second.folder.exists()
    assert [process.name for process in second.processes if is_alive(process)] == []
    assert [process.name for process in control_plane.processes if not is_alive(process)] == []


def test_prometheus_scrapes_and_answers(controlplane_binaries: Path) -> None:
    with exporter('used_bytes{namespace="shop",instance="node-a"} 42\n') as address:
        with Prometheus(controlplane_binaries, {"kubelet": [address]}) as prometheus:
            found = eventually(lambda: prometheus.query("used_bytes"), what="a first scrape")
        assert found[0]["value"][1] == "42"
        assert found[0]["metric"].items() >= {"job": "kubelet", "namespace": "shop", "instance": "node-a"}.items()
        assert not is_alive(prometheus.process)


def test_a_program_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    failing = Process(["sh", "-c", "echo the reason; exit 3"], log=tmp_path / "log")
    with pytest.raises(ProcessError, match=r"(?s)sh ended with code 3.*the reason"):
        failing.wait_until(lambda: False)


def test_a_program_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    waiting = Process(["sleep", "60"], log=tmp_path / "log")
    with pytest.raises(ProcessError, match=r"(?s)sleep was not ready after 0.2 s.*\(empty\)"):
        waiting.wait_until(lambda: False, seconds=0.2)
    assert not is_alive(waiting)


def test_a_program_that_ignores_termination_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stubborn = Process(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"], log=log)
    stubborn.wait_until(lambda: "deaf" in log.read_text())
    stubborn.stop(grace_seconds=0.1)
    assert not is_alive(stubborn)


def test_a_taken_port_is_tried_again_with_another(tmp_path: Path) -> None:
    """The first program finds its port taken, as if another run had been faster."""
    complaint = "echo listen: address already in use; exit 1"
    commands = iter([["sh", "-c", complaint], ["sleep", "60"]])
    ports: list[int] = []

    def command(port: int) -> list[str]:
        ports.append(port)
        return next(commands)

    process, port = start_on_free_port(command, lambda port: len(ports) == 2, log=tmp_path / "log")
    process.stop()
    assert port == ports[1]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to end programs with their parent")
def test_programs_end_with_a_test_run_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from pathlib import Path; from tests.e2e.processes import Process; import sys, time\n"
        "print(Process(['sleep', '600'], log=Path(sys.argv[1])).pid, flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT) as run:
        assert run.stdout
        pid = int(run.stdout.readline())
        run.kill()
    eventually(lambda: not is_alive_pid(pid), what="the orphan to end")


def custom_resource_definition(group: str) -> Object:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    kind = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": kind, "versions": [version]},
    }


def is_served(client: KubeClient, api_version: str) -> bool:
    try:
        return client.resource(api_version, "things").namespaced
    except NotFound:
        return False


def names(objects: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in objects]


def is_alive(process: Process) -> bool:
    return is_alive_pid(process.pid)


def is_alive_pid(pid: int) -> bool:
    """Whether it runs; an ended orphan that nobody has reaped yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


@contextmanager
def exporter(text: str) -> Iterator[str]:
    """Serves the text to every scrape; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
