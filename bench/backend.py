"""A Prometheus that gives one constant answer, and counts how often it is asked."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

THINKING_SECONDS = 0.1
"""Long enough for those who ask at once to meet."""


class Backend(ThreadingHTTPServer):
    def __init__(self, answer: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self._lock, self.queries = answer, threading.Lock(), 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def count(self) -> None:
        with self._lock:
            self.queries += 1


class Handler(BaseHTTPRequestHandler):
    server: Backend
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # the name is http.server's
        self.server.count()
        time.sleep(THINKING_SECONDS)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def answering(answer: bytes) -> Iterator[Backend]:
    with Backend(answer) as backend:
        threading.Thread(target=backend.serve_forever, daemon=True).start()
        try:
            yield backend
        finally:
            backend.shutdown()
