"""Metacontroller's contract, hook version v2: what a request holds, what an answer may hold, how a hook says "not now".

A hook turns a request into an `Outcome`: the response that Metacontroller carries out, and the decisions behind it.
Requests are narrow: fields that no hook reads are skipped while parsing, which is most of the work that a large request
makes. Responses have no room for a field that Metacontroller does not know: it refuses the whole answer for one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, TypeVar

import msgspec
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from hooks.kube import merge
from hooks.kube.metadata import JsonObject, annotations_of

LAST_APPLIED = merge.LAST_APPLIED


class RetryLater(Exception):
    """The hook cannot answer without risk now: Metacontroller asks again after `seconds`, and nothing is changed."""

    def __init__(self, message: str, *, seconds: int) -> None:
        super().__init__(message)
        self.seconds = max(1, seconds)  # Metacontroller reads 0 as "at once": a hot loop


# Requests


class Model(msgspec.Struct, rename="camel"):
    """A narrow view of JSON that Metacontroller sends: camelCase names, unknown fields skipped, no type converted."""


class Metadata(Model):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class ResourceRule(Model):
    """One kind that a controller manifest lists."""

    api_version: str
    resource: str


class ControllerSpec(Model):
    attachments: list[ResourceRule] | None = None
    child_resources: list[ResourceRule] | None = None


class ControllerMetadata(Model):
    annotations: dict[str, str] | None = None


class Controller(Model):
    """The CompositeController or DecoratorController on whose behalf Metacontroller calls."""

    metadata: ControllerMetadata = msgspec.field(default_factory=ControllerMetadata)
    spec: ControllerSpec = msgspec.field(default_factory=ControllerSpec)

    def annotation(self, key: str) -> str:
        """A setting of the controller; empty if it has none. Metacontroller reads it when it starts the controller."""
        return (self.metadata.annotations or {}).get(key, "")

    def manages(self, api_version: str, resource: str) -> bool:
        """Whether the manifest lists this kind among the children: others would be created and never seen again."""
        listed = (self.spec.attachments or []) + (self.spec.child_resources or [])
        return any(rule.api_version == api_version and rule.resource == resource for rule in listed)


Objects = dict[str, JsonObject]
"""Observed objects of one kind, by `namespace/name`, or `name` where the kind is cluster-scoped."""


class DecoratorRequest(Model):
    """The part of a decorator's sync request that all hooks share; a hook adds its own `object` and `related`."""

    controller: Controller = msgspec.field(default_factory=Controller)
    attachments: dict[str, Objects] | None = None


class CustomizeRequest(Model, kw_only=True):
    """Metacontroller asks which objects a parent relates to."""

    controller: Controller = msgspec.field(default_factory=Controller)
    parent: JsonObject


RequestT = TypeVar("RequestT", bound=Model)


class InvalidRequest(ValueError):
    """The body is not a request that this hook knows. The message names the field and never repeats the input."""


def parse(model: type[RequestT], body: bytes) -> RequestT:
    if not body:
        raise InvalidRequest("body: empty; send a request as JSON")
    try:
        request: RequestT = _decoder(model).decode(body)
    except msgspec.DecodeError as error:
        raise InvalidRequest(_fault(str(error))) from error
    except UnicodeDecodeError as error:
        raise InvalidRequest("body: not UTF-8") from error
    except RecursionError as error:
        raise InvalidRequest("body: nested too deeply") from error
    return request


def _fault(text: str) -> str:
    """`field: problem` from what msgspec says: "problem - at `$.field`"."""
    fault, _, place = text.partition(" - at `$")
    missing = re.fullmatch(r"Object missing required field `(.+)`", fault)
    path = place.removesuffix("`") + (f".{missing[1]}" if missing else "")
    return f"{path.removeprefix('.') or 'body'}: {'Field required' if missing else fault}"


