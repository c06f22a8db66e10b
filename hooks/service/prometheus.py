"""Asks Prometheus, or what answers like it, how full the volumes of a namespace are.

One query per backend, namespace and half a poll, however many syncs want to know: answers are remembered, failures for
a shorter time, and those who ask meanwhile wait for the query that is under way. What comes back is what the backend
knows, or why it could not be asked, in a sentence that is fit for a status: the same each time, and without secrets.

Requests go straight to httpx's transport: no redirect is followed, no cookie kept, no proxy or password taken from the
environment, and no URL logged, as a client of httpx would.
"""

import asyncio
import base64
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from hooks.service.backend_urls import AllowedUrls, BackendUrl, InvalidUrl, Resolve, parse_patterns, parse_url, resolve
from hooks.service.logs import Logger
from hooks.service.prometheus_answers import Trouble, read_body, read_result, read_samples, why_unreachable
from hooks.service.settings import Settings, pairs
from hooks.volumes.usage import (
    METRICS,
    NOT_ALLOWED,
    PREFIX,
    UNREACHABLE,
    Question,
    Unavailable,
    Usages,
    read_usages,
)

LONGEST_FAILURE_SECONDS = 10
"""A backend that is back is asked again soon, however rare the polls are."""
LONGEST_GET = 2000
"""Some proxies let only GET pass, others cut long URLs: GET while it is safe."""
MOST_ANSWER_BYTES = 32 * 1024 * 1024
"""Room for the series of 10,000 claims in one namespace."""
MOST_FOREIGN_BYTES = 4 * 1024 * 1024
"""Of a backend that a VolumeAutoscaler names: whoever runs it must not be able to keep the server busy."""
MOST_FOREIGN_FLIGHTS = 3
"""At once; names that take long to resolve would otherwise take the threads that the default backend's needs."""
LONGEST_ANSWER_SECONDS = 60
"""However rare the polls are: an answer from before a resize must not speak for the time after it."""
MOST_REMEMBERED = 5000
MOST_REMEMBERED_BYTES = 128 * 1024 * 1024
"""Of answers as they came; what is remembered of an honest one is a tenth."""
MOST_CONNECTIONS = 10
"""To the default backend, and as many to all others: Prometheus itself works on 20 queries at once."""
MOST_NEWS = 1000
RETRIED = frozenset({429, 502, 503, 504})
NOT_AMONG_ALLOWED = "prometheusURL is not among the URLs that METAHOOKS_PROMETHEUS_ALLOWED_URLS allows"
FENCED_OFF = (
    "has a loopback, link-local, multicast or metadata address, and METAHOOKS_PROMETHEUS_ALLOWED_URLS does not name it "
    "without *"
)

Answer = Usages | Unavailable
Key = tuple[str, str]
Count = Callable[[str, float], None]


