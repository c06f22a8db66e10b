"""A real Kubernetes control plane on the loopback, without nodes, and a real Prometheus beside it."""

import json
import os
import secrets
import shutil
import ssl
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NewType, Self

import httpx
import yaml

from tests.e2e.certificates import Certificates, write_certificates
from tests.e2e.kube import KubeClient, NotFound
from tests.e2e.processes import Process, eventually, start_on_free_port

KEEP_LOGS = "METAHOOKS_KEEP_LOGS"
ADMIN = "admin"
CONTROLLER_MANAGER = "system:kube-controller-manager"

# A list of what we need rather than of what to leave out, because tests play the parts that are missing here:
# node-lifecycle-controller and cloud-node-lifecycle-controller would mark Nodes without a kubelet Unknown, taint and
# delete them; ttl-controller annotates Nodes; the persistentvolume binder and expander would unbind claims that a test
# bound by hand in the role of a CSI driver.
_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "daemonset-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-protection-controller",  # an admission plugin adds the finalizers that these two remove
    "persistentvolumeclaim-protection-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
)

_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
}

AuditMark = NewType("AuditMark", int)


@dataclass(frozen=True)
class AuditRecord:
    """One write that the API server answered, whether it let it through or not."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int


class ControlPlane:
    """etcd, kube-apiserver and kube-controller-manager, from `with` to the end of its block."""

    url: str
    folder: Path
    ca_file: Path
    admin_token: str
    admin: KubeClient
    processes: tuple[Process, ...]

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._stack = ExitStack()
        self._barriers: set[str] = set()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.folder = _scratch_folder(stack, "metahooks-controlplane-")
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def kubeconfig(self, token: str) -> Path:
        """A kubeconfig file for the owner of the token."""
        path = self.folder / f"kubeconfig-{sha256(token.encode()).hexdigest()[:12]}"
        if not path.exists():  # what is written once does not change under a kubectl that reads it
            path.touch(mode=0o600)
            path.write_text(yaml.safe_dump(_kubeconfig(self.url, self.ca_file, token)))
        return path

    def kubectl(self, *arguments: str, input: str | None = None, token: str | None = None) -> str:  # noqa: A002  # named as in subprocess.run
        """What kubectl prints, as the admin unless another token is given."""
        kubeconfig = self.kubeconfig(token or self.admin_token)
        done = subprocess.run(
            [self._binaries / "kubectl", f"--kubeconfig={kubeconfig}", *arguments],
            input=input,
            capture_output=True,
            text=True,
            env={**os.environ, "HOME": str(self.folder), "KUBERC": "off"},  # keep the user's own settings and cache out
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def mark(self) -> AuditMark:
        """This moment in the audit log, for `writes_since`."""
        self._await_audit_log()
        return AuditMark(self._audit_log.stat().st_size)

    def writes(self, user: str) -> list[AuditRecord]:
        """What the user wrote, or tried to, since the start; dry runs are left out."""
        return self.writes_since(AuditMark(0), user)

    def writes_since(self, mark: AuditMark, user: str) -> list[AuditRecord]:
        self._await_audit_log()
        with self._audit_log.open("rb") as log:
            log.seek(mark)
            events = [json.loads(line) for line in log if line.endswith(b"\n")]
        return [_audit_record(event) for event in events if event["user"]["username"] == user and self._counts(event)]

    @property
    def _audit_log(self) -> Path:
        return self.folder / "audit.log"

    def _counts(self, event: dict[str, Any]) -> bool:
        is_ours = event["auditID"] in self._barriers
        return event["stage"] == "ResponseComplete" and not is_ours and "dryRun=All" not in event["requestURI"]

    def _await_audit_log(self) -> None:
        """A write may be answered just before its line is in the log: one of our own, seen there, says all are in."""
        barrier = str(uuid.uuid4())
        self._barriers.add(barrier)
        seen_until = self._audit_log.stat().st_size if self._audit_log.exists() else 0
        self.admin.request(
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            headers={"Audit-ID": barrier},
        )
        eventually(lambda: barrier in self._audit_text(seen_until), what="the audit log to catch up")

    def _audit_text(self, start: int) -> str:
        with self._audit_log.open("rb") as log:
            log.seek(start)
            return log.read().decode()

    def _start(self, stack: ExitStack) -> None:
        certificates = write_certificates(self.folder)
        self.ca_file = certificates.ca_file
        self.admin_token, controllers_token = secrets.token_hex(16), secrets.token_hex(16)
        _write_tokens(self.folder / "tokens.csv", {self.admin_token: ADMIN, controllers_token: CONTROLLER_MANAGER})
        (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(_AUDIT_POLICY))
        etcd, etcd_url = self._start_server(stack, "etcd", lambda port: self._etcd(port, certificates), "/health")
        api_server, self.url = self._start_server(
            stack, "kube-apiserver", lambda port: self._api_server(port, certificates, etcd_url), "/readyz"
        )
        self.admin = stack.enter_context(KubeClient(self.url, self.admin_token, self.ca_file))
        manager = stack.enter_context(
            Process(self._controller_manager(controllers_token, certificates), log=self.folder / "controllers.log")
        )
        manager.wait_until(self._has_default_service_account)
        self.processes = (etcd, api_server, manager)

    def _start_server(
        self, stack: ExitStack, name: str, arguments: Callable[[int], list[str]], ready_path: str
    ) -> tuple[Process, str]:
        trust = ssl.create_default_context(cafile=str(self.ca_file))
        with httpx.Client(verify=trust, trust_env=False) as client:
            process, port = start_on_free_port(
                lambda port: [self._binaries / name, *arguments(port)],
                lambda port: _answers(client, f"https://127.0.0.1:{port}{ready_path}"),
                log=self.folder / f"{name}.log",
            )
        stack.enter_context(process)
        return process, f"https://127.0.0.1:{port}"

    def _etcd(self, port: int, certificates: Certificates) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=https://127.0.0.1:{port}",
            f"--advertise-client-urls=https://127.0.0.1:{port}",
            "--listen-peer-urls=http://127.0.0.1:0",  # it has no peers: any port
            f"--cert-file={certificates.serving_certificate}",
            f"--key-file={certificates.serving_key}",
        ]

    def _api_server(self, port: int, certificates: Certificates, etcd_url: str) -> list[str]:
        return [
            f"--etcd-servers={etcd_url}",
            f"--etcd-cafile={certificates.ca_file}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # no pods look for the API server, and a loopback is no valid endpoint
            f"--secure-port={port}",
            f"--tls-cert-file={certificates.serving_certificate}",
            f"--tls-private-key-file={certificates.serving_key}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",  # as in most clusters: agents want it
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={certificates.service_account_key}",
            f"--service-account-signing-key-file={certificates.service_account_key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--audit-policy-file={self.folder / 'audit-policy.yaml'}",
            f"--audit-log-path={self._audit_log}",
            "--audit-log-maxsize=0",  # marks are offsets in one file: never rotate it
        ]

    def _controller_manager(self, token: str, certificates: Certificates) -> list[str | Path]:
        return [
            self._binaries / "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig(token)}",
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--service-account-private-key-file={certificates.service_account_key}",
            f"--root-ca-file={certificates.ca_file}",
            "--leader-elect=false",
            "--secure-port=0",
        ]

    def _has_default_service_account(self) -> bool:
        try:
            self.admin.get("v1", "serviceaccounts", "default", namespace="default")
        except NotFound:
            return False
        return True


class KubectlError(Exception):
    """kubectl failed; the message holds what it said."""


class Prometheus:
    """A Prometheus that scrapes loopback targets, `{job: ["127.0.0.1:port", ...]}`, every second.

    From `with` to the end of its block; inside, a test may stop it and start it again.
    """

    url: str
    process: Process

    def __init__(
        self, binaries: Path, scrape_targets: Mapping[str, Sequence[str]], *, rule_files: Sequence[Path] = ()
    ) -> None:
        self._binary = binaries / "prometheus"
        self._config = _prometheus_config(scrape_targets, rule_files)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._folder = _scratch_folder(stack, "metahooks-prometheus-")
            (self._folder / "prometheus.yaml").write_text(yaml.safe_dump(self._config))
            self._http = stack.enter_context(httpx.Client(trust_env=False))
            self.process, self._port = start_on_free_port(self._command, self._is_ready, log=self._log)
            stack.callback(self.stop)
            self.url = f"http://127.0.0.1:{self._port}"
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def stop(self) -> None:
        self.process.stop()

    def start(self) -> None:
        """Again on the same port, with what it had stored."""
        self.process = Process(self._command(self._port), log=self._log)
        self.process.wait_until(lambda: self._is_ready(self._port))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The result of an instant query: one `{"metric": {...}, "value": [time, "value"]}` per series."""
        response = self._http.get(f"{self.url}/api/v1/query", params={"query": expression}).raise_for_status()
        result: list[dict[str, Any]] = response.json()["data"]["result"]
        return result

    @property
    def _log(self) -> Path:
        return self._folder / "prometheus.log"

    def _command(self, port: int) -> list[str | Path]:
        return [
            self._binary,
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--scrape.discovery-reload-interval=100ms",  # hidden; the first scrape else waits for 5 s
        ]

    def _is_ready(self, port: int) -> bool:
        """It is ready, and it is ours: it stores in our folder."""
        try:
            ready = self._http.get(f"http://127.0.0.1:{port}/-/ready")
            flags = self._http.get(f"http://127.0.0.1:{port}/api/v1/status/flags")
        except httpx.TransportError:
            return False
        return ready.is_success and flags.is_success and str(self._folder) in flags.text


