"""YAML and JSON text, as kubectl reads it."""

import json
import re
from contextlib import suppress
from typing import Any

import yaml

DEEPEST, LARGEST = 500, 50_000_000
"""The nesting and the number of nodes up to which YAML is read."""


class InvalidDocument(ValueError):
    """The text is neither YAML nor JSON, or far larger than it looks; the message says where."""


def read_documents(text: str, *, largest: int = LARGEST) -> list[Any]:
    try:
        # Through JSON once more: what has no place there, such as an anchor inside itself, is no Kubernetes object.
        documents: list[Any] = json.loads(json.dumps(_parse(text.removeprefix("\ufeff"), largest), allow_nan=False))
    except RecursionError as error:
        raise InvalidDocument("nested too deeply, or far larger than it looks") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise InvalidDocument(f"neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return documents


def _parse(text: str, largest: int) -> list[Any]:
    if text.lstrip().startswith("{"):
        with suppress(ValueError):  # then it may still be YAML in braces
            return [json.loads(text)]
    _refuse_bombs(text, largest)
    return list(yaml.load_all(text, _Loader))


def _refuse_bombs(text: str, largest: int) -> None:
    """YAML can be nested deeper than the stack, and a few lines of aliases can stand for more than the memory."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # the anchor of each, and the size of what came before it
    size = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        before = size
        size += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else _weight(event)
        if isinstance(event, yaml.ScalarEvent) and event.anchor:
            sizes[event.anchor] = size - before
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, before))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, outside = open_nodes.pop()
            sizes |= {anchor: size - outside} if anchor else {}
        if len(open_nodes) > DEEPEST or size > largest:
            raise RecursionError


def _weight(event: yaml.Event) -> int:
    """In nodes; a long text counts as several."""
    return 1 + (len(event.value) // 64 if isinstance(event, yaml.ScalarEvent) else 0)


class _Loader(yaml.CSafeLoader):
    """YAML as kubectl reads it: timestamps stay text, and so do 53:53 and 12:30:45, which are no numbers to base 60."""


_UNKNOWN_TO_KUBECTL = {"timestamp", "value", "int", "float"}  # the last two are defined again below

_TAGS = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAGS) not in _UNKNOWN_TO_KUBECTL]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    f"{_TAGS}int", re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    f"{_TAGS}float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|\.inf)$|\.nan$", re.I
    ),
    list("-+0123456789."),
)
