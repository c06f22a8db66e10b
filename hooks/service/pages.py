"""What a person or a probe sees: the front page, the API description, and whether the server is up."""

import asyncio
import html
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, PlainTextResponse

from hooks import wire
from hooks.kube.metadata import JsonObject
from hooks.service.endpoint import Hook
from hooks.volume_admission import AdmissionReview
from hooks.volumes.usage import UNREACHABLE, Question, Unavailable

SCHEMAS = "#/components/schemas/{name}"
ERRORS = {
    "413": "The body is larger than the server takes.",
    "422": "The body is not such a request: `field: problem`.",
    "429": "Not now; `Retry-After` says when. Nothing may be changed until then.",
}
REVIEW: JsonObject = {"request": {"uid": "1", "operation": "UPDATE", "object": {}, "oldObject": {}}}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem; color: #1a1a1a; }
pre { background: #f4f4f4; padding: .8rem 1rem; border-radius: 6px; white-space: pre-wrap; overflow-wrap: anywhere; }
code { font-size: .9em; } h2 { margin-top: 2.5rem; } a { color: #0b57d0; }
"""


def add_pages(app: FastAPI, hooks: Sequence[Hook]) -> None:
    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def index(request: Request) -> HTMLResponse:
        return HTMLResponse(front_page(hooks, app.version, str(request.base_url).rstrip("/")))

    @app.get("/healthz", response_class=PlainTextResponse, tags=["operations"], summary="The process answers")
    async def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    # The hooks depend on nothing but the request: a server that answers is ready.
    @app.get("/readyz", response_class=PlainTextResponse, tags=["operations"], summary="Hooks can be called")
    async def readyz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(app, hooks)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way to extend the description


def describe(app: FastAPI, hooks: Sequence[Hook]) -> dict[str, Any]:
    """FastAPI's own description plus the hook routes, which take a raw body and so describe themselves here."""
    described = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    for hook in hooks:
        sync = _schema(hook.request, f"{hook.label}_sync", schemas)
        described["paths"][f"/{hook.name}/sync"] = {"post": _operation(hook, hook.what, sync, hook.example)}
        if hook.customize:
            customize = _schema(wire.CustomizeRequest, "customize", schemas)
            asked = {"parent": hook.example.get("object") or hook.example.get("parent")}
            what = "Which objects a parent relates to."
            described["paths"][f"/{hook.name}/customize"] = {"post": _operation(hook, what, customize, asked)}
        if hook.admit:
            review = _schema(AdmissionReview, "admission_review", schemas)
            what = "For the API server: the larger size that an update of a claim asks for."
            described["paths"][f"/{hook.name}/admit"] = {"post": _operation(hook, what, review, REVIEW)}
    return described


def _schema(model: type[wire.Model], name: str, schemas: JsonObject) -> JsonObject:
    (reference,), used = msgspec.json.schema_components([model], ref_template=SCHEMAS)
    schemas.update(used)
    schemas[name] = schemas.pop(reference["$ref"].rpartition("/")[2])
    return {"$ref": SCHEMAS.format(name=name)}


def _operation(hook: Hook, summary: str, schema: JsonObject, example: JsonObject) -> JsonObject:
    answer = {
        "description": "What Metacontroller shall write.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
    return {
        "tags": [hook.name],
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}},
        "responses": {"200": answer} | {code: {"description": text} for code, text in ERRORS.items()},
    }


def curl(hook: Hook, base: str, body: JsonObject) -> str:
    return f"curl -s {base}/{hook.name}/sync -d '{json.dumps(body, separators=(',', ':'))}'"


def invitation(hook: Hook, base: str) -> str:
    """Three commands to paste: ask the hook, ask again with what it wanted, look at the counts."""
    asked, now = json.dumps(hook.example).encode(), datetime.fromtimestamp(0, UTC)
    outcome = asyncio.run(hook.answer("sync", asked, now=now, ask=_nobody))
    answer = json.loads(wire.encode(outcome.response))
    return "\n".join(
        [
            "Try it from another terminal:",
            f"  {curl(hook, base, hook.example)}",
            "The same object with what came back; nothing is left to do:",
            f"  {curl(hook, base, _carried_out(hook.example, answer))}",
            "What was counted:",
            f"  curl -s {base}/metrics | grep -E '^({hook.label}|metahooks)_'",
        ]
    )


async def _nobody(question: Question) -> Unavailable:
    return Unavailable(UNREACHABLE, f"nobody to ask about {question.namespace}")


def _carried_out(example: JsonObject, answer: JsonObject) -> JsonObject:
    written = {part: answer[part] for part in ("labels", "annotations") if answer.get(part)}
    parent = example["object"]
    return {"object": parent | {"metadata": parent["metadata"] | written}}


def front_page(hooks: Sequence[Hook], version: str, base: str) -> str:
    sections = "".join(
        f"<h2>{html.escape(hook.name)}</h2><p>{html.escape(hook.what)}</p>"
        f"<p>{', '.join(f'<code>POST /{hook.name}/{action}</code>' for action in hook.actions)}</p>"
        f"<pre>{html.escape(curl(hook, base, hook.example))}</pre>"
        for hook in hooks
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Metahooks</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>Metahooks {html.escape(version)}</h1><p>Kubernetes controllers as pure functions: Metacontroller sends "
        f"what it observed, a hook answers what should be, Metacontroller writes it.</p>{sections}<h2>Operations</h2>"
        f"<p><a href=docs>docs</a> · <a href=openapi.json>openapi.json</a> · <a href=metrics>metrics</a> · "
        f"<a href=healthz>healthz</a> · <a href=readyz>readyz</a></p></html>"
    )
