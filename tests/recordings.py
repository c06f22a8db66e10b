"""Requests that the real Metacontroller sent, in tests/data, and what the hooks answer to them now."""

import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry

from hooks.app import create_app
from hooks.service.endpoint import Ask
from hooks.service.settings import Settings

DATA = Path(__file__).parent / "data"


def recorded(*patterns: str) -> Sequence[str]:
    return sorted(path.stem for pattern in patterns for path in DATA.glob(f"{pattern}.json"))


def read(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def answer(recording: Any, *, now: datetime, ask: Ask | None = None) -> Any:
    app = create_app(Settings(log_level="error"), registry=CollectorRegistry(), clock=lambda: now, ask=ask)

    async def post() -> Any:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://hooks") as client:
            return (await client.post(recording["path"], json=recording["request"])).json()

    return asyncio.run(post())
