"""Asking Prometheus: one query for all who want to know, a deadline, and no secret in anything that is said."""

import asyncio
import base64
import gzip
import io
import json
import re
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from hooks.service.logs import make_logger
from hooks.service.prometheus import (
    MOST_ANSWER_BYTES,
    MOST_FOREIGN_BYTES,
    MOST_NEWS,
    MOST_REMEMBERED,
    MOST_REMEMBERED_BYTES,
    Memory,
    Prometheus,
    build_query,
)
from hooks.service.prometheus_answers import LONGEST_READ_TEXT, MOST_WARNINGS
from hooks.service.settings import Settings
from hooks.volumes.usage import (
    FAILED,
    METRICS,
    NOT_ALLOWED,
    PREFIX,
    UNREACHABLE,
    Fault,
    Filesystem,
    Question,
    Unavailable,
    Usages,
)

NOW = 1_800_000_000.0
DEFAULT = "http://prometheus.monitoring.svc.cluster.local:9090"
QUERY = (
    '{__name__=~"kubelet_volume_stats_(used_bytes|capacity_bytes|available_bytes|inodes|inodes_used|'
    'health_status_abnormal)",namespace="shop"}'
)
HALF_FULL = Usages({"data": Filesystem(capacity_bytes=100, used_bytes=50, filled_bytes=50)})

Answer = Usages | Unavailable
Reply = httpx.Response | Exception
Handler = Callable[[httpx.Request], Reply | Awaitable[Reply]]


def series(metric: str, value: str, *, claim: str = "data", **labels: str) -> dict[str, Any]:
    named = {"__name__": PREFIX + metric, "namespace": "shop", "persistentvolumeclaim": claim, "node": "n1"}
    return {"metric": named | labels, "value": [NOW, value]}


def vector(*found: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": "vector", "result": list(found)}, **more}


def half_full(**more: object) -> httpx.Response:
    return httpx.Response(200, json=vector(series("capacity_bytes", "100"), series("used_bytes", "50"), **more))


def question(*, url: str = "", namespace: str = "shop", poll: float = 60) -> Question:
    return Question(namespace=namespace, url=url, poll_seconds=poll)


class Scene:
    """The adapter before a backend that replies as told; both clocks stand still unless a test moves them."""

    def __init__(
        self,
        *replies: Reply | Handler,
        addresses: Iterable[str] | Exception = ("10.96.0.7",),
        **settings: object,
    ) -> None:
        self.now = 0.0
        self.replies = list(replies) or [lambda _: half_full()]
        self.addresses = addresses
        self.requests: list[httpx.Request] = []
        self.resolved: list[str] = []
        self.counted: list[str] = []
        self.log = io.StringIO()
        self.prometheus = Prometheus(
            Settings(**settings),  # type: ignore[arg-type]  # Settings checks them
            logger=make_logger(Settings(log_format="json", log_level="debug"), self.log),
            count=lambda code, seconds: self.counted.append(code),
            transport=httpx.MockTransport(self.reply),
            clock=lambda: self.now,
            wall_clock=lambda: NOW,
            resolve=self.resolve,
        )

    async def reply(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        told = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        reply = told(request) if callable(told) else told
        reply = await reply if isinstance(reply, Awaitable) else reply
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def resolve(self, host: str, port: int) -> Iterable[str]:
        self.resolved.append(host)
        if isinstance(self.addresses, Exception):
            raise self.addresses
        return self.addresses

    def ask(self, *, at: float = 0.0, **asked: Any) -> Answer:
        self.now = at
        return asyncio.run(self.prometheus.ask(question(**asked)))

    def fail(self, **asked: Any) -> Unavailable:
        answer = self.ask(**asked)
        assert isinstance(answer, Unavailable)
        return answer

    def lines(self, level: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.getvalue().splitlines()]
        return [line for line in lines if line["level"] == level]


# What is asked


def test_one_get_asks_for_all_metrics_of_a_namespace() -> None:
    scene = Scene()
    assert scene.ask() == HALF_FULL
    [request] = scene.requests
    assert (request.method, str(request.url.copy_with(query=None))) == ("GET", f"{DEFAULT}/api/v1/query")
    assert dict(request.url.params) == {"query": QUERY}
    assert "authorization" not in request.headers
    assert scene.counted == ["200"]


@pytest.mark.parametrize(
    ("base", "asked"),
    [
        pytest.param("http://a.b.svc", "http://a.b.svc/api/v1/query", id="no prefix"),
        pytest.param("http://a.b.svc/", "http://a.b.svc/api/v1/query", id="a slash"),
        pytest.param("http://mimir.m.svc/prometheus", "http://mimir.m.svc/prometheus/api/v1/query", id="Mimir"),
        pytest.param("http://mimir.m.svc/prometheus/", "http://mimir.m.svc/prometheus/api/v1/query", id="and a slash"),
        pytest.param(
            "http://vm.m.svc:8481/select/0:1/prometheus",
            "http://vm.m.svc:8481/select/0:1/prometheus/api/v1/query",
            id="VictoriaMetrics with a tenant",
        ),
        pytest.param("https://a.b.svc:443", "https://a.b.svc/api/v1/query", id="https"),
    ],
)
@pytest.mark.parametrize("is_default", [True, False], ids=["default", "named by an autoscaler"])
def test_path_prefixes_are_kept(base: str, asked: str, is_default: bool) -> None:
    scene = Scene(prometheus_url=base) if is_default else Scene()
    assert scene.ask(url="" if is_default else base) == HALF_FULL
    assert str(scene.requests[0].url.copy_with(query=None)) == asked


def test_a_query_too_long_for_a_url_is_posted_as_a_form() -> None:
    scene = Scene(prometheus_matchers=f"cluster={'ü' * 400}")
    scene.ask()
    [request] = scene.requests
    assert (request.method, str(request.url)) == ("POST", f"{DEFAULT}/api/v1/query")
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    [query] = parse_qs(request.content.decode())["query"]
    assert query.endswith(f',namespace="shop",cluster="{"ü" * 400}"}}')


def test_matchers_go_to_every_backend() -> None:
    scene = Scene(prometheus_matchers='cluster=prod, region=a"b\\c=d')
    scene.ask()
    scene.ask(url="http://other.ns.svc")
    wanted = QUERY[:-1] + r',cluster="prod",region="a\"b\\c=d"}'
    assert [request.url.params["query"] for request in scene.requests] == [wanted, wanted]


READ_BY_PROMQL = re.compile(r'(?P<label>[a-z_]+)(?P<sign>=~?)"(?P<text>(?:[^"\\\n]|\\.)*)"', re.DOTALL)
ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@given(st.text(), st.text())
def test_no_value_leaves_its_quotes(namespace: str, value: str) -> None:
    query = build_query(namespace, [("cluster", value)])
    read, rest = [], query.removeprefix("{")
    while found := READ_BY_PROMQL.match(rest):
        read.append((found["label"], re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], found["text"])))
        rest = rest[found.end() :].removeprefix(",")
    assert rest == "}"
    assert read[1:] == [("namespace", namespace), ("cluster", value)]


