"""The hooks as people run them: `python -m hooks serve` in a process of its own, which a test may stop and start."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.e2e.processes import Process, start_on_free_port

ROOT = Path(__file__).resolve().parent.parent.parent


class HookServer:
    def __init__(self, folder: Path) -> None:
        self._log = folder / "hooks.log"
        self._settings: Mapping[str, str] = {}
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
        environment = {**os.environ, **self._settings}
        self._process = Process(self._command(self.port), log=self._log, environment=environment)
        self._process.wait_until(lambda: self._is_ready(self.port), seconds=30)

    def restart(self, settings: Mapping[str, str] | None = None) -> None:
        """With these settings from now on, such as METAHOOKS_PROMETHEUS_URL."""
        self.stop()
        self._settings = self._settings if settings is None else settings
        self.start()

    def log(self) -> str:
        return self._log.read_text()

    def answered(self, hook: str) -> int:
        """How many requests the running server has answered with 200."""
        return self._count("metahooks_hook_requests_total", hook=hook, result="ok")

    def decided(self, hook: str, reason: str) -> int:
        """How many decisions of the running server had this reason."""
        return self._count("metahooks_decisions_total", hook=hook, reason=reason)

    def _count(self, metric: str, **labels: str) -> int:
        metrics = httpx.get(f"{self.url}/metrics").text
        series = metric + "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
        found = re.search(rf"^{re.escape(series)} ([0-9.e+]+)$", metrics, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def _command(self, port: int) -> list[str | Path]:
        return [sys.executable, "-m", "hooks", "serve", "--host", "127.0.0.1", "--port", str(port)]

    def _is_ready(self, port: int) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).text == "ok"
        except httpx.TransportError:
            return False
