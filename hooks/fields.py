"""Fields of custom resources that several hooks read: quantities and durations as people write them."""

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError

from hooks import wire
from hooks.kube.duration import InvalidDuration, parse_duration
from hooks.kube.quantity import InvalidQuantity, whole_bytes

TOO_LARGE = 2**63 - 1  # Kubernetes counts bytes in 64 bits; what is larger becomes this
LONGEST_TIME = timedelta(days=3650)  # beyond, a sum with the present may leave the calendar


class Written(wire.Spec):
    """As people write it: by the names of the CRD alone."""

    model_config = ConfigDict(populate_by_name=False)


def _bytes(value: Any) -> int:
    try:
        size = whole_bytes(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else 0
    except InvalidQuantity as error:
        raise PydanticCustomError("quantity", "{text}", {"text": str(error)}) from error
    if not 0 < size < TOO_LARGE:
        raise PydanticCustomError("quantity", "must be a quantity above zero and below 8Ei, such as 10Gi")
    return size


def duration(shortest: timedelta, rule: str) -> Callable[[Any], timedelta]:
    def read(value: Any) -> timedelta:
        try:
            found = parse_duration(value if isinstance(value, str) else str(value))
        except InvalidDuration as error:
            raise PydanticCustomError("duration", "{text}", {"text": str(error)}) from error
        if not shortest <= found <= LONGEST_TIME:
            raise PydanticCustomError("duration", "{rule}, and at most ten years", {"rule": rule})
        return found

    return read


Bytes = Annotated[int, BeforeValidator(_bytes)]
Wait = Annotated[timedelta, BeforeValidator(duration(timedelta(), "must not be negative"))]