# Who is asked how often


def test_fifty_who_ask_at_once_share_one_request() -> None:
    async def slowly(request: httpx.Request) -> Reply:
        await asyncio.sleep(0.001)
        return half_full()

    scene = Scene(slowly)

    async def ask_all() -> list[Answer]:
        return await asyncio.gather(*(scene.prometheus.ask(question(poll=10 + n)) for n in range(50)))

    assert asyncio.run(ask_all()) == [HALF_FULL] * 50
    assert len(scene.requests) == 1


def test_each_namespace_and_each_backend_is_asked_for_itself() -> None:
    scene = Scene()
    asked: list[dict[str, Any]] = [
        {},
        {"namespace": "other"},
        {"url": "http://a.b.svc"},
        {"url": "http://a.b.svc/prefix"},
    ]
    for _ in range(2):
        for one in asked:
            scene.ask(**one)
    assert len(scene.requests) == len(asked)


def test_a_backend_is_the_same_however_it_is_spelled() -> None:
    scene = Scene()
    for url in ("", DEFAULT, f"{DEFAULT}/", DEFAULT.upper().replace("HTTP", "http")):
        assert scene.ask(url=url) == HALF_FULL
    assert len(scene.requests) == 1


@pytest.mark.parametrize(
    ("polls", "requests"),
    [
        pytest.param([(0, 60), (29.9, 60)], 1, id="younger than half a poll"),
        pytest.param([(0, 60), (30, 60)], 2, id="half a poll old"),
        pytest.param([(0, 600), (29, 60)], 1, id="a shorter poll takes what a longer one asked for"),
        pytest.param([(0, 600), (31, 60), (70, 600)], 2, id="a shorter poll asks again, and the longer one gains"),
        pytest.param([(0, 60), (31, 600), (31, 60)], 2, id="a longer poll does not make an answer younger"),
        pytest.param([(0, 3600), (59.9, 3600)], 1, id="a minute at most: just below"),
        pytest.param([(0, 3600), (60, 3600)], 2, id="a minute at most, however rare the polls"),
        pytest.param([(0, 0), (0, 0)], 2, id="no poll, nothing remembered"),
    ],
)
def test_an_answer_serves_for_half_a_poll(polls: Sequence[tuple[float, float]], requests: int) -> None:
    scene = Scene()
    for at, poll in polls:
        assert scene.ask(at=at, poll=poll) == HALF_FULL
    assert len(scene.requests) == requests


@pytest.mark.parametrize(
    ("poll", "at", "requests"),
    [
        pytest.param(600, 9.9, 1, id="within 10 seconds"),
        pytest.param(600, 10, 2, id="after 10 seconds, however rare the polls"),
        pytest.param(10, 4.9, 1, id="within half of a short poll"),
        pytest.param(10, 5, 2, id="after half of a short poll"),
    ],
)
def test_a_failure_is_remembered_for_a_short_time(poll: float, at: float, requests: int) -> None:
    scene = Scene(httpx.Response(500))
    first = scene.fail(poll=poll)
    assert scene.fail(poll=poll, at=at) == first
    assert len(scene.requests) == requests


def test_a_backend_that_is_back_answers() -> None:
    scene = Scene(httpx.Response(500), half_full())
    assert isinstance(scene.ask(), Unavailable)
    assert scene.ask(at=10) == HALF_FULL


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    memory = Memory()
    for number in range(MOST_REMEMBERED):
        memory.keep(("u", str(number)), HALF_FULL, now=0, size=1)
    assert memory.recall(("u", "0"), now=0, poll_seconds=60)
    memory.keep(("u", "one more"), HALF_FULL, now=0, size=1)
    assert memory.recall(("u", "0"), now=0, poll_seconds=60)
    assert memory.recall(("u", "1"), now=0, poll_seconds=60) is None


