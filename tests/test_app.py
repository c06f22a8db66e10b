"""The app over HTTP: routes, status codes, bodies, pages, metrics and log lines."""

import asyncio
import base64
import io
import json
import re
import shlex
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from hooks import wire
from hooks.app import HOOKS, create_app
from hooks.service.endpoint import LARGE_BODY_BYTES, MOST_COMPLAINTS, Hook
from hooks.service.logs import make_logger
from hooks.service.pages import invitation
from hooks.service.settings import Settings
from hooks.volumes.usage import Question, Usages
from tests.agents import resized
from tests.builders import node, policy
from tests.volumes import autoscaler, autoscaler_request, claim, expansion, usages

DATA = Path(__file__).parent / "data"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LIMIT = 4096


class EchoRequest(wire.Model):
    mode: str


def echo(request: EchoRequest, *, now: datetime) -> wire.Outcome:
    """A hook that does what it is told, to see how the app takes it."""
    if request.mode == "later":
        raise wire.RetryLater("not all is known yet", seconds=7)
    if request.mode == "bug":
        raise ZeroDivisionError("secret detail")
    decision = wire.Decision(
        reason=wire.INVALID_SPEC if request.mode == "complain" else "Told",
        message="it was told",
        object=wire.ObjectRef("Thing", "one", "ns"),
        changes=request.mode == "change",
    )
    return wire.Outcome(response=wire.DecoratorResponse(labels={"at": now.isoformat()}), decisions=[decision])


def relate(request: wire.CustomizeRequest) -> wire.Outcome:
    return wire.Outcome(response=wire.CustomizeResponse([]))


ECHO = Hook(
    name="echo-back",
    what="Echo.",
    request=EchoRequest,
    sync=echo,
    customize=relate,
    example={"object": {"metadata": {}}},
)


class App:
    """The app with its log and registry, called without a network."""

    def __init__(self, **settings: object) -> None:
        self.registry, self.log = CollectorRegistry(), io.StringIO()
        given = Settings(**{"max_body_bytes": LIMIT, "log_format": "json", **settings})  # type: ignore[arg-type]  # Settings checks them
        self.app = create_app(
            given,
            hooks=[*HOOKS, ECHO],
            registry=self.registry,
            clock=lambda: NOW,
            logger=make_logger(given, self.log),
            ask=self.ask,
        )
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Usages:
        self.questions.append(question)
        return usages()

    def call(self, method: str, path: str, **options: object) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://hooks") as client:
                return await client.request(method, path, **options)  # type: ignore[arg-type]  # as httpx takes them

        return asyncio.run(ask())

    def post(self, path: str, body: object) -> httpx.Response:
        return self.call("POST", path, content=body if isinstance(body, bytes) else json.dumps(body))

    def value(self, metric: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(metric, labels)

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@pytest.fixture
def app() -> App:
    return App()


def test_answers_a_node_sent_by_hand_without_a_content_type(app: App) -> None:
    response = app.call("POST", "/node-labeler/sync", content=json.dumps({"object": node(name="a-compute-1")}))
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["labels"] == {"workload-type": "compute"}


@pytest.mark.parametrize("name", ["decorator-sync-node-no-policies", "decorator-sync-node-one-policy"])
def test_answers_what_the_real_metacontroller_sent(app: App, name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())
    response = app.post("/node-labeler/sync", recorded["request"])
    assert response.status_code == 200
    assert set(response.json()) <= {"labels", "annotations", "attachments", "resyncAfterSeconds"}


def test_answers_a_recorded_customize_request(app: App) -> None:
    recorded = json.loads((DATA / "decorator-customize-node.json").read_text())
    response = app.post("/node-labeler/customize", recorded["request"])
    assert response.json() == {
        "relatedResources": [{"apiVersion": "node-labeler.io/v1alpha1", "resource": "nodelabelpolicies"}]
    }


def test_hands_the_clock_to_the_hook(app: App) -> None:
    assert app.post("/echo-back/sync", {"mode": "keep"}).json()["labels"] == {"at": NOW.isoformat()}


def test_retry_later_is_429_with_whole_seconds_and_one_line(app: App) -> None:
    response = app.post("/echo-back/sync", {"mode": "later"})
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert response.text == "not all is known yet"
    assert app.value("metahooks_hook_requests_total", hook="echo_back", result="retry_later") == 1


def test_a_bug_is_500_without_details_and_its_traceback_goes_to_the_log(app: App) -> None:
    response = app.post("/echo-back/sync", {"mode": "bug"})
    assert (response.status_code, response.text) == (500, "internal error")
    [line] = app.lines()
    assert line["event"] == "hook failed"
    assert "ZeroDivisionError" in json.dumps(line)
    assert app.value("metahooks_hook_requests_total", hook="echo_back", result="error") == 1


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "body: empty; send a request as JSON", id="empty"),
        pytest.param(b"hello secret", "body: JSON is malformed: invalid character (byte 0)", id="not JSON"),
        pytest.param(b"[]", "body: Expected `object`, got `array`", id="a list"),
        pytest.param(b"{}", "object: Field required", id="no object"),
        pytest.param(
            b'{"object": {"metadata": {"name": 3}}}',
            "object.metadata.name: Expected `str`, got `int`",
            id="wrong type",
        ),
        pytest.param(
            b'{"object": {"metadata": {"name": "secret"}}, "related": "secret"}',
            "related: Expected `object | null`, got `str`",
            id="wrong related",
        ),
    ],
)
def test_a_bad_body_is_422_that_names_the_field_and_echoes_nothing(app: App, body: bytes, problem: str) -> None:
    response = app.post("/node-labeler/sync", body)
    assert (response.status_code, response.text) == (422, problem)
    assert "secret" not in response.text
    assert app.value("metahooks_hook_requests_total", hook="node_labeler", result="invalid") == 1
    assert app.value("node_labeler_errors_total") == 1


