"""Structured logs on standard error: JSON for machines, lines for a terminal; uvicorn's lines take the same form."""

import logging
import sys
from typing import Any, TextIO

import structlog

from hooks.service.settings import Settings

Logger = structlog.typing.FilteringBoundLogger

# Without local variables: they hold the request, which belongs in no log.
TRACEBACKS = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=20)
)
STAMP: list[Any] = [structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def make_logger(settings: Settings, stream: TextIO | None = None) -> Logger:
    """A logger that writes to `stream`, standard error unless given."""
    target = stream or sys.stderr
    logger: Logger = structlog.wrap_logger(
        structlog.PrintLogger(target),
        wrapper_class=structlog.make_filtering_bound_logger(level(settings)),
        processors=[*STAMP, *renderer(settings, target)],
    )
    return logger


def take_over_standard_logging(settings: Settings) -> None:
    """Lines of libraries that log the standard way, uvicorn's among them, come out like ours."""
    handler = logging.StreamHandler(sys.stderr)
    unwrap = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=STAMP, processors=[unwrap, *renderer(settings, sys.stderr)]
        )
    )
    logging.basicConfig(handlers=[handler], level=level(settings), force=True)


def level(settings: Settings) -> int:
    return logging.getLevelNamesMapping()[settings.log_level.upper()]


def renderer(settings: Settings, target: TextIO) -> list[Any]:
    on_terminal = target.isatty()
    if settings.log_format == "text" or (settings.log_format == "auto" and on_terminal):
        return [structlog.dev.ConsoleRenderer(colors=on_terminal, sort_keys=False)]
    return [TRACEBACKS, structlog.processors.JSONRenderer()]