def test_large_answers_are_forgotten_sooner() -> None:
    memory = Memory()
    for number in range(5):
        for _ in range(2):  # the same again takes no more room
            memory.keep(("u", str(number)), HALF_FULL, now=0, size=MOST_REMEMBERED_BYTES // 4)
    known = [number for number in range(5) if memory.recall(("u", str(number)), now=0, poll_seconds=60)]
    assert known == [1, 2, 3, 4]


# Who goes away


class Gate:
    """A backend that replies when it is opened."""

    def __init__(self, reply: Reply) -> None:
        self.reply, self.opened, self.reached = reply, asyncio.Event(), asyncio.Event()

    async def __call__(self, request: httpx.Request) -> Reply:
        self.reached.set()
        await self.opened.wait()
        return self.reply


def test_one_who_stops_waiting_takes_nothing_from_the_others() -> None:
    async def ask() -> tuple[list[Answer | BaseException], int]:
        gate = Gate(half_full())
        scene = Scene(gate)
        waiting = [asyncio.create_task(scene.prometheus.ask(question())) for _ in range(3)]
        await gate.reached.wait()
        waiting[0].cancel()  # the one who started it
        await asyncio.sleep(0)
        gate.opened.set()
        return await asyncio.gather(*waiting, return_exceptions=True), len(scene.requests)

    (first, *others), requests = asyncio.run(ask())
    assert isinstance(first, asyncio.CancelledError)
    assert (others, requests) == ([HALF_FULL, HALF_FULL], 1)


def test_what_nobody_waits_for_any_more_is_still_remembered() -> None:
    async def ask() -> tuple[Answer, int]:
        gate = Gate(half_full())
        scene = Scene(gate)
        alone = asyncio.create_task(scene.prometheus.ask(question()))
        await gate.reached.wait()
        alone.cancel()
        await asyncio.gather(alone, return_exceptions=True)
        gate.opened.set()
        return await scene.prometheus.ask(question()), len(scene.requests)

    assert asyncio.run(ask()) == (HALF_FULL, 1)


@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_bug_reaches_those_who_wait_and_no_one_else(is_awaited: bool) -> None:
    unheard: list[object] = []

    async def ask() -> Answer:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
        gate = Gate(ZeroDivisionError())
        scene = Scene(gate, half_full())
        waiting = [asyncio.create_task(scene.prometheus.ask(question())) for _ in range(3)]
        await gate.reached.wait()
        if not is_awaited:
            for task in waiting:
                task.cancel()
        gate.opened.set()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        expected = ZeroDivisionError if is_awaited else asyncio.CancelledError
        assert all(isinstance(one, expected) for one in ended)
        await asyncio.sleep(0.001)
        return await scene.prometheus.ask(question())

    assert asyncio.run(ask()) == HALF_FULL
    assert unheard == []


def test_closing_ends_what_is_under_way() -> None:
    async def ask() -> tuple[Answer | BaseException, list[str]]:
        gate = Gate(half_full())
        scene = Scene(gate)
        waiting = asyncio.create_task(scene.prometheus.ask(question()))
        await gate.reached.wait()
        await scene.prometheus.aclose()
        [ended] = await asyncio.gather(waiting, return_exceptions=True)
        return ended, scene.counted

    ended, counted = asyncio.run(ask())
    assert isinstance(ended, asyncio.CancelledError)
    assert counted == ["timeout"]


# Deadline and retry


@pytest.mark.parametrize(
    ("first", "code"),
    [
        pytest.param(httpx.ConnectError("refused"), "error", id="no connection"),
        pytest.param(httpx.ReadError("reset"), "error", id="connection reset"),
        pytest.param(httpx.RemoteProtocolError("gone"), "error", id="idle connection that the backend had closed"),
        *(pytest.param(httpx.Response(code), str(code), id=f"HTTP {code}") for code in (429, 502, 503, 504)),
    ],
)
def test_asks_once_more_after_a_broken_connection_or_a_busy_backend(first: Reply, code: str) -> None:
    scene = Scene(first, half_full())
    assert scene.ask() == HALF_FULL
    assert scene.counted == [code, "200"]


@pytest.mark.parametrize("reply", [httpx.ConnectError("refused"), httpx.Response(503)], ids=["refused", "busy"])
def test_asks_no_third_time(reply: Reply) -> None:
    scene = Scene(reply)
    assert isinstance(scene.ask(), Unavailable)
    assert len(scene.requests) == 2


@pytest.mark.parametrize("code", [204, 302, 400, 401, 403, 404, 422, 500, 501])
def test_does_not_ask_again_where_the_answer_would_be_the_same(code: int) -> None:
    scene = Scene(httpx.Response(code))
    assert isinstance(scene.ask(), Unavailable)
    assert scene.counted == [str(code)]


async def never(*_: object) -> Any:
    await asyncio.Event().wait()


async def trickle() -> AsyncIterator[bytes]:
    yield b'{"status":'
    await never()


@pytest.mark.parametrize(
    ("replies", "counted"),
    [
        pytest.param([never], ["timeout"], id="no answer"),
        pytest.param([httpx.ConnectError("refused"), never], ["error", "timeout"], id="no answer the second time"),
        pytest.param([lambda _: httpx.Response(200, content=trickle())], ["timeout"], id="no end of the answer"),
        pytest.param([httpx.ReadTimeout("slow")], ["timeout", "timeout"], id="a timeout below"),
    ],
)
def test_the_deadline_covers_everything(replies: Sequence[Reply | Handler], counted: Sequence[str]) -> None:
    scene = Scene(*replies, prometheus_timeout_seconds=0.02)
    failed = scene.fail()
    assert failed.reason == UNREACHABLE
    assert scene.counted == counted


def test_the_deadline_is_named_as_it_is_set() -> None:
    assert Scene(never, prometheus_timeout_seconds=0.02).fail() == Unavailable(
        UNREACHABLE, f"Prometheus at {DEFAULT} did not answer within 0.02 seconds"
    )


def test_the_deadline_covers_resolving_the_name() -> None:
    scene = Scene(prometheus_timeout_seconds=0.02)
    scene.prometheus = Prometheus(
        Settings(prometheus_timeout_seconds=0.02),
        logger=make_logger(Settings(), io.StringIO()),
        count=lambda code, seconds: None,
        transport=httpx.MockTransport(scene.reply),
        resolve=never,
    )
    assert scene.fail(url="http://a.b.svc").message == "Prometheus at http://a.b.svc did not answer within 0.02 seconds"
    assert scene.requests == []


def test_counts_how_long_a_request_took() -> None:
    took: list[tuple[str, float]] = []
    times = iter([0.0, 1.0, 3.5, 4.0])
    prometheus = Prometheus(
        Settings(),
        logger=make_logger(Settings(), io.StringIO()),
        count=lambda code, seconds: took.append((code, seconds)),
        transport=httpx.MockTransport(lambda _: half_full()),
        clock=lambda: next(times),
    )
    asyncio.run(prometheus.ask(question()))
    assert took == [("200", 2.5)]


# What backends answer


USED = series("used_bytes", "50", instance="10.0.0.1:10250")
CAPACITY = series("capacity_bytes", "1e2", instance="10.0.0.1:10250")
STRANGE = series("used_bytes", "99", claim="strange")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(vector(USED, CAPACITY), id="Prometheus"),
        pytest.param(vector(USED, CAPACITY, infos=["PromQL info: metric might not be a counter"]), id="with infos"),
        pytest.param(vector(USED, CAPACITY, warnings=["No StoreAPIs matched"]), id="Thanos, partial"),
        pytest.param(
            vector(USED, CAPACITY, errorType="", error="", warnings=None, infos=None), id="Mimir, empty fields"
        ),
        pytest.param(
            vector(USED, CAPACITY, isPartial=True, stats={"seriesFetched": "2", "executionTimeMsec": 3}),
            id="VictoriaMetrics, partial",
        ),
    ],
)
def test_reads_the_answers_of_all_backends(answer: dict[str, Any]) -> None:
    assert Scene(httpx.Response(200, json=answer)).ask() == HALF_FULL