def test_a_large_wrong_body_gets_a_short_answer() -> None:
    app = App(max_body_bytes=10_000_000)
    response = app.post("/node-labeler/sync", {"object": ["x" * 1_000_000]})
    assert response.status_code == 422
    assert len(response.content) < 300


def test_a_body_at_the_limit_is_read_and_one_above_is_413(app: App) -> None:
    body = json.dumps({"object": node(name="a-compute-1")}).encode()
    assert app.post("/node-labeler/sync", body.ljust(LIMIT)).status_code == 200
    refused = app.post("/node-labeler/sync", body.ljust(LIMIT + 1))
    assert (refused.status_code, refused.text) == (413, "body: larger than 4096 bytes")
    assert app.value("metahooks_hook_requests_total", hook="node_labeler", result="too_large") == 1


def test_a_body_without_announced_length_is_refused_before_it_is_read_whole(app: App) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * LIMIT:
            sent += 1024
            yield b" " * 1024

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://hooks") as client:
            return await client.post("/node-labeler/sync", content=endless())

    assert asyncio.run(ask()).status_code == 413
    assert sent <= 2 * LIMIT


def test_a_client_that_goes_away_is_not_answered(app: App) -> None:
    sent: list[object] = []

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        sent.append(message)

    async def ask() -> None:
        await app.app.endpoints["/echo-back/sync"]({"type": "http", "method": "POST", "headers": []}, gone, send)

    asyncio.run(ask())
    assert sent == []


def test_hooks_take_post_only(app: App) -> None:
    assert app.call("GET", "/node-labeler/sync").status_code == 405
    assert app.call("POST", "/no-such-hook/sync").status_code == 404


def test_logs_one_line_per_decision_that_changes_something_and_none_otherwise(app: App) -> None:
    app.post("/echo-back/sync", {"mode": "change"})
    [line] = app.lines()
    assert {key: line[key] for key in ("event", "hook", "reason", "object", "why", "level")} == {
        "event": "decided",
        "hook": "echo_back",
        "reason": "Told",
        "object": "Thing/ns/one",
        "why": "it was told",
        "level": "info",
    }
    app.post("/echo-back/sync", {"mode": "keep"})
    assert len(app.lines()) == 1


