"""What the real Metacontroller sent for a claim that grew from 10Gi to 12Gi, and what the hooks answered then."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from hooks.app import create_app
from hooks.kube.times import parse_time
from hooks.service.settings import Settings
from hooks.volumes.usage import Question, Usages
from tests.volumes import filesystem

POLL_SECONDS = 10
DATA = Path(__file__).parent / "data"
RECORDED = sorted(path.stem for path in DATA.glob("volume-*.json"))
STARTED = "2026-11-16T15:58:19Z"


def answer(recorded: Any) -> Any:
    """Asked at the second at which it was asked then, with a file system that is 90 % full."""
    response = recorded["response"]
    taken = response.get("annotations", {}).get("volume-autoscaler.io/requested-at", STARTED)
    now = parse_time(response.get("status", {}).get("lastPollTime", taken))
    if not recorded["path"].startswith("/volume-claim"):  # between two polls, the rest of the interval was left
        now += timedelta(seconds=POLL_SECONDS - response.get("resyncAfterSeconds", POLL_SECONDS))
    grown = now - parse_time(STARTED) > timedelta(seconds=POLL_SECONDS)

    async def ask(question: Question) -> Usages:
        assert question.namespace == "shop"
        return Usages({"data-0": filesystem(90, size="12Gi" if grown else "10Gi")})

    app = create_app(Settings(log_level="error"), registry=CollectorRegistry(), clock=lambda: now, ask=ask)

    async def post() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hooks") as client:
            return (await client.post(recorded["path"], json=recorded["request"])).json()

    return asyncio.run(post())


@pytest.mark.parametrize("name", RECORDED)
def test_answers_as_when_it_was_recorded(name: str) -> None:
    recorded = json.loads((DATA / f"{name}.json").read_text())

    assert answer(recorded) == recorded["response"]


def test_the_recordings_hold_the_whole_story() -> None:
    assert len(RECORDED) == 9
