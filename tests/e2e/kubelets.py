"""How full volumes are, as a real cluster tells it: kubelets that a test speaks for, and a Prometheus beside them."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.controlplane import Prometheus


class Kubelets:
    """What the kubelets of all nodes export about volumes, on one port, from `with` to the end of its block."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str], Mapping[str, int]] = {}
        self._lock = threading.Lock()
        kubelets = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name is http.server's
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.end_headers()
                self.wfile.write(kubelets._text().encode())

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    def report(self, namespace: str, claim: str, *, node: str = "node-1", **stats: int) -> None:
        with self._lock:
            self._series[namespace, claim, node] = stats

    def forget(self, namespace: str, claim: str | None = None) -> None:
        """Of one claim, or of all."""
        with self._lock:
            for key in [key for key in self._series if key[0] == namespace and claim in (None, key[1])]:
                del self._series[key]

    def sizes(self, namespace: str) -> set[tuple[str, str, int, int]]:
        """What a scrape shows of a namespace: claim, node, size and use."""
        return {
            (claim, node, stats["capacity_bytes"], stats["used_bytes"])
            for (where, claim, node), stats in self._now()
            if where == namespace
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _now(self) -> Sequence[tuple[tuple[str, str, str], Mapping[str, int]]]:
        with self._lock:
            return list(self._series.items())

    def _text(self) -> str:
        return "".join(
            f'kubelet_volume_stats_{metric}{{namespace="{namespace}",persistentvolumeclaim="{claim}",node="{node}"}} '
            f"{value}\n"
            for (namespace, claim, node), stats in self._now()
            for metric, value in stats.items()
        )


@dataclass(frozen=True)
class Backend:
    """A Prometheus that scrapes the kubelets."""

    kubelets: Kubelets
    prometheus: Prometheus

    def has_scraped(self, namespace: str) -> bool:
        found = {
            metric: {
                (series["metric"]["persistentvolumeclaim"], series["metric"]["node"]): int(series["value"][1])
                for series in self.prometheus.query(f'kubelet_volume_stats_{metric}{{namespace="{namespace}"}}')
            }
            for metric in ("capacity_bytes", "used_bytes")
        }
        seen = {(*key, size, found["used_bytes"].get(key, -1)) for key, size in found["capacity_bytes"].items()}
        return seen == self.kubelets.sizes(namespace)


@contextmanager
def backend(binaries: Path) -> Iterator[Backend]:
    with Kubelets() as kubelets, Prometheus(binaries, {"kubelet": [kubelets.address]}) as prometheus:
        yield Backend(kubelets, prometheus)