def _scratch_folder(stack: ExitStack, prefix: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if os.environ.get(KEEP_LOGS):
        stack.callback(lambda: sys.stderr.write(f"\n{KEEP_LOGS} is set: logs are kept in {folder}\n"))
    else:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _answers(client: httpx.Client, url: str) -> bool:
    """Says that it is well. A server that is not ours fails by its certificate, which our CA did not sign."""
    try:
        return client.get(url).is_success
    except httpx.TransportError:
        return False


def _write_tokens(path: Path, users: Mapping[str, str]) -> None:
    path.touch(mode=0o600)
    path.write_text("".join(f"{token},{user},{user},system:masters\n" for token, user in users.items()))


def _kubeconfig(url: str, ca_file: Path, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": {"server": url, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }


def _audit_record(event: dict[str, Any]) -> AuditRecord:
    target = event.get("objectRef", {})
    return AuditRecord(
        user=event["user"]["username"],
        verb=event["verb"],
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=event["responseStatus"]["code"],
    )


def _prometheus_config(targets: Mapping[str, Sequence[str]], rule_files: Sequence[Path]) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rule_files],
        "scrape_configs": [
            # honor_labels: an exporter of the tests speaks for many nodes and claims
            {"job_name": job, "honor_labels": True, "static_configs": [{"targets": list(addresses)}]}
            for job, addresses in targets.items()
        ],
    }