@cache
def _decoder(model: type[Model]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(model)


class Spec(BaseModel):
    """What a person wrote, such as the spec of a custom resource: checked field by field, with complaints to match."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


def problem(error: ValidationError) -> str:
    """`field: problem` for the first fault, in one line and without the input; a key of a map is a field."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "body"
    printable = "".join(character if character.isprintable() else "?" for character in place[:200])
    return f"{printable}: {first['msg']}"


# Responses


class Response(Protocol):
    def body(self) -> JsonObject: ...


@dataclass(frozen=True, kw_only=True)
class DecoratorResponse:
    """Labels and annotations to set (a value) or delete (None) on the object; keys left out are left alone."""

    labels: Mapping[str, str | None] = field(default_factory=dict)
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    attachments: Sequence[JsonObject] = ()
    resync_after_seconds: int = 0

    def body(self) -> JsonObject:
        body: JsonObject = {"labels": dict(self.labels), "annotations": dict(self.annotations)}
        return body | _children("attachments", self.attachments) | _resync(self.resync_after_seconds)


@dataclass(frozen=True, kw_only=True)
class CompositeResponse:
    """The whole status and all children: what is observed and not returned is deleted."""

    status: JsonObject
    children: Sequence[JsonObject]
    resync_after_seconds: int = 0

    def body(self) -> JsonObject:
        status = {"status": without_nulls(self.status)}
        return status | _children("children", self.children) | _resync(self.resync_after_seconds)


@dataclass(frozen=True, kw_only=True)
class RelatedRule:
    """Objects that a parent relates to: all of a kind, or those that names, a namespace or a selector choose."""

    api_version: str
    resource: str
    namespace: str = ""
    names: Sequence[str] = ()
    label_selector: JsonObject | None = None

    def body(self) -> JsonObject:
        body: JsonObject = {"apiVersion": self.api_version, "resource": self.resource}
        optional = {"namespace": self.namespace, "names": list(self.names)}
        body |= {key: value for key, value in optional.items() if value}
        return body if self.label_selector is None else body | {"labelSelector": self.label_selector}


@dataclass(frozen=True)
class CustomizeResponse:
    rules: Sequence[RelatedRule]

    def body(self) -> JsonObject:
        return {"relatedResources": [rule.body() for rule in self.rules]}


def _children(key: str, children: Sequence[JsonObject]) -> JsonObject:
    return {key: [without_nulls(child) for child in children]}


def _resync(seconds: int) -> JsonObject:
    return {"resyncAfterSeconds": seconds} if seconds > 0 else {}


def without_nulls(value: Any) -> Any:
    """JSON with null fields dropped: Kubernetes stores none, so a null would differ from the stored object for ever."""
    if isinstance(value, str):  # most are
        return value
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    if isinstance(value, float):
        raise TypeError("a response holds no floats: they do not survive a round trip through the API server unchanged")
    return value


def encode(response: Response) -> bytes:
    """The same response is always the same bytes."""
    return msgspec.json.encode(response.body(), order="deterministic")


# Outcomes

INVALID_SPEC = "InvalidSpec"
"""The one reason that all hooks share: what a person wrote cannot be used."""


@dataclass(frozen=True)
class ObjectRef:
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace + '/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a hook decided about an object, and why: one CamelCase reason and one sentence."""

    reason: str
    message: str
    object: ObjectRef
    changes: bool
    """Whether it changes anything; those that do not are counted but not logged."""
    field: str = ""
    """The part of the object that it is about, such as `labels.workload-type`."""


@dataclass(frozen=True)
class Measurement:
    """Something a hook counted, for the metric of that name."""

    metric: str
    value: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Gauges:
    """All that a hook last saw of one object, in place of what it saw before.

    Several servers share the work: what is not seen again in time was seen by another one since, or is gone.
    """

    source: str
    lasts_seconds: float
    values: Sequence[Measurement]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that one request led to."""

    response: Response
    decisions: Sequence[Decision] = ()
    measurements: Sequence[Measurement] = ()
    gauges: Gauges | None = None


def last_applied(child: Mapping[str, Any]) -> JsonObject | None:
    """What the hook last returned for a child: to return it again keeps the child as it is. None if nobody can tell.

    The observed object would be wrong: it holds fields that the API server and others own, so that Metacontroller would
    claim them, write at every sync and later strip what it never set.
    """
    try:
        applied = without_nulls(msgspec.json.decode(annotations_of(child).get(LAST_APPLIED, "")))
    except (msgspec.DecodeError, RecursionError, TypeError):
        return None
    return applied if isinstance(applied, dict) else None
