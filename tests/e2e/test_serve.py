"""`python -m hooks serve` as a process: connections, shutdown, what it prints."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from tests.e2e.hook_server import HookServer
from tests.e2e.processes import Process, free_port

pytestmark = pytest.mark.e2e

NODE = json.dumps({"object": {"metadata": {"name": "a-compute-1"}}})


@pytest.fixture
def server(tmp_path: Path) -> HookServer:
    return HookServer(tmp_path)


def test_an_idle_connection_outlives_uvicorns_default_of_five_seconds(server: HookServer) -> None:
    try:
        connection = HTTPConnection("127.0.0.1", server.port)
        for pause in (0, 6):
            time.sleep(pause)
            connection.request(
                "GET", "/healthz"
            )  # on a connection that the server closed, the answer would be an error
            assert connection.getresponse().read() == b"ok"
        connection.close()
    finally:
        server.stop()


def test_a_request_under_way_is_answered_after_the_server_was_told_to_stop(server: HookServer) -> None:
    head = f"POST /node-labeler/sync HTTP/1.1\r\nHost: x\r\nContent-Length: {len(NODE)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall((head + NODE[:10]).encode())
        httpx.get(f"{server.url}/healthz")  # by now the server has read the first part
        os.kill(server.pid, signal.SIGTERM)
        time.sleep(0.5)
        connection.sendall(NODE[10:].encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    server.stop()


def test_logs_are_json_lines_including_those_of_uvicorn_and_no_access_log(server: HookServer) -> None:
    httpx.post(f"{server.url}/node-labeler/sync", content=NODE)
    server.stop()
    events = [json.loads(line) for line in server.log().splitlines()]
    assert "decided" in [event["event"] for event in events]
    assert not [event for event in events if "/node-labeler/sync" in event["event"]]


def test_a_port_in_use_is_one_line_and_exit_code_2() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "hooks", "serve", "--host", "127.0.0.1", "--port", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"serve: cannot listen on 127.0.0.1:{port}: Address already in use\n"


def test_a_bad_setting_of_the_server_does_not_disturb_plan() -> None:
    environment = {**os.environ, "METAHOOKS_PORT": "tcp://10.0.0.1:80"}
    command = [sys.executable, "-m", "hooks", "plan", "-f", "examples/cluster.yaml"]
    assert subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 1


def test_plan_ends_quietly_when_its_reader_has_seen_enough() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "hooks", "plan", "-f", "examples/cluster.yaml"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("curl")), reason="needs make and curl")
def test_make_run_prints_three_commands_that_work_as_pasted(tmp_path: Path) -> None:
    port = free_port()
    with Process(["make", "--no-print-directory", "run", f"PORT={port}"], log=tmp_path / "make.log") as process:
        process.wait_until(lambda: "startup complete" in process.log.read_text(), seconds=120)
        lines = process.log.read_text().splitlines()
        ask, again, count = (line for line in lines if line.startswith("  curl"))
        assert json.loads(_paste(ask))["labels"] == {"workload-type": "compute"}
        assert not any(json.loads(_paste(again)).values()), "nothing is left to do"
        assert "node_labeler_labels_applied_total 1.0" in _paste(count)


def _paste(command: str) -> str:
    return subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
