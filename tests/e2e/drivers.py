"""Two ways to drive the loop, for the same tests: our stand-in, always, and the real Metacontroller where there is one.

Both act as the ServiceAccount that we deploy for Metacontroller: a permission that our RBAC lacks fails a test.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

import httpx
import yaml

from hooks.controllers import Controller, read_controllers
from hooks.kube import cluster
from hooks.kube.cluster import Kind, Kinds, Snapshot, UnknownKind
from hooks.kube.metadata import JsonObject, name_of, namespace_of, object_key, uid_of
from hooks.rehearsal import HookFailed, Rehearsal
from tests.e2e import kube
from tests.e2e.controlplane import AuditRecord, ControlPlane
from tests.e2e.hook_server import ROOT
from tests.e2e.kube import KubeClient
from tests.e2e.processes import NotInTimeError, Process, eventually

NAMESPACE = "metahooks"
USER = f"system:serviceaccount:{NAMESPACE}:metacontroller"
CONTROLLER_API = "metacontroller.k8s.io/v1alpha1"


class Driver(Protocol):
    """Somebody who plays Metacontroller."""

    name: str

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 30) -> None:
        """Lets the loop run until the check holds."""

    def restart(self) -> None:
        """All that was cached is forgotten."""

    def run_twice_more(self, parents: int, syncs: Callable[[], int]) -> Sequence[AuditRecord]:
        """Syncs every parent two more times and returns what was written meanwhile: nothing, if all is at rest.

        `syncs` tells how many sync requests the hooks have answered so far.
        """

    def stop(self) -> None: ...


class StandIn:
    """Our rehearsal of Metacontroller, on the live API server."""

    name = "stand-in"

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        token = control_plane.admin.token_for("metacontroller", NAMESPACE)
        self._client = KubeClient(control_plane.url, token, control_plane.ca_file)
        self._kinds = LiveKinds(self._client)
        self._http = httpx.Client(timeout=10)
        self._urls: dict[str, str] = {}
        self._rehearsal = Rehearsal([], self._kinds, self._call)
        self._lock = threading.Lock()
        self._rounds = 0
        self._errors: Sequence[str] = []

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 30) -> None:
        """Threads that wait at the same time share a round: each sees one that began after it asked."""

        def after_a_round() -> bool:
            begun = self._rounds
            with self._lock:
                if self._rounds == begun:
                    self._round()
            return bool(check())

        try:
            eventually(after_a_round, what=what, seconds=seconds)
        except NotInTimeError as error:
            raise NotInTimeError(f"{error}; errors of the last round: {self._errors}") from error

    def restart(self) -> None:
        self._rehearsal.forget()
        self._client.forget()

    def run_twice_more(self, parents: int, syncs: Callable[[], int]) -> Sequence[AuditRecord]:
        mark, before = self._control_plane.mark(), syncs()
        for _ in range(2):
            self.restart()
            self._round()
        assert syncs() >= before + 2 * parents
        return _written(self._control_plane.writes_since(mark, USER))

    def stop(self) -> None:
        self._http.close()
        self._client.close()

    def _round(self) -> None:
        self._rounds += 1
        manifests = [
            manifest
            for plural in ("compositecontrollers", "decoratorcontrollers")
            for manifest in self._client.list(CONTROLLER_API, plural)
        ]
        self._rehearsal.controllers = [found for manifest in manifests for found in self._started(manifest)]
        webhooks = [hook["webhook"]["url"] for manifest in manifests for hook in manifest["spec"]["hooks"].values()]
        self._urls = {httpx.URL(url).path: url for url in webhooks}
        self._errors = self._rehearsal.round(LiveSnapshot(self._client), LiveWriter(self._client)).errors

    def _started(self, manifest: JsonObject) -> Sequence[Controller]:
        """None while a kind of it is missing: Metacontroller tries again later."""
        with suppress(UnknownKind):
            return read_controllers([manifest], self._kinds)
        return []

    def _call(self, path: str, body: JsonObject) -> JsonObject:
        try:
            response = self._http.post(self._urls[path], json=body)
        except httpx.TransportError as error:
            raise HookFailed(f"{path}: {error}") from error
        if response.status_code != 200:
            raise HookFailed(f"{path}: {response.status_code} {response.text}")
        answer: JsonObject = response.json()
        return answer


class LiveKinds(Kinds):
    """Kinds as the API server tells them."""

    def __init__(self, client: KubeClient) -> None:
        super().__init__([])
        self._client = client

    def by_resource(self, api_version: str, resource: str) -> Kind:
        try:
            found = self._client.resource(api_version, resource)
        except kube.NotFound as error:
            raise UnknownKind(str(error)) from error
        kind = Kind(api_version, found.kind, found.plural, found.namespaced, found.has_status)
        self._by_name[api_version, kind.kind] = kind
        return kind


class LiveSnapshot(Snapshot):
    """Objects as the API server has them; each kind is listed once, when it is first asked for."""

    def __init__(self, client: KubeClient) -> None:
        self._listed: dict[str, dict[str, JsonObject]] = {}
        super().__init__(self._listed)
        self._client = client

    def of(self, kind: Kind, namespace: str = "") -> Mapping[str, JsonObject]:
        if kind.group_key not in self._listed:
            objects = self._client.list(kind.api_version, kind.resource)
            self._listed[kind.group_key] = {object_key(obj): obj for obj in objects}
        return super().of(kind, namespace)


class LiveWriter:
    """Writes to the API server, with the errors that a rehearsal knows."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read(self, obj: JsonObject) -> JsonObject | None:
        resource = self._client.resource_of(obj)
        try:
            return self._client.get(
                obj["apiVersion"], resource.plural, name_of(obj), namespace=namespace_of(obj) or None
            )
        except kube.NotFound:
            return None

    def create(self, obj: JsonObject) -> None:
        _translated(self._client.create, obj)

    def update(self, obj: JsonObject) -> JsonObject:
        return _translated(self._client.update, obj)

    def update_status(self, obj: JsonObject) -> JsonObject:
        return _translated(self._client.update_status, obj)

    def delete(self, obj: JsonObject) -> None:
        plural = self._client.resource_of(obj).plural
        try:
            self._client.delete(
                obj["apiVersion"], plural, name_of(obj), namespace=namespace_of(obj) or None, uid=uid_of(obj)
            )
        except kube.NotFound as error:
            raise cluster.NotFound(str(error)) from error
        except kube.Conflict as error:
            raise cluster.Conflict(str(error)) from error


