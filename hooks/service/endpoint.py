"""A hook behind HTTP: the one place where outcomes become status codes, metrics and log lines."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal, NamedTuple

from starlette.types import Receive, Scope, Send

from hooks import wire
from hooks.kube.metadata import JsonObject
from hooks.service.logs import Logger
from hooks.service.metrics import Metrics
from hooks.volume_admission import AdmissionReview
from hooks.volumes.usage import Question, Unavailable, Usages

Clock = Callable[[], datetime]
Action = Literal["sync", "customize", "admit"]
Ask = Callable[[Question], Awaitable[Usages | Unavailable]]
"""How full volumes are, from outside."""
Run = Callable[..., Awaitable[Any]]
LARGE_BODY_BYTES = 512 * 1024
MOST_COMPLAINTS = 1000
"""How many different complaints are remembered as said; the oldest is forgotten first."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One hook: `POST /<name>/sync`, and `POST /<name>/customize` if it relates to other objects."""

    name: str
    what: str
    request: type[wire.Model]
    sync: Callable[..., wire.Outcome]
    example: JsonObject
    customize: Callable[..., wire.Outcome] | None = None
    question: Callable[..., Question | None] | None = None
    """What `sync` must know from outside, if anything; it gets the answer as `usage`."""
    admit: Callable[[AdmissionReview], wire.Outcome] | None = None
    """`POST /<name>/admit`: what the API server asks before it stores an object."""

    @property
    def actions(self) -> Sequence[Action]:
        optional: dict[Action, object] = {"customize": self.customize, "admit": self.admit}
        return ("sync", *(action for action, answer in optional.items() if answer))

    @property
    def label(self) -> str:
        """The hook's name in metrics and logs."""
        return self.name.replace("-", "_")

    async def answer(self, action: Action, body: bytes, *, now: datetime, ask: Ask) -> wire.Outcome:
        if action == "customize" and self.customize:
            return self.customize(wire.parse(wire.CustomizeRequest, body))
        if action == "admit" and self.admit:
            return self.admit(wire.parse(AdmissionReview, body))
        if len(body) > LARGE_BODY_BYTES:  # takes long: in a thread, so that probes are still answered
            return await self._sync(_in_a_thread, body, now, ask)
        if self.question is None:
            return self.sync(wire.parse(self.request, body), now=now)
        return await self._sync(_at_once, body, now, ask)

    async def _sync(self, run: Run, body: bytes, now: datetime, ask: Ask) -> wire.Outcome:
        request = await run(wire.parse, self.request, body)
        known: dict[str, Any] = {}
        if self.question is not None:
            question = await run(self.question, request, now=now)
            known = {"usage": await ask(question) if question else None}
        outcome: wire.Outcome = await run(self.sync, request, now=now, **known)
        return outcome


_ONE_THREAD = ThreadPoolExecutor(1, thread_name_prefix="large-body")
"""Several would only take turns with each other and with the event loop, which waits longer the more there are."""


async def _in_a_thread(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(_ONE_THREAD, partial(work, *arguments, **named))


async def _at_once(work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    return work(*arguments, **named)


class BodyTooLarge(Exception):
    """The request body is larger than the server takes."""


class ClientGone(Exception):
    """The client went away before its request had arrived."""


class Answer(NamedTuple):
    status: int
    result: str  # the label of metahooks_hook_requests_total
    body: bytes
    content_type: bytes = b"text/plain; charset=utf-8"
    retry_after: int | None = None

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", self.content_type), (b"content-length", b"%d" % len(self.body))]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@dataclass(frozen=True, kw_only=True)
class HookEndpoint:
    """One path of a hook. A body is taken as it comes: `curl -d @body.json` sends no JSON content type."""

    hook: Hook
    action: Action
    metrics: Metrics
    logger: Logger
    clock: Clock
    ask: Ask
    max_body_bytes: int
    complaints: dict[str, None] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await Answer(405, "", b"send a POST request; GET / shows how").send(send)
            return
        try:
            body = await read_body(scope, receive, self.max_body_bytes)
        except ClientGone:
            return
        except BodyTooLarge:
            began = time.perf_counter()
            answer = self.refusal(413, "too_large", f"body: larger than {self.max_body_bytes} bytes")
        else:
            began = time.perf_counter()
            answer = await self.answer(body)
        self.metrics.answered(self.hook.label, self.action, answer.result, time.perf_counter() - began)
        await answer.send(send)

    async def answer(self, body: bytes) -> Answer:
        try:
            outcome = await self.hook.answer(self.action, body, now=self.clock(), ask=self.ask)
            encoded = wire.encode(outcome.response)
            self.record(outcome)
        except wire.InvalidRequest as error:
            return self.refusal(422, "invalid", str(error))
        except RecursionError:
            return self.refusal(422, "invalid", "body: nested too deeply")
        except wire.RetryLater as later:
            self.logger.info("asked to retry later", hook=self.hook.label, why=str(later), seconds=later.seconds)
            return Answer(429, "retry_later", str(later).encode(), retry_after=later.seconds)
        except Exception:
            # Metacontroller copies the body into an Event on the user's object: the details belong in the log alone.
            self.logger.exception("hook failed", hook=self.hook.label, action=self.action)
            return Answer(500, "error", b"internal error")
        return Answer(200, "ok", encoded, content_type=b"application/json")

    def record(self, outcome: wire.Outcome) -> None:
        self.metrics.decided(self.hook.label, outcome)
        for decision in outcome.decisions:
            log = self.logger.info if decision.changes else self.logger.debug
            if decision.reason == wire.INVALID_SPEC and self.is_news(decision.message):
                log = self.logger.warning
            log(
                "decided",
                hook=self.hook.label,
                reason=decision.reason,
                object=str(decision.object),
                why=decision.message,
            )

    def refusal(self, status: int, result: str, why: str) -> Answer:
        log = self.logger.warning if self.is_news(why) else self.logger.debug
        log("refused", hook=self.hook.label, action=self.action, status=status, why=why)
        return Answer(status, result, why.encode())

    def is_news(self, complaint: str) -> bool:
        """Every Node comes with the same wrong policy, and every retry with the same wrong body: say so once."""
        if complaint in self.complaints:
            return False
        if len(self.complaints) >= MOST_COMPLAINTS:
            del self.complaints[next(iter(self.complaints))]
        self.complaints[complaint] = None
        return True


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body; one that is announced or turns out to be too large is not read to its end."""
    announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if announced.isdigit() and int(announced) > limit:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise BodyTooLarge
        more = message.get("more_body", False)
    return b"".join(chunks)
