"""The hooks as people run them: `python -m hooks serve` in a process of its own, which a test may stop and start."""

import os
import re
import sys
from pathlib import Path

import httpx

from tests.e2e.processes import Process, start_on_free_port

ROOT = Path(__file__).resolve().parent.parent.parent


class HookServer:
    def __init__(self, folder: Path) -> None:
        self._log = folder / "hooks.log"
        self._process, self.port = start_on_free_port(self._command, self._is_ready, log=self._log, seconds=30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._process.stop()

    def start(self) -> None:
        """On the same port: Metacontroller goes on asking there."""
        self._process = Process(self._command(self.port), log=self._log, environment=dict(os.environ))
        self._process.wait_until(lambda: self._is_ready(self.port), seconds=30)

    def log(self) -> str:
        return self._log.read_text()

    def answered(self, hook: str) -> int:
        """How many requests the running server has answered with 200."""
        metrics = httpx.get(f"{self.url}/metrics").text
        pattern = rf'^metahooks_hook_requests_total{{hook="{hook}",result="ok"}} ([0-9.e+]+)$'
        found = re.search(pattern, metrics, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def _command(self, port: int) -> list[str | Path]:
        return [sys.executable, "-m", "hooks", "serve", "--host", "127.0.0.1", "--port", str(port)]

    def _is_ready(self, port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).text == "ok"
        except httpx.TransportError:
            return False