def test_mimir_behind_a_prefix_gets_its_tenant() -> None:
    scene = Scene(prometheus_url="http://mimir.m.svc/prometheus", prometheus_headers="X-Scope-OrgID=team-a")
    assert scene.ask() == HALF_FULL
    assert scene.requests[0].url.path == "/prometheus/api/v1/query"
    assert scene.requests[0].headers["x-scope-orgid"] == "team-a"


def test_no_series_is_an_answer() -> None:
    assert Scene(httpx.Response(200, json=vector())).ask() == Usages({})
    no_list = {"status": "success", "data": {"resultType": "vector", "result": None}}
    assert Scene(httpx.Response(200, json=no_list)).ask() == Usages({})


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"metric": STRANGE["metric"], "histogram": [NOW, {"count": "1", "sum": "2"}]}, id="a histogram"),
        pytest.param(STRANGE | {"value": [NOW, "many"]}, id="a value that is no number"),
        pytest.param(STRANGE | {"value": [NOW, ""]}, id="no value"),
        pytest.param(series("used_percent", "99", claim="strange"), id="a metric that was not asked for"),
        pytest.param({**STRANGE, "metric": STRANGE["metric"] | {"__name__": "used_bytes"}}, id="no prefix"),
        pytest.param({**STRANGE, "metric": STRANGE["metric"] | {"namespace": "other"}}, id="another namespace"),
        pytest.param({"metric": {}, "value": [NOW, "99"]}, id="no labels"),
    ],
)
def test_passes_over_what_is_not_asked_for_or_cannot_be_read(other: dict[str, Any]) -> None:
    assert Scene(httpx.Response(200, json=vector(USED, CAPACITY, other))).ask() == HALF_FULL


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_values_that_are_no_size_are_told_apart_from_none(value: str) -> None:
    found = vector(series("capacity_bytes", value), series("used_bytes", "50"))
    assert Scene(httpx.Response(200, json=found)).ask() == Usages({"data": Fault.INVALID_METRICS})


def test_samples_are_as_old_as_the_wall_clock_says() -> None:
    old = [series(metric, "100") | {"value": [NOW - 301, "100"]} for metric in ("capacity_bytes", "used_bytes")]
    assert Scene(httpx.Response(200, json=vector(*old))).ask() == Usages({"data": Fault.OLD_METRICS})


def test_reads_all_metrics_of_many_claims() -> None:
    values = dict(zip(METRICS, ("60", "100", "30", "10", "1", "0"), strict=True))
    found = [series(metric, value, claim=f"c{n}") for n in range(1000) for metric, value in values.items()]
    answer = Scene(httpx.Response(200, json=vector(*found))).ask()
    assert isinstance(answer, Usages)
    assert len(answer.claims) == 1000
    assert answer.claims["c999"] == Filesystem(100, 60, 70, inodes=10, inodes_used=1)


def test_reads_gzip() -> None:
    body = gzip.compress(half_full().content)
    scene = Scene(httpx.Response(200, content=body, headers={"Content-Encoding": "gzip"}))
    assert scene.ask() == HALF_FULL
    assert scene.requests[0].headers["accept-encoding"] == "gzip"


# What backends answer when they cannot, or mean harm


def test_a_backend_that_an_autoscaler_names_may_answer_less() -> None:
    body = b'{"status":"success","data":{"resultType":"vector","result":[]}}' + b" " * MOST_FOREIGN_BYTES
    answers = [Scene(httpx.Response(200, content=body)).ask(url=url) for url in ("", "http://a.b.svc")]

    assert answers[0] == Usages({})
    assert answers[1] == Unavailable(FAILED, "Prometheus at http://a.b.svc answered more than 4 MiB")


def failure(code: int, text: str) -> httpx.Response:
    return httpx.Response(code, json={"status": "error", "errorType": "execution", "error": text})


