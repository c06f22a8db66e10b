"""A server process on one core, asked by this process from another core, and how many requests it answers."""

import asyncio
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx
import uvloop

CONNECTIONS = 16
SERVER_CORE, CLIENT_CORE = 0, 1
LONGEST_SECONDS = 60


@dataclass(frozen=True)
class Server:
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def queued_seconds(self) -> float:
        """For how long it could have run while something else had its core."""
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[1]) / 1e9

    def peak_bytes(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONGEST_SECONDS)) as connection:
            connection.request(method, path, body)
            response = connection.getresponse()
            answer = response.read()
        if response.status != 200:
            raise RuntimeError(f"{path}: the server answered {response.status}")
        return answer


@contextmanager
def serving(app: str, settings: Mapping[str, str] | None = None) -> Iterator[Server]:
    """uvicorn with one worker, on a core of its own: this process leaves it meanwhile."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", app, "--host", "127.0.0.1", "--port", str(port), "--no-access-log"]
    process = subprocess.Popen(
        [*command, "--log-level", "error"],
        env={**os.environ, "METAHOOKS_LOG_LEVEL": "error", **(settings or {})},
        stderr=subprocess.DEVNULL,
    )
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(process.pid, {SERVER_CORE})
        os.sched_setaffinity(0, {CLIENT_CORE})
        _await(port)
        yield Server(port, process.pid)
    finally:
        os.sched_setaffinity(0, cores)
        process.terminate()
        process.wait()


def _await(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError("the server did not start")


class Client(asyncio.Protocol):
    """Sends the same request again as soon as its answer is there, and does little else: the server is measured."""

    def __init__(self, request: bytes, done: asyncio.Event) -> None:
        self.request, self.done, self.answers, self.left, self.failed = request, done, 0, 0, 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.left == 0:
            head, _, body = data.partition(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self.left = int(length.split(b":")[1]) - len(body)
            self.failed += not head.startswith(b"HTTP/1.1 200")
        else:
            self.left -= len(data)
        if self.left == 0:
            self.answers += 1
            if not self.done.is_set():
                self.transport.write(self.request)


@dataclass(frozen=True)
class Rate:
    requests_per_second: float
    server_busy: float  # the share of its core that the server got: below 1 if something else ran there too

    @property
    def per_cpu_second(self) -> float:
        return self.requests_per_second / self.server_busy


def measure(server: Server, path: str, body: bytes, seconds: float) -> Rate:
    request = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    return uvloop.run(_measure(server, request, seconds))


async def _measure(server: Server, request: bytes, seconds: float) -> Rate:
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    clients: Sequence[Client] = [
        (await loop.create_connection(lambda: Client(request, done), "127.0.0.1", server.port))[1]
        for _ in range(CONNECTIONS)
    ]
    began, busy, answered = time.perf_counter(), server.cpu_seconds(), sum(client.answers for client in clients)
    await asyncio.sleep(seconds)
    took, busy = time.perf_counter() - began, server.cpu_seconds() - busy
    answered = sum(client.answers for client in clients) - answered
    done.set()
    for client in clients:
        client.transport.close()
    if any(client.failed for client in clients):
        raise RuntimeError("the server answered something else than 200")
    return Rate(answered / took, busy / took)
