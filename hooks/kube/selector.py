"""Label selectors: metav1.LabelSelector, parsed once and matched often."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hooks.kube.metadata import check_label_key, check_label_value
from hooks.kube.quote import quote


class InvalidSelector(ValueError):
    """The selector is not one that Kubernetes would accept; the message starts with the part that is wrong."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. Without values it asks for the key alone."""

    key: str
    values: frozenset[str] | None
    is_negated: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        found = self.key in labels if self.values is None else labels.get(self.key) in self.values
        return found is not self.is_negated


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements together; without any it matches everything, unless it is the null selector."""

    requirements: tuple[Requirement, ...] = ()
    is_null: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        for requirement in self.requirements:  # twice as fast as all()
            if not requirement.matches(labels):
                return False
        return not self.is_null

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(requirement.key for requirement in self.requirements)


class _Operator(NamedTuple):
    takes_values: bool
    is_negated: bool


_OPERATORS = {
    "In": _Operator(takes_values=True, is_negated=False),
    "NotIn": _Operator(takes_values=True, is_negated=True),
    "Exists": _Operator(takes_values=False, is_negated=False),
    "DoesNotExist": _Operator(takes_values=False, is_negated=True),
}


def parse_selector(selector: Mapping[str, object] | None) -> Selector:
    """Null selects nothing, an empty selector everything. Unknown fields are refused: to ignore one selects more."""
    if selector is None:
        return Selector(is_null=True)
    if not isinstance(selector, Mapping):
        raise InvalidSelector("selector must be an object")
    _refuse_unknown(selector, {"matchLabels", "matchExpressions"}, "selector")
    return Selector((*_match_labels(selector.get("matchLabels")), *_expressions(selector.get("matchExpressions"))))


def _match_labels(labels: object) -> Iterator[Requirement]:
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        raise InvalidSelector("matchLabels must be an object")
    for key, value in labels.items():
        yield Requirement(_key(key, "matchLabels"), frozenset([_value(value, f"matchLabels[{quote(str(key))}]")]))


def _expressions(expressions: object) -> Iterator[Requirement]:
    if expressions is None:
        return
    if not isinstance(expressions, list | tuple):
        raise InvalidSelector("matchExpressions must be a list")
    for index, expression in enumerate(expressions):
        yield _expression(expression, f"matchExpressions[{index}]")


def _expression(expression: object, part: str) -> Requirement:
    if not isinstance(expression, Mapping):
        raise InvalidSelector(f"{part} must be an object")
    _refuse_unknown(expression, {"key", "operator", "values"}, part)
    operator = _operator(expression.get("operator"), part)
    values = _values(expression.get("values"), part)
    if operator.takes_values and not values:
        raise InvalidSelector(f"{part}: {expression['operator']} needs at least one value")
    if values and not operator.takes_values:
        raise InvalidSelector(f"{part}: {expression['operator']} takes no values")
    return Requirement(_key(expression.get("key"), part), values or None, operator.is_negated)


def _operator(name: object, part: str) -> _Operator:
    if not isinstance(name, str):
        raise InvalidSelector(f"{part}: operator must be a string")
    if name not in _OPERATORS:
        raise InvalidSelector(f"{part}: operator {quote(name)} is not one of {', '.join(_OPERATORS)}")
    return _OPERATORS[name]


def _values(values: object, part: str) -> frozenset[str]:
    if values is None:
        return frozenset()
    if not isinstance(values, list | tuple):
        raise InvalidSelector(f"{part}: values must be a list")
    return frozenset(_value(value, f"{part}: values[{index}]") for index, value in enumerate(values))


def _key(key: object, part: str) -> str:
    if not isinstance(key, str):
        raise InvalidSelector(f"{part}: key must be a string")
    if problem := check_label_key(key):
        raise InvalidSelector(f"{part}: {problem}")
    return key


def _value(value: object, part: str) -> str:
    if not isinstance(value, str):
        raise InvalidSelector(f"{part} must be a string")
    if problem := check_label_value(value):
        raise InvalidSelector(f"{part}: {problem}")
    return value


def _refuse_unknown(fields: Mapping[str, object], known: set[str], part: str) -> None:
    unknown = next((field for field in fields if field not in known), None)
    if unknown is not None:
        raise InvalidSelector(f"{part}: unknown field {quote(str(unknown))}")