def test_a_complaint_about_a_spec_is_a_warning_the_first_time(app: App) -> None:
    for _ in range(3):
        app.post("/echo-back/sync", {"mode": "complain"})
    [line] = app.lines()
    assert (line["level"], line["reason"], line["why"]) == ("warning", "InvalidSpec", "it was told")
    assert app.value("metahooks_decisions_total", hook="echo_back", reason="InvalidSpec") == 3


def test_complaints_that_differ_every_time_do_not_fill_the_memory(app: App) -> None:
    endpoint = app.app.endpoints["/echo-back/sync"]
    assert all(endpoint.is_news(f"complaint {number}") for number in range(2 * MOST_COMPLAINTS))
    assert len(endpoint.complaints) == MOST_COMPLAINTS


def test_a_refused_request_is_a_warning_the_first_time(app: App) -> None:
    for _ in range(2):
        app.post("/echo-back/sync", {"mode": 3})
    [line] = app.lines()
    assert (line["level"], line["status"], line["why"]) == ("warning", 422, "mode: Expected `str`, got `int`")


@pytest.mark.parametrize("depth", [490, 900, 5000])
def test_a_nested_event_is_returned_or_refused_but_no_bug(depth: int) -> None:
    """Reading it may work where writing it again does not: how deep that is depends on the version of Python."""
    app = App(max_body_bytes=100_000)
    lists_events = {"spec": {"attachments": [{"apiVersion": "v1", "resource": "events"}]}}
    request = {"controller": lists_events, "object": node(), "attachments": {"Event.v1": {"e": "NESTED"}}}
    nested = '{"a":' * depth + "1" + "}" * depth
    answer = app.post("/node-labeler/sync", json.dumps(request).replace('"NESTED"', nested).encode())
    assert answer.status_code == 200 or (answer.status_code, answer.text) == (422, "body: nested too deeply")
    assert depth < 5000 or answer.status_code == 422
    assert "hook failed" not in app.log.getvalue()


def test_a_traceback_in_the_log_holds_nothing_of_the_request(app: App) -> None:
    app.post("/echo-back/sync", {"mode": "bug", "password": "hunter2"})
    assert "ZeroDivisionError" in app.log.getvalue()
    assert "hunter2" not in app.log.getvalue()


def test_debug_logs_decisions_that_change_nothing_too() -> None:
    app = App(log_level="debug")
    app.post("/echo-back/sync", {"mode": "keep"})
    assert [line["level"] for line in app.lines()] == ["debug"]


def test_counts_answers_decisions_and_labels(app: App) -> None:
    for _ in range(2):
        app.post("/node-labeler/sync", {"object": node(name="a-compute-1")})
    app.post("/node-labeler/customize", {"parent": node()})
    assert app.value("metahooks_hook_requests_total", hook="node_labeler", result="ok") == 3
    assert app.value("metahooks_hook_duration_seconds_count", hook="node_labeler") == 3
    assert app.value("metahooks_decisions_total", hook="node_labeler", reason="Labeled") == 2
    assert app.value("node_labeler_labels_applied_total") == 2
    assert app.value("node_labeler_errors_total") == 0


def test_errors_of_customize_are_not_counted_as_failed_syncs(app: App) -> None:
    assert app.post("/node-labeler/customize", {}).status_code == 422
    assert app.value("node_labeler_errors_total") == 0


def test_the_same_request_gets_the_same_bytes(app: App) -> None:
    request = {
        "object": node(name="a-compute-1"),
        "related": {"NodeLabelPolicy.node-labeler.io/v1alpha1": {"workload-type": policy()}},
    }
    answers = {app.post("/node-labeler/sync", request).content for _ in range(5)}
    assert len(answers) == 1


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_answer_ok(app: App, path: str) -> None:
    response = app.call("GET", path)
    assert (response.status_code, response.text) == (200, "ok")


def test_the_front_page_lists_every_hook_and_how_to_call_it(app: App) -> None:
    page = app.call("GET", "/").text
    for hook in HOOKS:
        assert f"POST /{hook.name}/sync" in page
        assert hook.what in page
        assert f"curl -s http://hooks/{hook.name}/sync" in page


