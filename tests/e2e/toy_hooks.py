"""Hooks that exist to see what Metacontroller does with their answers.

A composite with children of every update strategy, and a decorator with an attachment. They keep the last request for
each parent.
"""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from hooks.kube.metadata import JsonObject, name_of, namespace_of

GROUP = "toys.metahooks.test"


def gadget_customize(request: JsonObject) -> JsonObject:
    namespace = namespace_of(request["parent"])
    return {
        "relatedResources": [
            {
                "apiVersion": "v1",
                "resource": "configmaps",
                "namespace": namespace,
                "labelSelector": {"matchLabels": {"toy": "related"}},
            },
            {"apiVersion": "v1", "resource": "namespaces", "names": [namespace]},
            {"apiVersion": "v1", "resource": "serviceaccounts", "namespace": namespace, "names": ["no-such-one"]},
        ]
    }


def gadget_sync(request: JsonObject) -> JsonObject:
    parent, related = request["parent"], request["related"]
    spec, metadata = parent["spec"], {"namespace": namespace_of(parent)}
    seen = ",".join(sorted(key.partition("/")[2] for key in related["ConfigMap.v1"]))
    annotations = {"annotations": {"toy/colour": spec["colour"]}} if "colour" in spec else {}
    children: list[JsonObject] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata | annotations | {"name": f"{name_of(parent)}-{name}"},
            "data": {"size": str(spec["size"]), "related": seen, "escaped": "<&>"},
        }
        for name in spec["names"]
    ]
    children.append(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata | {"name": name_of(parent)},
            "spec": {"selector": {"toy": "x"}, "ports": spec["ports"]},
        }
    )
    children.append(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata | {"name": name_of(parent)},
            "spec": {"hard": {"pods": str(spec["size"])}},
        }
    )
    children.append(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": metadata | {"name": name_of(parent), "annotations": {"toy/size": str(spec["size"])}},
        }
    )
    return {"status": {"size": spec["size"], "names": spec["names"]}, "children": children}


def shadow_sync(request: JsonObject) -> JsonObject:
    parent = request["object"]
    shadow = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name_of(parent)}-shadow", "namespace": namespace_of(parent)},
        "type": "Opaque",
    }
    return {
        "labels": {"toy/decorated": "yes", "toy/remove-me": None},
        "annotations": {"toy/keys": ",".join(sorted(parent.get("data", {})))},
        "attachments": [shadow],
        "resyncAfterSeconds": 0,
    }


ROUTES: Mapping[str, Callable[[JsonObject], JsonObject]] = {
    "/gadget/customize": gadget_customize,
    "/gadget/sync": gadget_sync,
    "/shadow/sync": shadow_sync,
}


class ToyHooks:
    """A server for the toy hooks, from `with` to the end of its block."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str], JsonObject] = {}
        self.syncs = 0
        self._lock = threading.Lock()
        toys = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the name is http.server's
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                parent = request.get("parent") or request["object"]
                with toys._lock:
                    toys.syncs += self.path.endswith("/sync")
                    toys.requests[namespace_of(parent), self.path, name_of(parent)] = request
                answer = json.dumps(ROUTES[self.path](request)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is http.server's
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def of(self, namespace: str) -> dict[tuple[str, str, str], JsonObject]:
        """The requests about parents in that namespace."""
        with self._lock:
            return {key: request for key, request in self.requests.items() if key[0] == namespace}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
