"""Kubernetes quantities such as 10Gi, 250m or 1e3: exact values, and the text that Kubernetes keeps for them.

Amounts are whole numbers of nano units, the finest step of a quantity, so there is no float and no rounding context.

Stricter than Go in three places, where its answer serves nobody: text without a digit ("Gi" is 0 in Go), text that Go
would store as another value ("1000E" becomes "1", it has no suffix for 10**21), and what is out of all proportion
(more than 128 characters, an exponent beyond 100, a value of 10**100).
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto

from hooks.kube.quote import quote

_NANO = 10**9
_LARGEST_BINARY = 2**63 - 1
_LONGEST_TEXT = 128
_LARGEST_EXPONENT = 100
_TOO_LARGE: int = 10**_LARGEST_EXPONENT * _NANO
_BEYOND_SUFFIXES = 10**21 * _NANO

_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_TENS = {suffix: 3 * step - 9 for step, suffix in enumerate(_DECIMAL_SUFFIXES)}
_TWOS = {suffix: 10 * step for step, suffix in enumerate(_BINARY_SUFFIXES) if suffix}

_SYNTAX = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)


class InvalidQuantity(ValueError):
    """The text is not a quantity, or the value has no form as one."""


class _Family(Enum):
    """The notation of a quantity, which Go remembers from parsing to printing."""

    DECIMAL = auto()
    BINARY = auto()
    EXPONENT = auto()


@dataclass(frozen=True, slots=True)
class _Quantity:
    nano: int
    family: _Family
    is_verbatim: bool  # Go prints the text as it was written


@dataclass(frozen=True, slots=True)
class _Number:
    """A parsed text before its value is computed: digits x 10**tens x 2**twos."""

    sign: str
    digits: str
    tens: int
    twos: int
    family: _Family
    has_fraction: bool


def parse_quantity(text: str) -> Decimal:
    """The exact value; what is finer than nano is rounded away from zero, as Go does."""
    nano = _read(text).nano
    return Decimal(nano // _NANO) if nano % _NANO == 0 else Decimal(f"{nano}e-9")


def whole_bytes(text: str) -> int:
    """Go's Quantity.Value(), rounded away from zero, but exact where Go's int64 overflows."""
    return _round_up(_read(text).nano, _NANO)


def milli(text: str) -> int:
    """Go's Quantity.MilliValue(), rounded away from zero, but exact where Go's int64 overflows."""
    return _round_up(_read(text).nano, 10**6)


def canonical(text: str) -> str:
    """What one reads in the cluster after writing the text: 1024Mi is 1Gi, 1.5 is 1500m, 2000 is 2k.

    That is Go's Quantity.String() once the object was stored and read again, because String() alone may not last:
    1.953125Ki prints as 2000, which the next reader prints as 2k.
    """
    quantity = _read(text)
    return text if quantity.is_verbatim else _write(quantity.nano, quantity.family)


def format_quantity(value: Decimal, like: str = "") -> str:
    """The canonical form of the value in the notation of another quantity; plain decimal (m, k, M...) without one."""
    if not value.is_finite() or abs(value.adjusted()) > _LONGEST_TEXT:
        raise InvalidQuantity(f"{quote(str(value))} has no form as a quantity")
    numerator, denominator = value.as_integer_ratio()
    return _format(_round_up(numerator * _NANO, denominator), _read(like).family if like else _Family.DECIMAL)


def format_binary(n_bytes: int) -> str:
    """10737418240 is 10Gi, 1610612736 is 1536Mi; what is no multiple of 1024 gets a decimal form: 1500 stays 1500."""
    return _format(n_bytes * _NANO, _Family.BINARY)


def format_milli(milli: int) -> str:
    """2000 is 2, 80 is 80m."""
    return _format(milli * 10**6, _Family.DECIMAL)


def _read(text: str) -> _Quantity:
    number = _split(text)
    nano = _nano(number)
    if number.family is _Family.BINARY:
        nano = max(-_LARGEST_BINARY * _NANO, min(nano, _LARGEST_BINARY * _NANO))  # Go caps this family only
    if not _is_writable(nano, number.family):
        raise InvalidQuantity(f"{quote(text)} is too large for a quantity")
    return _Quantity(nano, number.family, _is_verbatim(number))


def _split(text: str) -> _Number:
    match = _SYNTAX.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise InvalidQuantity(f"{quote(text)} is not a quantity such as 10Gi, 250m or 1.5")
    fraction = match["fraction"] or ""
    family, tens, twos = _scale(match["suffix"] or "", match["exponent"])
    digits = (match["whole"].lstrip("0") or "0") + fraction
    return _Number(match["sign"], digits, tens - len(fraction), twos, family, has_fraction=bool(fraction))


def _scale(suffix: str, exponent: str | None) -> tuple[_Family, int, int]:
    if suffix in _TWOS:
        return _Family.BINARY, 0, _TWOS[suffix]
    if exponent is None:
        return _Family.DECIMAL, _TENS[suffix], 0
    if abs(int(exponent)) > _LARGEST_EXPONENT:
        raise InvalidQuantity(f"exponent {quote(exponent)} is beyond {_LARGEST_EXPONENT}")
    return _Family.EXPONENT, int(exponent), 0


def _nano(number: _Number) -> int:
    unscaled = int(number.sign + number.digits) << number.twos
    shift = number.tens + 9
    return unscaled * 10**shift if shift >= 0 else _round_up(unscaled, 10**-shift)


def _is_verbatim(number: _Number) -> bool:
    """Whether Go takes its fast path and finds nothing to shorten: it then keeps even a plus sign or leading zeros."""
    digits = number.digits
    if number.family is _Family.BINARY:
        is_fast = not number.has_fraction and len(digits) + number.twos * 3 // 10 < 15
        return is_fast and int(digits) % 8 != 0
    is_fast = len(digits) <= 18 and number.tens >= -9
    return is_fast and number.tens % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


def _format(nano: int, family: _Family) -> str:
    if not _is_writable(nano, family):
        raise InvalidQuantity("the value is too large for a quantity")
    return _write(nano, family)


def _is_writable(nano: int, family: _Family) -> bool:
    if family is _Family.BINARY:
        return abs(nano) <= _LARGEST_BINARY * _NANO
    if family is _Family.DECIMAL and nano and nano % _BEYOND_SUFFIXES == 0:
        return False  # Go would print it without its zeros
    return abs(nano) < _TOO_LARGE


def _write(nano: int, family: _Family) -> str:
    if family is _Family.BINARY and nano % _NANO == 0:
        number, steps = _shorten(nano // _NANO, 1024)
        if steps:
            return f"{number}{_BINARY_SUFFIXES[steps]}"
    number, steps = _shorten(nano, 1000)
    if number == 0:
        return "0"
    power = 3 * steps - 9
    if family is _Family.EXPONENT:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_SUFFIXES[steps]}"


def _shorten(number: int, base: int) -> tuple[int, int]:
    """Divide by the base for as long as nothing is left over; also says how often."""
    steps = 0
    while number and number % base == 0:
        number //= base
        steps += 1
    return number, steps


def _round_up(numerator: int, denominator: int) -> int:
    """The quotient, rounded away from zero."""
    magnitude = -(-abs(numerator) // denominator)
    return magnitude if numerator >= 0 else -magnitude
