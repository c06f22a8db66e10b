"""Objects from YAML and JSON files: what people hand to `plan`, and the manifests that we ship."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from hooks.kube.metadata import JsonObject, name_of

ROOT = Path(__file__).resolve().parent.parent
DEEPEST, LARGEST = 500, 50_000_000
"""The nesting and the number of nodes up to which a YAML file is read."""


class Unreadable(Exception):
    """A file cannot be read as Kubernetes objects; the message says which and why."""


def read_objects(files: Iterable[Path | str]) -> list[JsonObject]:
    """Objects from YAML or JSON files, lists (`kubectl get -o json`) taken apart; `-` is standard input."""
    return [
        obj
        for file in files
        for document in _documents(file)
        for obj in _flatten(document, "standard input" if str(file) == "-" else str(file))
    ]


def read_manifests(folder: str) -> list[JsonObject]:
    """What we ship in a folder of the project."""
    return read_objects(file for file in sorted((ROOT / folder).glob("*.yaml")) if file.name != "kustomization.yaml")


def _documents(file: Path | str) -> list[Any]:
    if str(file) == "-" and sys.stdin is None:
        raise Unreadable("standard input is closed; name a file with -f")
    try:
        text = sys.stdin.read() if str(file) == "-" else Path(file).read_text(encoding="utf-8")
        # Through JSON once more: what has no place there, such as an anchor inside itself, is no Kubernetes object.
        documents: list[Any] = json.loads(json.dumps(_parse(text.removeprefix("\ufeff")), allow_nan=False))
    except OSError as error:
        raise Unreadable(f"{file}: {error.strerror}") from error
    except RecursionError as error:
        raise Unreadable(f"{file}: nested too deeply, or far larger than it looks") from error
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise Unreadable(f"{file}: neither YAML nor JSON: {' '.join(str(error).split())}") from error
    return documents


def _parse(text: str) -> list[Any]:
    if text.lstrip().startswith("{"):
        with suppress(ValueError):  # then it may still be YAML in braces
            return [json.loads(text)]
    _refuse_bombs(text)
    return list(yaml.load_all(text, _Loader))


def _refuse_bombs(text: str) -> None:
    """YAML can be nested deeper than the stack, and a few lines of aliases can stand for more than the memory."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []  # the anchor of each, and the size of what came before it
    size = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        size += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, size))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            sizes |= {anchor: size - before} if anchor else {}
        if len(open_nodes) > DEEPEST or size > LARGEST:
            raise RecursionError


class _Loader(yaml.CSafeLoader):
    """YAML as kubectl reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _flatten(document: Any, file: str) -> Iterator[JsonObject]:
    if document is None:
        return
    if isinstance(document, list):
        for item in document:
            yield from _flatten(item, file)
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise Unreadable(f"{file}: not a Kubernetes object: it has no kind")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _flatten(_with_kind(item, document), file)
    elif not isinstance(document.get("apiVersion"), str) or not name_of(document):
        raise Unreadable(f"{file}: a {document['kind']} without apiVersion or metadata.name")
    else:
        yield document


def _with_kind(item: Any, of_list: JsonObject) -> Any:
    """Items of a typed list, as the API itself returns it, leave out what the list says."""
    if isinstance(item, dict) and "kind" not in item and of_list["kind"] != "List":
        return {"kind": of_list["kind"].removesuffix("List"), "apiVersion": of_list.get("apiVersion")} | item
    return item
