"""Programs that the tests start: their output in a file, a deadline to become ready, and gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

_T = TypeVar("_T")
_POLL_SECONDS = 0.05
_PORT_ATTEMPTS = 5
_LOG_LINES_SHOWN = 30

# pytest may be killed without a chance to clean up, and servers that it leaves behind would hold ports and memory until
# the next reboot: Linux is asked to kill the program when its parent dies. It runs as a program of its own that then
# becomes the wanted one, because Python warns about preexec_fn in a process with threads, and warnings are errors here.
_RUN = """
import ctypes, os, sys
parent, number, *command = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, int(number))  # PR_SET_PDEATHSIG
    if os.getppid() != int(parent):
        sys.exit("the test run ended before the program started")
os.execvp(command[0], command)
"""


class ProcessError(Exception):
    """A program did not start, or ended too early; the message shows the end of its log."""


class NotInTimeError(Exception):
    """Something awaited did not happen before the deadline."""


def eventually(check: Callable[[], _T | None], *, what: str, seconds: float = 30) -> _T:
    """The first truthy answer of `check`, asked again and again until the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise NotInTimeError(f"waited {seconds:g} s for {what}; the last answer was {answer!r}")
        time.sleep(_POLL_SECONDS)


class Process:
    """A running program. Stop it, or use it as a context manager."""

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        if threading.current_thread() is not threading.main_thread():
            # Linux counts the end of the starting thread as the death of the parent.
            raise RuntimeError("start processes from the main thread, or they are killed when the starting thread ends")
        self.name = Path(command[0]).name
        self.log = log
        run = [sys.executable, "-I", "-S", "-c", _RUN, str(os.getpid()), str(int(signal.SIGKILL))]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*run, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # Ctrl-C reaches pytest alone, which then stops programs in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], *, seconds: float = 120) -> None:
        """Returns once `is_ready` says so; the program is stopped if that never happens."""
        try:
            eventually(lambda: not self.is_running() or is_ready(), what=f"{self.name} to be ready", seconds=seconds)
        except BaseException as error:
            self.stop()
            if isinstance(error, NotInTimeError):
                raise ProcessError(f"{self.name} was not ready after {seconds:g} s. {self.log_end()}") from None
            raise
        if not self.is_running():
            raise ProcessError(f"{self.name} ended with code {self._process.returncode}. {self.log_end()}")

    def log_end(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
        return "\n".join(["The end of its log:", *(f"  {line[:500]}" for line in lines or ["(empty)"])])

    def stop(self, *, grace_seconds: float = 10) -> None:
        self._process.terminate()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def free_port() -> int:
    """A loopback port that was free a moment ago. Somebody else may take it first: see start_on_free_port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def start_on_free_port(
    command: Callable[[int], Sequence[str | Path]], is_ready: Callable[[int], bool], *, log: Path, seconds: float = 120
) -> tuple[Process, int]:
    """Starts what `command` gives for a port; if the port was taken meanwhile, again with another one.

    `is_ready` has to recognise the program as ours: somebody else's may answer on a port that was taken.
    """
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        port = free_port()
        process = Process(command(port), log=log)
        try:
            process.wait_until(partial(is_ready, port), seconds=seconds)
        except ProcessError as error:
            if attempt == _PORT_ATTEMPTS or "address already in use" not in str(error):
                raise
        else:
            return process, port
    raise AssertionError("unreachable: the last attempt returns or raises")
