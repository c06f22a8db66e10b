"""What backends answer: series as Prometheus, Thanos, Mimir and VictoriaMetrics send them, and all that can be wrong.

What a backend says reaches a status only after `tidy`: short, printable, without secrets, the same at every poll.
"""

import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence

import httpx
import msgspec

from hooks.volumes.usage import FAILED, METRICS, PREFIX, Sample

MOST_WARNINGS = 10
LONGEST_TEXT = 120
LONGEST_READ_TEXT = 10_000
ENCODINGS = frozenset({"identity", "gzip"})
"""No others, and no two at once: a few bytes could unpack to more than there is memory."""
NAMES = {f"{PREFIX}{metric}": metric for metric in METRICS}
UNREACHABLE_BECAUSE: Sequence[tuple[type[BaseException], str]] = (
    (ssl.SSLError, "broke the TLS handshake"),
    (ConnectionRefusedError, "refused the connection"),
    (socket.gaierror, "has a name that cannot be resolved"),
    (httpx.ConnectError, "cannot be connected to"),
)


class Trouble(Exception):
    """Why there is no answer. `what` goes on where "Prometheus at http://..." ends."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason, self.what = reason, what


class Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None  # a native histogram has none


class Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class Said(msgspec.Struct, rename="camel"):
    status: str = ""
    data: Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    is_partial: bool = False  # VictoriaMetrics


async def read_body(response: httpx.Response, limit: int) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() not in ENCODINGS:
        raise Trouble(FAILED, "answered in an encoding that was not asked for")
    body = bytearray()
    try:
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > limit:
                raise Trouble(FAILED, f"answered more than {limit >> 20} MiB")
    except httpx.DecodingError:
        raise Trouble(FAILED, "answered what is not gzip") from None
    return bytes(body)


def read_result(status: int, body: bytes, secrets: Sequence[str]) -> tuple[Sequence[Series], Sequence[str]]:
    """The series and the warnings of an answer."""
    if 300 <= status < 400:
        raise Trouble(FAILED, f"answered HTTP {status}: redirects are not followed")
    try:
        said = msgspec.json.decode(body, type=Said)
        if status != 200 or said.status != "success" or said.data is None:
            text = tidy(said.error, secrets)
            raise Trouble(FAILED, f"answered HTTP {status}" + (f": {text}" if text else ", without a result"))
        if said.data.result_type != "vector":
            raise Trouble(FAILED, f"answered with a {tidy(said.data.result_type, secrets)} instead of a vector")
        series = msgspec.json.decode(said.data.result, type=list[Series] | None)
    except (ValueError, RecursionError):
        what = "what is not the result of a query" if status == 200 else f"HTTP {status}"
        raise Trouble(FAILED, f"answered {what}") from None
    return series or [], read_warnings(said, secrets)


def read_warnings(said: Said, secrets: Sequence[str]) -> list[str]:
    texts = [*(said.warnings or []), *(said.infos or [])][:MOST_WARNINGS]
    partial = ["the answer is partial"] if said.is_partial else []
    return [*filter(None, (tidy(text, secrets) for text in texts)), *partial]


def read_samples(result: Iterable[Series], namespace: str) -> Iterator[Sample]:
    """Of this namespace only, should a proxy before the backend lose what was asked."""
    for series in result:
        metric = NAMES.get(series.metric.get("__name__", ""))
        if metric is None or series.value is None or series.metric.get("namespace") != namespace:
            continue
        at, text = series.value
        try:
            value = float(text)
        except ValueError:
            continue
        yield Sample(metric, series.metric, value, at)


def tidy(text: str, secrets: Sequence[str]) -> str:
    """What a backend says, for a status: short, without secrets, and without the numbers that differ each time."""
    if len(text) > LONGEST_READ_TEXT:
        return "a text too long to show"
    for secret in secrets:
        text = text.replace(secret, "***")
    plain = " ".join(re.sub(r"[^ -~]+", " ", text).split())
    stable = re.sub(r"[0-9]+(?:[.:][0-9]+)*", "N", plain)
    return stable if len(stable) <= LONGEST_TEXT else f"{stable[: LONGEST_TEXT - 3]}..."


def why_unreachable(error: httpx.TransportError) -> str:
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"has a certificate that cannot be trusted: {cause.verify_message.rstrip('.')}"
        if said := [what for kind, what in UNREACHABLE_BECAUSE if isinstance(cause, kind)]:
            return said[0]
    return "broke the connection"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """From the innermost: httpx wraps what httpcore wraps around what the system said."""
    found: list[BaseException] = []
    while error is not None:
        found.append(error)
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__
    return reversed(found)
