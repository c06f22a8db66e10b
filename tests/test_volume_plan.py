"""`plan` for volumes: usage from a file of samples or from a Prometheus, and why claims grow or do not."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from hooks.__main__ import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
EXAMPLE = str(EXAMPLES / "volumes.yaml")
SAMPLES = str(EXAMPLES / "volumes.prom")

Run = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def plan(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, list[str], str]:
        code = main(["plan", "-f", EXAMPLE, *arguments])
        out, err = capsys.readouterr()
        return code, [" ".join(line.split()) for line in out.splitlines()], err

    return run


def test_the_example_shows_a_claim_that_grows_one_at_its_limit_and_one_blocked(plan: Run) -> None:
    code, lines, err = plan("--samples", SAMPLES)

    assert code == 1
    assert err == ""
    orders = "~ PersistentVolumeClaim/shop/orders spec.resources.requests.storage: 20Gi -> 25Gi ExpandRequested "
    assert f"{orders}91% used, threshold 80%: 20Gi -> 25Gi" in lines
    archive = "= PersistentVolumeClaim/shop/archive (unchanged) MaxSizeReached "
    assert f"{archive}85% used, threshold 80%, and 50Gi leaves no room below maxSize 50Gi" in lines
    legacy = "= PersistentVolumeClaim/shop/legacy (unchanged) StorageClassNotExpandable "
    assert f"{legacy}StorageClass fixed does not say allowVolumeExpansion: true" in lines
    sessions = "= PersistentVolumeClaim/shop/sessions (unchanged) BelowThreshold 40% used, threshold 80%"
    assert sessions in lines
    assert not any(" Selected " in line for line in lines), "a claim that grows was first selected: that is no news"
    assert lines[-1] == "Plan: 9 to add, 1 to change, 0 to delete"


def test_without_usage_nothing_grows_and_the_plan_says_what_is_missing(plan: Run) -> None:
    code, lines, _ = plan()

    assert code == 1
    note = "how full volumes are is not known: give --samples or --prometheus"
    assert f"= PersistentVolumeClaim/shop/orders (unchanged) PrometheusUnreachable {note}" in lines
    assert not any("requests.storage" in line for line in lines)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"some words", "is not in the text format of Prometheus", id="words"),
        pytest.param(b"\xff\xfe", "not UTF-8", id="not text"),
        pytest.param(b"up 1\n", "holds no kubelet_volume_stats_* of any claim", id="other metrics"),
        pytest.param(None, "No such file", id="no file"),
    ],
)
def test_samples_that_cannot_be_used_are_an_error(
    plan: Run, tmp_path: Path, content: bytes | None, problem: str
) -> None:
    file = tmp_path / "usage.prom"
    if content is not None:
        file.write_bytes(content)
    code, lines, err = plan("--samples", str(file))

    assert (code, lines) == (2, [])
    assert problem in err


@pytest.fixture
def prometheus() -> Iterator[str]:
    """Answers every query with a claim that is 91 % full."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            labels: dict[str, str] = {"namespace": "shop", "persistentvolumeclaim": "orders"}
            values = {"capacity_bytes": "20000000000", "used_bytes": "18200000000"}
            series = [
                {"metric": labels | {"__name__": f"kubelet_volume_stats_{name}"}, "value": [time.time(), value]}
                for name, value in values.items()
            ]
            body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_asks_the_prometheus_that_is_named(plan: Run, prometheus: str) -> None:
    code, lines, _ = plan("--prometheus", prometheus)

    assert code == 1
    assert any("requests.storage: 20Gi -> 25Gi ExpandRequested 91% used" in line for line in lines)
    assert any("PersistentVolumeClaim/shop/archive (unchanged) NoMetrics" in line for line in lines)


def test_an_address_that_is_none_is_an_error(plan: Run) -> None:
    code, lines, err = plan("--prometheus", "prometheus:9090")

    assert (code, lines) == (2, [])
    assert err.startswith("plan: --prometheus prometheus:9090: prometheus_url: ")