def test_docs_show_schemas_and_examples_that_work(app: App) -> None:
    assert app.call("GET", "/docs").status_code == 200
    described = app.call("GET", "/openapi.json").json()
    for hook in HOOKS:
        for action in hook.actions:
            content = described["paths"][f"/{hook.name}/{action}"]["post"]["requestBody"]["content"]["application/json"]
            name = content["schema"]["$ref"].rpartition("/")[2]
            assert described["components"]["schemas"][name]["properties"]
            assert app.post(f"/{hook.name}/{action}", content["example"]).status_code == 200


def test_every_reference_in_the_api_description_resolves(app: App) -> None:
    text = app.call("GET", "/openapi.json").text
    known = json.loads(text)["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/([^"]+)"', text)) <= set(known)


def test_the_invitation_commands_work_as_pasted(app: App) -> None:
    ask, again, count = (line.strip() for line in invitation(HOOKS[0], "localhost:8080").splitlines() if "curl" in line)
    assert _paste(app, ask)["labels"] == {"workload-type": "compute"}
    assert not any(_paste(app, again).values())
    url = shlex.split(count)[2]
    assert app.call("GET", url.removeprefix("localhost:8080")).status_code == 200


def _paste(app: App, command: str) -> dict[str, object]:
    _, _, url, _, body = shlex.split(command)
    answer: dict[str, object] = app.call("POST", url.removeprefix("localhost:8080"), content=body).json()
    return answer


# Volumes


def test_a_sync_that_polls_asks_once_and_one_that_rests_asks_nothing(app: App) -> None:
    first = app.post("/volume-autoscaler/sync", autoscaler_request()).json()
    stored = autoscaler(status=first["status"] | {"observedGeneration": 1})
    again = app.post("/volume-autoscaler/sync", autoscaler_request(parent=stored)).json()

    assert [question.namespace for question in app.questions] == ["db"]
    assert again["status"] == first["status"]


def test_a_large_request_is_answered_as_a_small_one_is() -> None:
    """In a thread of its own; also if it cannot be read."""
    app = App(max_body_bytes=10 * LARGE_BODY_BYTES)
    padding = {"padding": "x" * LARGE_BODY_BYTES}
    small = app.post("/volume-autoscaler/sync", autoscaler_request())
    large = app.post("/volume-autoscaler/sync", autoscaler_request() | padding)
    labelled = app.post("/node-labeler/sync", {"object": node(name="a-compute-1")} | padding)

    assert large.content == small.content
    assert labelled.json()["labels"] == {"workload-type": "compute"}
    assert app.post("/volume-autoscaler/sync", {"parent": 5} | padding).status_code == 422


def test_a_kind_that_is_not_wired_is_asked_for_again_later(app: App) -> None:
    response = app.post("/volume-autoscaler/sync", {"parent": autoscaler()})

    assert (response.status_code, response.headers["retry-after"]) == (429, "60")
    assert response.text == "the request has no children VolumeExpansions, not even an empty map of them"


def test_admits_a_larger_size(app: App) -> None:
    old = claim()
    new = claim(annotations={"volume-autoscaler.io/requested-size": "12Gi"})
    review = {"request": {"uid": "7", "operation": "UPDATE", "object": new, "oldObject": old}}
    answer = app.post("/volume-claim/admit", review).json()

    assert (answer["kind"], answer["response"]["uid"], answer["response"]["allowed"]) == ("AdmissionReview", "7", True)
    (patch,) = json.loads(base64.b64decode(answer["response"]["patch"]))
    assert patch == {"op": "replace", "path": "/spec/resources/requests/storage", "value": "12Gi"}


def test_only_claims_are_admitted(app: App) -> None:
    assert app.post("/volume-autoscaler/admit", {}).status_code == 404