def encoded(encoding: str, body: bytes) -> httpx.Response:
    async def stream() -> AsyncIterator[bytes]:
        yield body

    return httpx.Response(200, content=stream(), headers={"Content-Encoding": encoding})


NOT_A_RESULT = "answered what is not the result of a query"


@pytest.mark.parametrize(
    ("reply", "what"),
    [
        pytest.param(
            failure(422, "query processing would load too many samples into memory"),
            "answered HTTP 422: query processing would load too many samples into memory",
            id="an error of Prometheus",
        ),
        pytest.param(failure(200, "bad"), "answered HTTP 200: bad", id="an error as 200"),
        pytest.param(
            failure(500, "fetch 10.42.0.13:10901 after 2.001s at 2026-01-02T03:04:05Z"),
            "answered HTTP 500: fetch N after Ns at N-N-NTNZ",
            id="numbers that differ each time",
        ),
        pytest.param(
            failure(500, "a\x00b\n\x1b[31m c\u202ed"), "answered HTTP 500: a b [Nm c d", id="control characters"
        ),
        pytest.param(failure(500, "x" * 121), f"answered HTTP 500: {'x' * 117}...", id="a long text"),
        pytest.param(
            failure(500, "x" * (LONGEST_READ_TEXT + 1)), "answered HTTP 500: a text too long to show", id="a huge text"
        ),
        pytest.param(httpx.Response(401, text="no org id: secret"), "answered HTTP 401", id="an error of Mimir"),
        pytest.param(httpx.Response(404, html="<h1>secret</h1>"), "answered HTTP 404", id="a page, 404"),
        pytest.param(httpx.Response(200, html="<h1>secret</h1>"), NOT_A_RESULT, id="a page"),
        pytest.param(httpx.Response(200), NOT_A_RESULT, id="nothing"),
        pytest.param(httpx.Response(204), "answered HTTP 204", id="no content"),
        pytest.param(httpx.Response(500, json={}), "answered HTTP 500, without a result", id="an empty error"),
        pytest.param(httpx.Response(200, json={}), "answered HTTP 200, without a result", id="an empty object"),
        pytest.param(
            httpx.Response(302, headers={"Location": "http://secret"}),
            "answered HTTP 302: redirects are not followed",
            id="a redirect",
        ),
        pytest.param(
            httpx.Response(200, json={"status": "success", "data": {"resultType": "scalar", "result": [NOW, "1"]}}),
            "answered with a scalar instead of a vector",
            id="a scalar",
        ),
        pytest.param(
            httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": []}}),
            "answered with a matrix instead of a vector",
            id="a matrix",
        ),
        pytest.param(httpx.Response(200, content=half_full().content[:-9]), NOT_A_RESULT, id="cut short"),
        pytest.param(httpx.Response(200, json=[]), NOT_A_RESULT, id="a list"),
        pytest.param(
            httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": {}}}),
            NOT_A_RESULT,
            id="no list of series",
        ),
        pytest.param(httpx.Response(200, json=vector({"value": [1, "1"]})), NOT_A_RESULT, id="a series without labels"),
        pytest.param(
            httpx.Response(200, json=vector(USED | {"value": ["1"]})), NOT_A_RESULT, id="a value without time"
        ),
        pytest.param(httpx.Response(200, json=vector(warnings="secret")), NOT_A_RESULT, id="a warning that is no list"),
        pytest.param(
            httpx.Response(200, content=b'{"status":"success","error":"\xff\xfe"}'), NOT_A_RESULT, id="not UTF-8"
        ),
        pytest.param(httpx.Response(200, content=b'{"x":' + b"[" * 100_000), NOT_A_RESULT, id="nested too deeply"),
        pytest.param(
            httpx.Response(200, content=b'{"data":{"resultType":"vector","result":' + b"[" * 100_000),
            NOT_A_RESULT,
            id="series nested too deeply",
        ),
        pytest.param(encoded("gzip", b"secret"), "answered what is not gzip", id="no gzip"),
        pytest.param(
            encoded("gzip, gzip", gzip.compress(gzip.compress(b"0"))),
            "answered in an encoding that was not asked for",
            id="gzip in gzip, which a few bytes could make huge",
        ),
    ],
)
def test_an_answer_that_is_no_result_is_an_error_in_one_stable_sentence(reply: httpx.Response, what: str) -> None:
    scene = Scene(reply)
    assert scene.fail() == Unavailable(FAILED, f"Prometheus at {DEFAULT} {what}")
    assert "secret" not in scene.log.getvalue()


def test_an_answer_too_large_is_not_read_to_its_end() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 10 * MOST_ANSWER_BYTES:
            sent += 1024 * 1024
            yield b" " * (1024 * 1024)

    scene = Scene(lambda _: httpx.Response(200, content=endless()))
    assert scene.fail() == Unavailable(FAILED, f"Prometheus at {DEFAULT} answered more than 32 MiB")
    assert sent == MOST_ANSWER_BYTES + 1024 * 1024


def caused_by(*causes: BaseException) -> httpx.ConnectError:
    """As httpx raises it: each error wraps the one before."""
    error: BaseException = causes[0]
    for cause in (*causes[1:], httpx.ConnectError("secret")):
        cause.__cause__ = error
        error = cause
    assert isinstance(error, httpx.ConnectError)
    return error


