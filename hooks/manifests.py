"""Objects from YAML and JSON files: what people hand to `plan`, and the manifests that we ship."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hooks.kube.documents import InvalidDocument, read_documents
from hooks.kube.metadata import JsonObject, name_of

ROOT = Path(__file__).resolve().parent.parent


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
        return read_documents(text)
    except OSError as error:
        raise Unreadable(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Unreadable(f"{file}: neither YAML nor JSON: {error}") from error
    except InvalidDocument as error:
        raise Unreadable(f"{file}: {error}") from error


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