class Prometheus:
    """`count` is called once per HTTP request with its status, or "timeout" or "error", and how long it took."""

    def __init__(
        self,
        settings: Settings,
        *,
        logger: Logger,
        count: Count,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        resolve: Resolve = resolve,
    ) -> None:
        self._settings, self._logger, self._count = settings, logger, count
        self._clock, self._wall_clock, self._resolve = clock, wall_clock, resolve
        self._allowed = AllowedUrls(
            parse_url(settings.prometheus_url), parse_patterns(settings.prometheus_allowed_urls)
        )
        self._home = Side(settings, transport, is_home=True)
        self._abroad = Side(settings, transport, is_home=False)
        self._foreign_flights = asyncio.Semaphore(MOST_FOREIGN_FLIGHTS)
        self._memory = Memory()
        self._flights: dict[Key, asyncio.Task[Answer]] = {}
        self._said: dict[tuple[str, ...], None] = {}

    async def ask(self, question: Question) -> Answer:
        try:
            backend = parse_url(question.url) if question.url else self._allowed.default
        except InvalidUrl as error:
            return Unavailable(NOT_ALLOWED, f"{NOT_AMONG_ALLOWED}: {error}")
        if not self._allowed.allows(backend):
            return Unavailable(NOT_ALLOWED, NOT_AMONG_ALLOWED)
        key = (str(backend), question.namespace)
        remembered = self._memory.recall(key, now=self._clock(), poll_seconds=question.poll_seconds)
        if remembered is not None:
            return remembered
        # Shielded: one who stops waiting takes nothing from the others.
        return await asyncio.shield(self._flights.get(key) or self._take_off(key, backend))

    async def aclose(self) -> None:
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        for side in (self._home, self._abroad):
            await side.transport.aclose()

    def _take_off(self, key: Key, backend: BackendUrl) -> asyncio.Task[Answer]:
        def land(task: asyncio.Task[Answer]) -> None:
            del self._flights[key]
            if not task.cancelled():
                task.exception()  # those who wait get it; if all have gone, nobody needs it

        flight = asyncio.create_task(self._fly(key, backend))
        self._flights[key] = flight
        flight.add_done_callback(land)
        return flight

    async def _fly(self, key: Key, backend: BackendUrl) -> Answer:
        answer: Answer
        size, seconds = 0, self._settings.prometheus_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                answer, size = await self._query(backend, namespace=key[1])
        except TimeoutError:
            answer = _unavailable(backend, Trouble(UNREACHABLE, f"did not answer within {seconds:g} seconds"))
        except Trouble as trouble:
            answer = _unavailable(backend, trouble)
        if isinstance(answer, Unavailable):
            self._say("no answer from prometheus", reason=answer.reason, why=answer.message)
        self._memory.keep(key, answer, now=self._clock(), size=size)
        return answer

    async def _query(self, backend: BackendUrl, *, namespace: str) -> tuple[Usages, int]:
        if backend == self._allowed.default:
            return await self._query_side(self._home, backend, namespace, read_credentials(self._settings))
        async with self._foreign_flights:
            await self._check_address(backend)
            return await self._query_side(self._abroad, backend, namespace, Credentials())

    async def _query_side(
        self, side: "Side", backend: BackendUrl, namespace: str, credentials: "Credentials"
    ) -> tuple[Usages, int]:
        if backend.scheme == "https":
            side.load_certificates()
        query = build_query(namespace, pairs(self._settings.prometheus_matchers))
        status, body = await self._send(side, build_request(backend, query, credentials))
        now = self._wall_clock()

        def read() -> tuple[Usages, Sequence[str]]:
            series, warnings = read_result(status, body, credentials.secrets)
            return read_usages(read_samples(series, namespace), now=now), warnings

        usages, warnings = await asyncio.to_thread(read)  # a large answer takes its time: others are served meanwhile
        for warning in warnings:
            self._say("prometheus warned", backend=backend.origin, warning=warning)
        return usages, len(body)

    async def _check_address(self, backend: BackendUrl) -> None:
        try:
            is_fenced_off = await self._allowed.fences_off(backend, self._resolve)
        except OSError:
            raise Trouble(UNREACHABLE, "has a name that cannot be resolved") from None
        if is_fenced_off:
            raise Trouble(NOT_ALLOWED, FENCED_OFF)

    async def _send(self, side: "Side", request: httpx.Request) -> tuple[int, bytes]:
        """Once more after a broken connection or a busy backend; the deadline is that of the whole flight."""
        try:
            status, body = await self._send_once(side, request)
            if status not in RETRIED:
                return status, body
        except httpx.TransportError:
            pass
        try:
            return await self._send_once(side, request)
        except httpx.TransportError as error:
            raise Trouble(UNREACHABLE, why_unreachable(error)) from None

    async def _send_once(self, side: "Side", request: httpx.Request) -> tuple[int, bytes]:
        began, code = self._clock(), "error"
        try:
            response = await side.transport.handle_async_request(request)
            try:
                body = await read_body(response, side.most_bytes)
            finally:
                await response.aclose()
            code = str(response.status_code)
            return response.status_code, body
        except (asyncio.CancelledError, httpx.TimeoutException):
            code = "timeout"
            raise
        finally:
            self._count(code, self._clock() - began)

    def _say(self, event: str, **details: str) -> None:
        """As a warning the first time: every namespace meets the same trouble, at every poll."""
        news = (event, *details.values())
        log = self._logger.debug if news in self._said else self._logger.warning
        self._said[news] = None
        if len(self._said) > MOST_NEWS:
            del self._said[next(iter(self._said))]
        log(event, **details)


def _unavailable(backend: BackendUrl, trouble: Trouble) -> Unavailable:
    return Unavailable(trouble.reason, f"Prometheus at {backend.origin} {trouble.what}")