@pytest.mark.parametrize(
    ("error", "what"),
    [
        pytest.param(caused_by(ConnectionRefusedError()), "refused the connection", id="refused"),
        pytest.param(
            caused_by(ExceptionGroup("all", [ConnectionRefusedError(), OSError()]), OSError("all failed")),
            "refused the connection",
            id="refused at several addresses",
        ),
        pytest.param(
            caused_by(socket.gaierror(-2, "Name or service not known")),
            "has a name that cannot be resolved",
            id="no such name",
        ),
        pytest.param(caused_by(ssl.SSLError(1, "secret")), "broke the TLS handshake", id="no TLS"),
        pytest.param(caused_by(OSError(113, "No route to host")), "cannot be connected to", id="no route"),
        pytest.param(httpx.ReadError("secret"), "broke the connection", id="connection lost"),
        pytest.param(httpx.RemoteProtocolError("secret"), "broke the connection", id="not HTTP"),
    ],
)
def test_no_answer_is_unreachable_with_the_innermost_cause(error: httpx.TransportError, what: str) -> None:
    scene = Scene(error)
    assert scene.fail() == Unavailable(UNREACHABLE, f"Prometheus at {DEFAULT} {what}")
    assert "secret" not in scene.log.getvalue()


# What is logged


def test_a_warning_of_the_backend_is_logged_once() -> None:
    reply = [half_full(warnings=[f"store 10.0.0.{n}:10901 is\ndown"]) for n in range(3)]
    scene = Scene(*reply)
    for at in (0, 30, 60):
        assert scene.ask(at=at) == HALF_FULL
    [line] = scene.lines("warning")
    assert (line["event"], line["backend"], line["warning"]) == ("prometheus warned", DEFAULT, "store N is down")


def test_a_partial_answer_of_victoriametrics_is_logged() -> None:
    scene = Scene(half_full(isPartial=True))
    scene.ask()
    assert [line["warning"] for line in scene.lines("warning")] == ["the answer is partial"]


def test_a_failure_is_logged_once_for_all_namespaces() -> None:
    scene = Scene(httpx.Response(500))
    for namespace in ("a", "b", "c"):
        scene.ask(namespace=namespace)
    [line] = scene.lines("warning")
    assert (line["reason"], line["why"]) == (FAILED, f"Prometheus at {DEFAULT} answered HTTP 500")
    assert len(scene.lines("debug")) == 2


def test_what_was_said_long_ago_is_news_again() -> None:
    """So that warnings that differ every time do not fill the memory."""
    texts = [f"warning {chr(97 + n // 100)}{'x' * (n % 100)}" for n in range(MOST_NEWS + 10)]
    answers = [half_full(warnings=texts[start : start + 10]) for start in range(0, len(texts), 10)]
    scene = Scene(*answers, answers[0])
    for at in range(len(answers) + 1):
        scene.ask(at=at * 60)
    assert [line["warning"] for line in scene.lines("warning")] == [*texts, *texts[:10]]


def test_of_many_warnings_at_once_the_first_are_logged() -> None:
    scene = Scene(half_full(warnings=[f"store {letter}" for letter in "abcdefghijklmn"]))
    scene.ask()
    assert len(scene.lines("warning")) == MOST_WARNINGS


# Who gets credentials


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


OTHER_ORIGINS = [
    pytest.param("https://prometheus.monitoring.svc.cluster.local:9090", id="other scheme"),
    pytest.param("http://prometheus.monitoring.svc.cluster.local", id="other port"),
    pytest.param("http://prometheus.monitoring.svc:9090", id="other name"),
    pytest.param("http://evil.team.svc:9090", id="other host"),
    pytest.param("http://prometheus.monitoring.svc.cluster.local:9090/tenant-b", id="other path"),
]


@pytest.mark.parametrize("url", ["", DEFAULT, f"{DEFAULT}/"], ids=["default", "its URL", "its URL with a slash"])
def test_credentials_go_to_the_default(tmp_path: Path, url: str) -> None:
    token = write(tmp_path, "token", "s3cret\n")
    scene = Scene(prometheus_bearer_token_file=token, prometheus_headers="X-Scope-OrgID=a, X-Key=k==")
    assert scene.ask(url=url) == HALF_FULL
    headers = scene.requests[0].headers
    assert (headers["authorization"], headers["x-scope-orgid"], headers["x-key"]) == ("Bearer s3cret", "a", "k==")


@pytest.mark.parametrize("url", OTHER_ORIGINS)
def test_credentials_go_nowhere_else(tmp_path: Path, url: str) -> None:
    token = write(tmp_path, "token", "s3cret\n")
    scene = Scene(prometheus_bearer_token_file=token, prometheus_headers="X-Scope-OrgID=a")
    assert scene.ask(url=url) == HALF_FULL
    assert set(scene.requests[0].headers) == {"host", "accept", "accept-encoding", "user-agent"}


def test_basic_authentication(tmp_path: Path) -> None:
    password = write(tmp_path, "password", " pass:wörd \n")
    scene = Scene(prometheus_username="me", prometheus_password_file=password)
    scene.ask()
    scene.ask(url="http://evil.team.svc")
    sent = [request.headers.get("authorization") for request in scene.requests]
    assert sent == [f"Basic {base64.b64encode('me: pass:wörd '.encode()).decode()}", None]


def test_a_token_that_kubernetes_has_swapped_is_used_at_once(tmp_path: Path) -> None:
    for version in ("..v1", "..v2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version, "token", version)
    link = tmp_path / "..data"
    link.symlink_to("..v1")
    (tmp_path / "token").symlink_to("..data/token")
    scene = Scene(prometheus_bearer_token_file=str(tmp_path / "token"))
    scene.ask()
    (tmp_path / "new").symlink_to("..v2")
    (tmp_path / "new").rename(link)
    scene.ask(at=60)
    assert [request.headers["authorization"] for request in scene.requests] == ["Bearer ..v1", "Bearer ..v2"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        pytest.param(None, "cannot be asked: cannot read the bearer token file", id="missing"),
        pytest.param(b"\xff\xfe", "cannot be asked: cannot read the bearer token file", id="not text"),
        pytest.param(b" \n", "cannot be asked: the bearer token file holds no token", id="empty"),
        pytest.param(b"a\r\nX: b", "cannot be asked: the bearer token file holds no token", id="two lines"),
    ],
)
def test_without_its_token_the_server_goes_on_and_says_why(tmp_path: Path, content: bytes | None, what: str) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    scene = Scene(prometheus_bearer_token_file=str(token))
    assert scene.fail() == Unavailable(UNREACHABLE, f"Prometheus at {DEFAULT} {what}")
    assert scene.requests == []
    token.write_text("good")
    assert scene.ask(at=10) == HALF_FULL


