"""A small synchronous client of the Kubernetes API. Objects are plain dicts, as JSON has them."""

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx

Object: TypeAlias = dict[str, Any]
Objects: TypeAlias = list[Object]  # the method `list` hides the builtin inside the class

_TIMEOUT_SECONDS = 60
_BUSY_SECONDS = 30


class ApiError(Exception):
    """The API server answered with a failure."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class Conflict(ApiError):
    """The object changed meanwhile, or a precondition does not hold."""


class AlreadyExists(ApiError):
    """An object of this name is there already."""


class NotFound(ApiError):
    """No such object, or no such kind."""


class Forbidden(ApiError):
    """The roles of this user do not allow it, or an admission plugin refused it."""


class Invalid(ApiError):
    """The object does not fit its schema."""


_ERRORS = {error.__name__: error for error in (Conflict, AlreadyExists, NotFound, Forbidden, Invalid)}


@dataclass(frozen=True)
class Resource:
    """What discovery says of one plural."""

    plural: str
    kind: str
    namespaced: bool
    has_status: bool


class KubeClient:
    """One user's view of one API server. Safe to use from several threads."""

    def __init__(self, url: str, token: str, ca_file: Path, *, page_size: int = 500) -> None:
        self._http = httpx.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(ca_file)),
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,  # a proxy of the user's has no way to our loopback
        )
        self._page_size = page_size
        self._discovered: dict[str, dict[str, Resource]] = {}

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def forget(self) -> None:
        """What the API server said about its kinds."""
        self._discovered.clear()

    def resource(self, api_version: str, plural: str) -> Resource:
        return self._discover(api_version, plural=plural)

    def resource_of(self, obj: Object) -> Resource:
        return self._discover(obj["apiVersion"], kind=obj["kind"])

    def list(
        self, api_version: str, plural: str, *, namespace: str | None = None, label_selector: str | None = None
    ) -> Objects:
        """All objects, of all namespaces if none is given. Items carry their apiVersion and kind."""
        kind = self.resource(api_version, plural).kind
        parameters = {"limit": str(self._page_size)} | ({"labelSelector": label_selector} if label_selector else {})
        found: Objects = []
        while True:
            page = self.request("GET", _path(api_version, plural, namespace=namespace), parameters=parameters)
            found += [{"apiVersion": api_version, "kind": kind, **item} for item in page["items"]]
            if not page["metadata"].get("continue"):
                return found
            parameters["continue"] = page["metadata"]["continue"]

    def get(self, api_version: str, plural: str, name: str, *, namespace: str | None = None) -> Object:
        return self.request("GET", _path(api_version, plural, name, namespace=namespace))

    def create(self, obj: Object) -> Object:
        return self.request("POST", self._path_of(obj, with_name=False), body=obj)

    def update(self, obj: Object) -> Object:
        return self.request("PUT", self._path_of(obj), body=obj)

    def update_status(self, obj: Object) -> Object:
        return self.request("PUT", self._path_of(obj) + "/status", body=obj)

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        patch: Object,
        *,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """A JSON merge patch: null removes a field, a list is replaced."""
        path = _path(api_version, plural, name, namespace=namespace) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, body=patch, headers={"Content-Type": "application/merge-patch+json"})

    def delete(
        self, api_version: str, plural: str, name: str, *, namespace: str | None = None, uid: str | None = None
    ) -> None:
        """Deletes in the background. With a uid, an object that was recreated under the name is a Conflict."""
        options: Object = {"propagationPolicy": "Background"} | ({"preconditions": {"uid": uid}} if uid else {})
        self.request("DELETE", _path(api_version, plural, name, namespace=namespace), body=options)

    def token_for(self, service_account: str, namespace: str) -> str:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36000}}
        path = _path("v1", "serviceaccounts", service_account, namespace=namespace)
        token: str = self.request("POST", f"{path}/token", body=body)["status"]["token"]
        return token

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        parameters: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Object:
        """Anything else, such as `request("GET", "/version")`."""
        deadline = time.monotonic() + _BUSY_SECONDS
        while True:
            response = self._http.request(method, path, json=body, params=parameters, headers=headers)
            # 429 with Retry-After is "not yet", for instance while the cache of a fresh CRD fills: every client waits.
            wait = response.headers.get("Retry-After") if response.status_code == 429 else None
            if not wait or time.monotonic() > deadline:
                break
            time.sleep(min(float(wait), 1))
        if response.is_error:
            raise _error(response)
        answer: Object = response.json()
        return answer

    def _path_of(self, obj: Object, *, with_name: bool = True) -> str:
        metadata = obj["metadata"]
        resource = self.resource_of(obj)
        if resource.namespaced and not metadata.get("namespace"):
            raise ValueError(f"a {resource.kind} is namespaced: set metadata.namespace")
        namespace = metadata["namespace"] if resource.namespaced else None
        name = metadata["name"] if with_name else None
        return _path(obj["apiVersion"], resource.plural, name, namespace=namespace)

    def _discover(self, api_version: str, *, plural: str | None = None, kind: str | None = None) -> Resource:
        for known in (self._discovered.get(api_version, {}), None):  # None: the kind may have come since we looked
            resources = self._discovery(api_version) if known is None else known
            for resource in resources.values():
                if plural == resource.plural or kind == resource.kind:
                    return resource
        hint = "if it is a custom resource, apply its CRD and wait until it is established"
        raise NotFound(404, "NotFound", f"the API server has no {plural or kind} in {api_version}; {hint}")

    def _discovery(self, api_version: str) -> dict[str, Resource]:
        try:
            listed = self.request("GET", _prefix(api_version))["resources"]
        except NotFound:  # no kind of this group is served
            return {}
        names = {entry["name"] for entry in listed}
        self._discovered[api_version] = {
            entry["name"]: Resource(
                entry["name"], entry["kind"], entry["namespaced"], has_status=f"{entry['name']}/status" in names
            )
            for entry in listed
            if "/" not in entry["name"]
        }
        return self._discovered[api_version]


def _prefix(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _path(api_version: str, plural: str, name: str | None = None, *, namespace: str | None = None) -> str:
    parts = [_prefix(api_version), *(["namespaces", namespace] if namespace else []), plural, *([name] if name else [])]
    return "/".join(parts)


def _error(response: httpx.Response) -> ApiError:
    try:
        status = response.json()
    except ValueError:
        status = {"message": response.text.strip()}  # a path that nobody serves is answered in plain text
    reason = status.get("reason") or ("NotFound" if response.status_code == 404 else "")
    return _ERRORS.get(reason, ApiError)(response.status_code, reason, status.get("message", ""))
