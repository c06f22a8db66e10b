"""The DaemonSet that people give, inline or as text with placeholders, in the form in which Kubernetes stores it.

A placeholder stands for a string, whatever surrounds it: it is put in after the text was read as YAML, so that no label
value can change what the text means. There is no template language.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hooks.kube.documents import InvalidDocument, read_documents
from hooks.kube.merge import merge_key
from hooks.kube.metadata import JsonObject, compact_json
from hooks.kube.quantity import InvalidQuantity, canonical
from hooks.kube.quote import quote

PLACEHOLDERS = (
    "Name",
    "NodeGroupLabel",
    "Resources.Requests.CPU",
    "Resources.Requests.Memory",
    "Resources.Limits.CPU",
    "Resources.Limits.Memory",
    "GoMemLimit",
)
LARGEST_TEXT, LARGEST_TREE, LARGEST_JSON = 128 * 1024, 5_000, 64 * 1024
"""A DaemonSet is stored twice: its last-applied annotation has all of it once more."""
PARTS = ("requests", "limits")
_IN_BRACES = re.compile(r"\{\{(?P<inside>.*?)(?P<end>\}\}|$)", re.DOTALL | re.MULTILINE)
LINE_END = "\n"
_TOKEN = re.compile(r"METAHOOKSx([0-6])x")


class InvalidTemplate(ValueError):
    """No DaemonSet can be made of it; the message says where."""


@dataclass(frozen=True)
class Template:
    daemonset: JsonObject
    used: frozenset[str] = frozenset()
    """The placeholders in it."""

    @property
    def places_sizes(self) -> bool:
        """Whether it says itself where the sizes go."""
        return any(name.startswith("Resources.") for name in self.used)

    def render(self, values: Mapping[str, str]) -> JsonObject:
        """With the value of each placeholder in its place."""

        def fill(text: str) -> str:
            return _TOKEN.sub(lambda token: values[PLACEHOLDERS[int(token[1])]], text)

        rendered: JsonObject = _mapped(self.daemonset, fill) if self.used else self.daemonset
        return rendered


def read_inline(daemonset: JsonObject) -> Template:
    return Template(_checked(daemonset))


def read_text(text: str) -> Template:
    """Raises InvalidTemplate with the line of what is wrong."""
    if len(text) > LARGEST_TEXT:
        raise InvalidTemplate(f"longer than {LARGEST_TEXT // 1024} KiB")
    used: set[str] = set()

    def swap(match: re.Match[str]) -> str:
        inside = match["inside"].strip()
        name = inside.removeprefix(".")
        if match["end"] != "}}" or inside == name or name not in PLACEHOLDERS:
            where = f"line {1 + text.count(LINE_END, 0, match.start())}: {{{{ {inside[:40]} }}}}"
            raise InvalidTemplate(f"{where} is not one of {_known()}; there is no template language")
        used.add(name)
        return f"METAHOOKSx{PLACEHOLDERS.index(name)}x"

    try:
        documents = read_documents(_IN_BRACES.sub(swap, text), largest=LARGEST_TREE)
    except InvalidDocument as error:
        raise InvalidTemplate(str(error).replace(' in "<unicode string>",', "")) from error
    found = [document for document in documents if document is not None]
    if len(found) != 1 or not isinstance(found[0], dict):
        raise InvalidTemplate(f"holds {len(found)} documents; give one DaemonSet")
    daemonset = found[0]
    if daemonset.get("kind") != "DaemonSet" or daemonset.get("apiVersion") != "apps/v1":
        raise InvalidTemplate("is not a DaemonSet of apps/v1")
    return Template(_checked(daemonset), frozenset(used))


def _known() -> str:
    return ", ".join(f"{{{{ .{name} }}}}" for name in PLACEHOLDERS)


def _mapped(tree: Any, change: Callable[[str], str]) -> Any:
    if isinstance(tree, dict):
        return {change(key): _mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_mapped(value, change) for value in tree]
    return change(tree) if isinstance(tree, str) else tree


# What a DaemonSet must be for us to build on it. The rest is the API server's to judge.

_POD = "spec.template.spec"
_AFFINITY = f"{_POD}.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = {"spec": dict, "spec.template": dict, _POD: dict, f"{_POD}.containers": list}
_OPTIONAL = {
    "metadata": dict,
    "metadata.labels": dict,
    "metadata.annotations": dict,
    "spec.template.metadata": dict,
    "spec.template.metadata.labels": dict,
    "spec.template.metadata.annotations": dict,
    f"{_POD}.initContainers": list,
    f"{_POD}.nodeSelector": dict,
    f"{_POD}.tolerations": list,
    f"{_POD}.affinity": dict,
    f"{_POD}.affinity.nodeAffinity": dict,
    _AFFINITY: dict,
    f"{_AFFINITY}.nodeSelectorTerms": list,
}


def _checked(daemonset: JsonObject) -> JsonObject:
    try:
        return _check(daemonset)
    except RecursionError as error:
        raise InvalidTemplate("nested too deeply") from error


def _check(daemonset: JsonObject) -> JsonObject:
    if len(compact_json(daemonset)) > LARGEST_JSON:
        raise InvalidTemplate(f"larger than {LARGEST_JSON // 1024} KiB as JSON")
    for path, kind in (_REQUIRED | _OPTIONAL).items():
        found = _at(daemonset, path)
        if path in _REQUIRED and not found:
            raise InvalidTemplate(f"{path}: is missing or empty")
        if found is not None and not isinstance(found, kind):
            raise InvalidTemplate(f"{path}: has the wrong type")
    for term in _at(daemonset, f"{_AFFINITY}.nodeSelectorTerms") or []:
        if not isinstance(term, dict) or not isinstance(term.get("matchExpressions") or [], list):
            raise InvalidTemplate(f"{_AFFINITY}.nodeSelectorTerms: has the wrong type")
    for part in ("containers", "initContainers"):
        for index, container in enumerate(_at(daemonset, f"{_POD}.{part}") or []):
            _check_container(container, f"{_POD}.{part}[{index}]")
    tidied: JsonObject = tidy(daemonset, "")
    return tidied


def _check_container(container: Any, path: str) -> None:
    if not isinstance(container, dict) or not _has_name(container):
        raise InvalidTemplate(f"{path}: has no name")
    check_env(container.get("env") or [], f"{path}.env")
    resources = container.get("resources") or {}
    if not isinstance(resources, dict) or not all(isinstance(resources.get(part) or {}, dict) for part in PARTS):
        raise InvalidTemplate(f"{path}.resources: has the wrong type")


def check_env(env: Any, path: str) -> None:
    if not isinstance(env, list) or not all(isinstance(item, dict) and _has_name(item) for item in env):
        raise InvalidTemplate(f"{path}: is not a list of names and values")
    if odd := next((item for item in env if not isinstance(item.get("value"), str | None)), None):
        raise InvalidTemplate(f"{path}: the value of {quote(odd['name'])} must be a string; put it in quotes")


def _has_name(item: JsonObject) -> bool:
    return isinstance(item.get("name"), str) and bool(item["name"])


def _at(tree: Any, path: str) -> Any:
    for key in path.split("."):
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


# As Kubernetes stores it: whatever differs from that would be written at every sync.

_STRING_MAPS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "volumeAttributes"})
_QUANTITY_MAPS = frozenset({"limits", "requests", "overhead"})
_QUANTITIES = frozenset({"sizeLimit", "divisor"})
_KEPT_IF_EMPTY = frozenset({"type", "storageClassName", "fsType"})
"""Where an empty string is stored, and means something else than none."""
_DROPPED_IF_FALSE = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"})
_DROPPED_IF_ZERO = frozenset({"minReadySeconds", "initialDelaySeconds", "hostPort"})


def tidy(value: Any, path: str) -> Any:
    """Raises InvalidTemplate for what cannot be stored, or not be told apart when it is merged."""
    key = path.rpartition(".")[2]
    if isinstance(value, list):
        _refuse_twins(value, path)
        return [tidy(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if key in _QUANTITIES and value is not None:
        return _quantity(value, path)
    if isinstance(value, float):
        raise InvalidTemplate(f"{path}: {value} is not a whole number")
    if not isinstance(value, dict):
        return value
    if key in _QUANTITY_MAPS:
        return {name: _quantity(item, f"{path}.{name}") for name, item in value.items() if item is not None}
    if key in _STRING_MAPS:
        if not all(isinstance(item, str | None) for item in value.values()):
            raise InvalidTemplate(f"{path}: must hold strings only: put numbers, true and false in quotes")
        return {name: item for name, item in value.items() if item is not None}
    tidied = {name: tidy(item, f"{path}.{name}" if path else name) for name, item in value.items()}
    return _with_defaults({name: item for name, item in tidied.items() if not _is_nothing(name, item)})


def _refuse_twins(items: list[Any], path: str) -> None:
    """Metacontroller knows list items by such a key: of two with the same, one would be lost at the next update."""
    key = merge_key(items)
    values = [item[key] for item in items] if key else []
    seen = set[str]()
    for text in map(str, values):
        if text in seen:
            raise InvalidTemplate(f"{path}: two items have the {key} {quote(text)}, and could not be told apart")
        seen.add(text)


def _is_nothing(key: str, value: Any) -> bool:
    """Whether it is not stored. Empty objects are, and mean something: `emptyDir: {}`."""
    if value is False:
        return key in _DROPPED_IF_FALSE
    if value == 0 and not isinstance(value, str):
        return key in _DROPPED_IF_ZERO
    if value == "":
        return key not in _KEPT_IF_EMPTY
    return value is None or value == [] or (value == {} and key in _STRING_MAPS | _QUANTITY_MAPS)


def _with_defaults(tree: JsonObject) -> JsonObject:
    """What the API server fills in where a list has no key to merge its items by: the sources of a projected volume."""
    for source in _objects(tree.get("sources")):
        if isinstance(token := source.get("serviceAccountToken"), dict):
            token.setdefault("expirationSeconds", 3600)
        for item in _objects(_at(source, "downwardAPI.items")):
            if isinstance(field := item.get("fieldRef"), dict):
                field.setdefault("apiVersion", "v1")
            if isinstance(resource := item.get("resourceFieldRef"), dict):
                resource.setdefault("divisor", "0")
    return tree


def _objects(value: Any) -> Iterator[JsonObject]:
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def _quantity(value: Any, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidTemplate(f"{path}: is not a quantity")
    if _TOKEN.search(str(value)):
        return str(value)  # a size, which is canonical
    try:
        return canonical(str(value))
    except InvalidQuantity as error:
        raise InvalidTemplate(f"{path}: {error}") from error