def test_a_missing_password_file_is_named_without_its_path(tmp_path: Path) -> None:
    scene = Scene(prometheus_username="me", prometheus_password_file=str(tmp_path / "secret"))
    assert scene.fail().message == f"Prometheus at {DEFAULT} cannot be asked: cannot read the password file"


def echoes(request: httpx.Request) -> list[Reply]:
    """Backends that repeat what they were told in secret, wherever there is room for it."""
    key, (scheme, credentials) = request.headers["x-key"], request.headers["authorization"].split()
    told = f"{credentials} {key}"
    if scheme == "Basic":
        told = f"{base64.b64decode(credentials).decode()} {told}"
    return [
        failure(400, told),
        failure(400, f"{'x' * 110}{told}"),
        failure(200, told * 20),
        half_full(warnings=[told], infos=[told]),
        httpx.Response(200, json={"status": "success", "data": {"resultType": told, "result": []}}),
        httpx.Response(200, text=told),
        httpx.Response(500, text=told),
        httpx.Response(302, headers={"Location": f"http://{key}"}),
        httpx.ConnectError(told),
        httpx.LocalProtocolError(told),
    ]


SECRETS = st.text("abcXYZ-+/=:._~", min_size=12, max_size=40)


@given(secret=SECRETS, key=SECRETS, number=st.integers(0, 9), is_basic=st.booleans())
def test_no_secret_is_ever_said(secret: str, key: str, number: int, is_basic: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder), "secret", secret)
        authentication = (
            {"prometheus_username": "me", "prometheus_password_file": file}
            if is_basic
            else {"prometheus_bearer_token_file": file}
        )
        settings = {"prometheus_headers": f"X-Key={key}", **authentication}
        scene = Scene(lambda asked: echoes(asked)[number], **settings)
        answer = scene.ask()
        shown = Settings(**settings)  # type: ignore[arg-type]  # as above
    said = f"{answer} {scene.log.getvalue()} {scene.counted} {shown!r}"
    assert scene.requests[0].headers["x-key"] == key
    for hidden in (secret, key, base64.b64encode(f"me:{secret}".encode()).decode()):
        assert hidden not in said
        assert re.sub(r"[0-9]+", "N", hidden) not in said  # as a text with numbers would be shown


def test_a_secret_that_begins_like_another_is_hidden_whole(tmp_path: Path) -> None:
    token = write(tmp_path, "token", "team-a.signature")
    scene = Scene(
        failure(400, "no such token: team-a.signature"),
        prometheus_bearer_token_file=token,
        prometheus_headers="X-Scope-OrgID=team-a",
    )
    assert scene.fail().message == f"Prometheus at {DEFAULT} answered HTTP 400: no such token: ***"


# Which URLs are asked


@pytest.mark.parametrize(
    ("url", "why"),
    [
        pytest.param("http://example.com", "", id="not allowed"),
        pytest.param("http://169.254.169.254/latest", "", id="metadata"),
        pytest.param(
            "http://u:secret@a.svc", ": write http(s)://host[:port][/path], without user, query or fragment", id="user"
        ),
        pytest.param("http://2130706433", ": the host is neither a name nor an address", id="odd address"),
    ],
)
def test_a_url_that_is_not_allowed_is_not_asked(url: str, why: str) -> None:
    scene = Scene()
    assert scene.ask(url=url) == Unavailable(
        NOT_ALLOWED, f"prometheusURL is not among the URLs that METAHOOKS_PROMETHEUS_ALLOWED_URLS allows{why}"
    )
    assert (scene.requests, scene.resolved) == ([], [])


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["10.0.0.1", "169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"], ["nonsense"]],
    ids=lambda addresses: " and ".join(addresses),
)
def test_a_name_that_leads_to_the_server_itself_is_not_asked(addresses: list[str]) -> None:
    scene = Scene(addresses=addresses)
    assert scene.ask(url="http://evil.team.svc/x") == Unavailable(
        NOT_ALLOWED,
        "Prometheus at http://evil.team.svc has a loopback, link-local, multicast or metadata address, "
        "and METAHOOKS_PROMETHEUS_ALLOWED_URLS does not name it without *",
    )
    assert (scene.requests, scene.resolved) == ([], ["evil.team.svc"])


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        pytest.param({"prometheus_url": "http://localhost:9090"}, "", id="the default"),
        pytest.param({"prometheus_url": "http://127.0.0.1:9090"}, "http://127.0.0.1:9090/", id="the default, named"),
        pytest.param({"prometheus_allowed_urls": "http://localhost"}, "http://localhost:9090/x", id="a named host"),
        pytest.param({"prometheus_allowed_urls": "http://*,http://[::1]:1"}, "http://[::1]:1", id="a named address"),
    ],
)
def test_who_runs_the_server_may_name_any_host(settings: dict[str, str], url: str) -> None:
    scene = Scene(addresses=["127.0.0.1"], **settings)
    assert scene.ask(url=url) == HALF_FULL
    assert scene.resolved == []


def test_a_wildcard_does_not_allow_an_address_of_the_server() -> None:
    scene = Scene(addresses=["127.0.0.1"], prometheus_allowed_urls="http://*")
    assert scene.fail(url="http://127.0.0.1:9090").reason == NOT_ALLOWED