def _translated(write: Callable[[JsonObject], JsonObject], obj: JsonObject) -> JsonObject:
    try:
        return write(obj)
    except kube.Conflict as error:
        raise cluster.Conflict(str(error)) from error
    except kube.NotFound as error:
        raise cluster.NotFound(str(error)) from error
    except kube.AlreadyExists as error:
        raise cluster.AlreadyExists(str(error)) from error
    except kube.Invalid as error:
        raise HookFailed(str(error)) from error
    except kube.Forbidden as error:
        if USER in error.message:
            raise  # our RBAC lacks something
        raise HookFailed(str(error)) from error  # an admission plugin said no: the sync fails and is tried again


class RealMetacontroller:
    """The `metacontroller` program, with the flags that we deploy."""

    name = "metacontroller"

    def __init__(self, control_plane: ControlPlane) -> None:
        self._control_plane = control_plane
        self._log = control_plane.folder / "metacontroller.log"
        self._start()

    def until(self, check: Callable[[], object], what: str, *, seconds: float = 30) -> None:
        eventually(lambda: bool(check()), what=what, seconds=seconds)

    def restart(self) -> None:
        self._process.stop()
        self._start()

    def run_twice_more(self, parents: int, syncs: Callable[[], int]) -> Sequence[AuditRecord]:
        """It syncs everything once when it starts."""
        mark = self._control_plane.mark()
        for _ in range(2):
            enough = syncs() + parents
            self.restart()
            eventually(partial(_reached, syncs, enough), what="all parents to be synced", seconds=120)
            time.sleep(0.5)  # it writes after it was answered: give a write that should not come the time to come
        written = _written(self._control_plane.writes_since(mark, USER))
        return [record for record in written if not _is_own_report(record)]

    def stop(self) -> None:
        self._process.stop()

    def _start(self) -> None:
        token = self._control_plane.admin.token_for("metacontroller", NAMESPACE)
        anywhere = ["--metrics-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0"]
        kubeconfig = self._control_plane.kubeconfig(token)
        self._process = Process(
            [real_metacontroller() or "", f"--kubeconfig={kubeconfig}", *shipped_flags(), *anywhere], log=self._log
        )


def _reached(count: Callable[[], int], enough: int) -> bool:
    return count() >= enough


def _is_own_report(record: AuditRecord) -> bool:
    """Metacontroller says in Events that it starts its controllers, which are in no namespace."""
    return record.resource == "events" and record.namespace == "default"


def _written(records: Sequence[AuditRecord]) -> Sequence[AuditRecord]:
    """Without attempts that the API server refused."""
    return [record for record in records if record.code < 300]


def real_metacontroller() -> str | None:
    """The program that METACONTROLLER names, or the one on PATH."""
    return shutil.which(os.environ.get("METACONTROLLER") or "metacontroller")


def shipped_flags() -> list[str]:
    """The flags in the StatefulSet that we deploy."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "base" / "metacontroller.yaml").read_text())
    workload = next(document for document in documents if document["kind"] == "StatefulSet")
    flags: list[str] = workload["spec"]["template"]["spec"]["containers"][0]["args"]
    return flags


DRIVERS: dict[str, Callable[[ControlPlane], Driver]] = {
    StandIn.name: StandIn,
    RealMetacontroller.name: RealMetacontroller,
}
