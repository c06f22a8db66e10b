"""Logs: JSON for machines, text for people, nothing below the chosen level."""

import io
import json
from typing import Literal

import pytest

from hooks.service.logs import make_logger
from hooks.service.settings import Settings


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("log_format", "stream", "is_json"),
    [
        pytest.param("auto", io.StringIO(), True, id="auto, not a terminal"),
        pytest.param("auto", Terminal(), False, id="auto, a terminal"),
        pytest.param("json", Terminal(), True, id="json, even on a terminal"),
        pytest.param("text", io.StringIO(), False, id="text, even in a file"),
    ],
)
def test_the_form_follows_the_setting_and_the_stream(
    log_format: Literal["auto", "json", "text"], stream: io.StringIO, is_json: bool
) -> None:
    make_logger(Settings(log_format=log_format), stream).info("decided", reason="Labeled")
    assert stream.getvalue().startswith("{") is is_json
    assert "Labeled" in stream.getvalue()


def test_every_json_line_says_when_and_how_bad() -> None:
    stream = io.StringIO()
    make_logger(Settings(log_format="json"), stream).warning("careful", object="Node/a")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["object"]) == ("careful", "warning", "Node/a")
    assert line["timestamp"].endswith("Z")


def test_levels_below_the_chosen_one_are_silent() -> None:
    stream = io.StringIO()
    logger = make_logger(Settings(log_format="json", log_level="warning"), stream)
    logger.info("quiet")
    logger.error("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]