def test_another_path_of_a_loopback_default_is_not_allowed_by_a_wildcard() -> None:
    scene = Scene(addresses=["127.0.0.1"], prometheus_url="http://localhost:9090", prometheus_allowed_urls="http://*")
    assert scene.fail(url="http://localhost:9090/admin").reason == NOT_ALLOWED


def test_a_name_without_an_address_is_unreachable() -> None:
    scene = Scene(addresses=socket.gaierror(-2, "Name or service not known"))
    assert scene.ask(url="http://gone.team.svc") == Unavailable(
        UNREACHABLE, "Prometheus at http://gone.team.svc has a name that cannot be resolved"
    )
    assert scene.counted == []


# Over real connections


class Certificates:
    """An authority and what it signed, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        self.authority = write(folder, "ca.pem", self.sign("authority", self.key))
        self.server = self.issue("localhost")
        self.client = self.issue("client")

    def issue(self, name: str) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()
        return write(self.folder, f"{name}.pem", self.sign(name, key) + private)

    def sign(self, name: str, key: ec.EllipticCurvePrivateKey) -> str:
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    def context(self, *, asks_for_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server)
        if asks_for_client:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def ask_over_network(
    body: bytes, context: ssl.SSLContext | None = None, *, is_up: bool = True, **settings: str
) -> Answer:
    """The answer of the adapter that asks a server on this machine, and the server's port as 0."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(body)
        writer.close()

    async def ask() -> Answer:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        if not is_up:
            server.close()
        prometheus = Prometheus(
            Settings(prometheus_url=f"http{'s' if context else ''}://localhost:{port}", **settings),  # type: ignore[arg-type]  # as above
            logger=make_logger(Settings(), io.StringIO()),
            count=lambda code, seconds: None,
            wall_clock=lambda: NOW,
        )
        answer = await prometheus.ask(question())
        await prometheus.aclose()
        server.close()
        await server.wait_closed()
        if isinstance(answer, Unavailable):
            return Unavailable(answer.reason, answer.message.replace(str(port), "0"))
        return answer

    return asyncio.run(ask())


GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(half_full().content), half_full().content)


def test_asks_over_http() -> None:
    assert ask_over_network(GOOD) == HALF_FULL


@pytest.mark.parametrize(
    ("body", "is_up", "what"),
    [
        pytest.param(GOOD, False, "refused the connection", id="nobody listens"),
        pytest.param(b"", True, "broke the connection", id="closed without an answer"),
        pytest.param(b"220 ready\r\n", True, "broke the connection", id="not HTTP"),
        pytest.param(GOOD[:-9], True, "broke the connection", id="cut short"),
    ],
)
def test_trouble_with_a_real_connection_is_unreachable(body: bytes, is_up: bool, what: str) -> None:
    answer = ask_over_network(body, is_up=is_up)
    assert answer == Unavailable(UNREACHABLE, f"Prometheus at http://localhost:0 {what}")


def test_https_is_checked_against_the_authority_that_is_set(certificates: Certificates) -> None:
    assert ask_over_network(GOOD, certificates.context(), prometheus_ca_file=certificates.authority) == HALF_FULL


def test_a_certificate_of_somebody_else_is_unreachable(certificates: Certificates) -> None:
    answer = ask_over_network(GOOD, certificates.context())
    assert answer == Unavailable(
        UNREACHABLE,
        "Prometheus at https://localhost:0 has a certificate that cannot be trusted: "
        "unable to get local issuer certificate",
    )


def test_the_client_certificate_is_shown(certificates: Certificates) -> None:
    context = certificates.context(asks_for_client=True)
    authority, client = certificates.authority, certificates.client
    shown = ask_over_network(GOOD, context, prometheus_ca_file=authority, prometheus_client_certificate_file=client)
    assert shown == HALF_FULL
    refused = ask_over_network(GOOD, context, prometheus_ca_file=authority)
    assert isinstance(refused, Unavailable)
    assert refused.reason == UNREACHABLE


def test_certificates_that_cannot_be_read_are_said_and_read_once_they_can(
    tmp_path: Path, certificates: Certificates
) -> None:
    files = {"prometheus_ca_file": str(tmp_path / "ca.pem")}
    scene = Scene(prometheus_url="https://a.b.svc", **files)
    assert scene.fail() == Unavailable(
        UNREACHABLE,
        "Prometheus at https://a.b.svc cannot be asked: cannot read the CA or client certificate files",
    )
    write(tmp_path, "ca.pem", "no certificate")
    assert scene.fail(at=10).reason == UNREACHABLE
    write(tmp_path, "ca.pem", Path(certificates.authority).read_text())
    assert scene.ask(at=20) == HALF_FULL
    assert scene.ask(at=60) == HALF_FULL
    (tmp_path / "ca.pem").unlink()
    assert scene.fail(at=100).reason == UNREACHABLE


def test_plain_http_does_not_need_the_certificates(tmp_path: Path) -> None:
    assert Scene(prometheus_ca_file=str(tmp_path / "missing")).ask() == HALF_FULL


def test_an_encrypted_key_is_said_instead_of_a_question_on_the_terminal(
    tmp_path: Path, certificates: Certificates
) -> None:
    locked = serialization.BestAvailableEncryption(b"passphrase")
    private = certificates.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked)
    key = write(tmp_path, "key.pem", private.decode())
    scene = Scene(
        prometheus_url="https://a.b.svc",
        prometheus_client_certificate_file=certificates.authority,
        prometheus_client_key_file=key,
    )
    assert scene.fail().reason == UNREACHABLE
    assert scene.ask(url="https://other.b.svc") == HALF_FULL