METRICS = [  # name, type, labels, help
    ("http_request_duration_seconds", "histogram", "handler method status", "Duration of HTTP requests in seconds"),
    ("http_requests", "counter", "handler method status", "Total number of requests by method, status and handler."),
    ("metahooks_build_info", "gauge", "version", "Always 1; the version is in the label."),
    (
        "metahooks_decisions",
        "counter",
        "hook reason",
        "Decisions in answers, by reason; those that change nothing count too.",
    ),
    ("metahooks_hook_duration_seconds", "histogram", "hook", "Time from the whole request body to the answer."),
    (
        "metahooks_hook_requests",
        "counter",
        "hook result",
        "Requests to a hook by result: ok, retry_later, invalid, too_large, error.",
    ),
    (
        "node_agent_autoscaler_groups",
        "gauge",
        "namespace nodeagentautoscaler reason",
        "Groups of nodes by what was last decided about their DaemonSet.",
    ),
    ("node_agent_autoscaler_nodes", "gauge", "group namespace nodeagentautoscaler", "Nodes of a group."),
    (
        "node_agent_autoscaler_render_errors",
        "counter",
        "namespace nodeagentautoscaler",
        "Syncs whose template was missing or no DaemonSet could be made of; once per group if only some fail.",
    ),
    (
        "node_agent_autoscaler_resizes",
        "counter",
        "namespace nodeagentautoscaler",
        "DaemonSets that got another size because their smallest node is another one.",
    ),
    ("node_labeler_errors", "counter", "", "Syncs of Nodes that were answered with an error."),
    ("node_labeler_labels_applied", "counter", "", "Labels that an answer added to a Node."),
    ("storage_nodes_errors", "counter", "", "Syncs of Nodes that were answered with an error."),
    ("storage_nodes_labels_applied", "counter", "", "Nodes that an answer labelled."),
    ("storage_nodes_labels_removed", "counter", "", "Nodes that an answer took the label off."),
    ("volume_autoscaler_backend_duration_seconds", "histogram", "", "Time that a request to the metrics backend took."),
    (
        "volume_autoscaler_backend_requests",
        "counter",
        "code",
        "Requests to the metrics backend, by HTTP status, or timeout, or error.",
    ),
    (
        "volume_autoscaler_claims",
        "gauge",
        "namespace reason volumeautoscaler",
        "Claims by what was last decided about them. Replicas share the work: take the maximum over them, then sum.",
    ),
    (
        "volume_autoscaler_poll_errors",
        "counter",
        "namespace reason volumeautoscaler",
        "What went wrong in polls: resolve_pvcs (the target cannot be used, or the named claim is missing), "
        "prometheus_query (claims whose usage is not known), patch_pvc (steps that were found refused).",
    ),
    (
        "volume_autoscaler_pvc_usage_percent",
        "gauge",
        "namespace pvc volumeautoscaler",
        "How full a claim's file system is.",
    ),
    (
        "volume_autoscaler_reconcile_duration_seconds",
        "histogram",
        "",
        "Time that a sync of a VolumeAutoscaler took, the question to Prometheus included.",
    ),
    (
        "volume_autoscaler_scale_events",
        "counter",
        "namespace pvc volumeautoscaler",
        "Steps that were decided; a step that takes the place of one that came to nothing is not counted.",
    ),
    (
        "volume_autoscaler_stuck_seconds",
        "gauge",
        "namespace pvc volumeautoscaler",
        "For how long a claim has been asked to grow without effect; absent if it is not.",
    ),
]


def test_metric_names_types_labels_and_help_are_promises(app: App) -> None:
    app.post("/node-labeler/sync", {"object": node(name="a-compute-1")})
    app.call("GET", "/healthz")  # the instrumentator counts what is not a hook
    next(iter(app.app.endpoints.values())).metrics.asked_backend("200", 0.1)
    late = expansion(from_size="10Gi", size="12Gi", requested_at="2026-01-02T03:03:05Z", count=1)
    for own in ([expansion()], [late]):
        app.post("/volume-autoscaler/sync", autoscaler_request(own=own))
    for body in resized():
        app.post("/node-agent/sync", body)
    found = [
        (
            family.name,
            family.type,
            " ".join(sorted({name for sample in family.samples for name in sample.labels} - {"le"})),
            family.documentation,
        )
        for family in app.registry.collect()
        if not family.name.endswith("_created")
    ]
    assert sorted(found) == METRICS


def test_the_metrics_page_serves_ours_and_those_of_the_process() -> None:
    app = create_app(Settings())

    async def ask() -> str:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hooks") as client:
            return (await client.get("/metrics")).text

    text = asyncio.run(ask())
    assert "metahooks_build_info" in text
    assert "process_resident_memory_bytes" in text
