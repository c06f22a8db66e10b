"""What the real Metacontroller sent for a claim that grew from 10Gi to 12Gi, and what the hooks answered then."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from hooks.kube.times import parse_time
from hooks.volumes.usage import Question, Usages
from tests.recordings import answer, read, recorded
from tests.volumes import filesystem

POLL_SECONDS = 10
RECORDED = recorded("volume-*")
STARTED = "2026-11-16T15:58:19Z"


def asked_at(recording: Any) -> datetime:
    response = recording["response"]
    taken = response.get("annotations", {}).get("volume-autoscaler.io/requested-at", STARTED)
    now = parse_time(response.get("status", {}).get("lastPollTime", taken))
    if recording["path"].startswith("/volume-claim"):
        return now
    # Between two polls, the rest of the interval was left.
    return now + timedelta(seconds=POLL_SECONDS - response.get("resyncAfterSeconds", POLL_SECONDS))


@pytest.mark.parametrize("name", RECORDED)
def test_answers_as_when_it_was_recorded(name: str) -> None:
    """Asked at the second at which it was asked then, with a file system that is 90 % full."""
    recording = read(name)
    now = asked_at(recording)
    grown = now - parse_time(STARTED) > timedelta(seconds=POLL_SECONDS)

    async def ask(question: Question) -> Usages:
        assert question.namespace == "shop"
        return Usages({"data-0": filesystem(90, size="12Gi" if grown else "10Gi")})

    assert answer(recording, now=now, ask=ask) == recording["response"]


def test_the_recordings_hold_the_whole_story() -> None:
    assert len(RECORDED) == 9
