"""Every setting of the server, with its default and what it means.

Values come from the environment (`METAHOOKS_` and the name in capitals) or from the flags of `python -m hooks serve`.
"""

from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "METAHOOKS_"


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    # Where to listen
    host: str = Field(default="0.0.0.0", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")

    # Connections
    keep_alive_seconds: int = Field(
        default=120,
        ge=1,
        description="How long an idle connection stays open. Metacontroller keeps its own for 90 seconds: below that, "
        "it meets closed connections and reports them as failed syncs.",
    )
    shutdown_seconds: int = Field(
        default=20,
        ge=1,
        description="How long requests under way may take to finish after the server was told to stop.",
    )
    max_body_bytes: int = Field(
        default=128 * 1024 * 1024, ge=1024, description="Request bodies above this size are refused with 413."
    )

    # Logs
    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="json: one object per line; text: for people; auto: text on a terminal, else json."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="info: one line per decision that changes something. debug: also those that change nothing.",
    )
    access_log: bool = Field(default=False, description="One line per HTTP request. Costs a fifth of the throughput.")