class Memory:
    """The last answer of each backend for each namespace; what was not used for longest is forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, tuple[Answer, float, int]] = OrderedDict()
        self._bytes = 0

    def recall(self, key: Key, *, now: float, poll_seconds: float) -> Answer | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        answer, since, _ = self._kept[key]
        lifetime = min(poll_seconds / 2, LONGEST_ANSWER_SECONDS)
        if isinstance(answer, Unavailable):
            lifetime = min(lifetime, LONGEST_FAILURE_SECONDS)
        return answer if now - since < lifetime else None

    def keep(self, key: Key, answer: Answer, *, now: float, size: int) -> None:
        self._forget(key)
        self._kept[key] = answer, now, size
        self._bytes += size
        while len(self._kept) > MOST_REMEMBERED or self._bytes > MOST_REMEMBERED_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: Key) -> None:
        if forgotten := self._kept.pop(key, None):
            self._bytes -= forgotten[2]


# How to ask


class Side:
    """The way to the default backend, or to all others: only the first is shown the client certificate."""

    def __init__(self, settings: Settings, transport: httpx.AsyncBaseTransport | None, *, is_home: bool) -> None:
        self._authorities = settings.prometheus_ca_file
        self._certificate = settings.prometheus_client_certificate_file if is_home else None
        self._key = settings.prometheus_client_key_file if is_home else None
        self.most_bytes = MOST_ANSWER_BYTES if is_home else MOST_FOREIGN_BYTES
        self._loaded: list[tuple[int, ...]] | None = None
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody yet
        self.transport = transport or httpx.AsyncHTTPTransport(
            verify=self._tls, trust_env=False, limits=httpx.Limits(max_connections=MOST_CONNECTIONS)
        )

    def load_certificates(self) -> None:
        """Again when they have changed: new connections use them."""
        try:
            found = [_stamp(file) for file in (self._authorities, self._certificate, self._key) if file]
            if found != self._loaded:
                self._read_certificates()
            self._loaded = found
        except (OSError, ValueError):
            raise Trouble(UNREACHABLE, "cannot be asked: cannot read the CA or client certificate files") from None

    def _read_certificates(self) -> None:
        if self._authorities:
            self._tls.load_verify_locations(self._authorities)
        else:
            self._tls.load_default_certs()
        if self._certificate:  # with an empty passphrase, or OpenSSL would ask for one on the terminal
            self._tls.load_cert_chain(self._certificate, self._key or None, password="")


def _stamp(file: str) -> tuple[int, ...]:
    """Kubernetes swaps a symbolic link when a Secret changes: another inode, maybe the same time and size."""
    found = Path(file).stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


@dataclass(frozen=True)
class Credentials:
    headers: Sequence[tuple[str, str]] = ()
    secrets: Sequence[str] = ()  # a backend may repeat them in what it says


def read_credentials(settings: Settings) -> Credentials:
    headers = list(pairs(settings.prometheus_headers))
    secrets = [value for _, value in headers]
    if settings.prometheus_bearer_token_file:
        token = _read_secret(settings.prometheus_bearer_token_file, "the bearer token file").strip()
        if not re.fullmatch("[!-~]+", token):
            raise Trouble(UNREACHABLE, "cannot be asked: the bearer token file holds no token")
        headers.append(("Authorization", f"Bearer {token}"))
        secrets.append(token)
    elif settings.prometheus_username and settings.prometheus_password_file:
        password = _read_secret(settings.prometheus_password_file, "the password file").rstrip("\r\n")
        encoded = base64.b64encode(f"{settings.prometheus_username}:{password}".encode()).decode()
        headers.append(("Authorization", f"Basic {encoded}"))
        secrets += [password, encoded]
    return Credentials(headers, sorted(filter(None, secrets), key=len, reverse=True))


def _read_secret(file: str, what: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise Trouble(UNREACHABLE, f"cannot be asked: cannot read {what}") from None


def build_query(namespace: str, matchers: Iterable[tuple[str, str]]) -> str:
    equal = "".join(f',{label}="{escape(value)}"' for label, value in [("namespace", namespace), *matchers])
    return f'{{__name__=~"{PREFIX}({"|".join(METRICS)})"{equal}}}'


def escape(text: str) -> str:
    """As PromQL reads it between double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def build_request(backend: BackendUrl, query: str, credentials: Credentials) -> httpx.Request:
    headers = httpx.Headers({"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "metahooks"})
    headers.update([*credentials.headers])
    url = httpx.URL(f"{backend}/api/v1/query")
    in_url = url.copy_with(params={"query": query})
    if len(str(in_url)) <= LONGEST_GET:
        return httpx.Request("GET", in_url, headers=headers)
    return httpx.Request("POST", url, headers=headers, data={"query": query})
