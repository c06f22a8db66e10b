"""Every setting of the server, with its default and what it means.

Values come from the environment (`METAHOOKS_` and the name in capitals) or from the flags of `python -m hooks serve`.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from hooks.service.backend_urls import parse_patterns, parse_url

PREFIX = "METAHOOKS_"


def pairs(text: str | None) -> tuple[tuple[str, str], ...]:
    """The parts of `name=value,name=value`, without the blanks around them."""
    parts = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    if not all(sign for _, sign, _ in parts):
        raise ValueError("write name=value,name=value")
    return tuple((name.strip(), value.strip()) for name, _, value in parts)


def _checked(check: Callable[[str], Any]) -> AfterValidator:
    """Every complaint becomes one plain sentence; none repeats the value, which may hold a secret."""

    def validate(value: str | None) -> str | None:
        try:
            check(value or "")
        except ValueError as error:
            raise _refusal(str(error)) from None
        return value

    return AfterValidator(validate)


def _refusal(why: str) -> PydanticCustomError:
    return PydanticCustomError("unusable", "{why}", {"why": why})


def _check_headers(text: str) -> None:
    for name, value in pairs(text):
        if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) or not re.fullmatch(r"[ -~]+", value):
            raise ValueError("write name=value,name=value, each a name and a value that an HTTP header can have")


def _check_matchers(text: str) -> None:
    for label, value in pairs(text):
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label) or value.startswith(("~", '"', "'")):
            raise ValueError("write label=value,label=value, without quotes; only equality can be asked for")
        if label in ("__name__", "namespace"):
            raise ValueError("__name__ and namespace are in the query already")
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("a value is not UTF-8")


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    # Where to listen
    host: str = Field(default="0.0.0.0", description="Address to listen on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")

    tls_certificate_file: str | None = Field(
        default=None, description="Serve HTTPS with this certificate (PEM) and its key; read again when it changes."
    )
    tls_key_file: str | None = Field(default=None, description="The key of the certificate (PEM).")

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

    # Prometheus, or what answers like it: Thanos, Mimir, VictoriaMetrics
    prometheus_url: Annotated[str, _checked(parse_url)] = Field(
        default="http://prometheus.monitoring.svc.cluster.local:9090",
        description="Prometheus for autoscalers that name none; a path prefix is kept.",
    )
    prometheus_allowed_urls: Annotated[str, _checked(parse_patterns)] = Field(
        default="http://*.svc, https://*.svc, http://*.svc.cluster.local, https://*.svc.cluster.local",
        description="Which prometheusURL an autoscaler may name beside METAHOOKS_PROMETHEUS_URL: patterns "
        "http(s)://host[:port][/path], separated by commas; * stands for one or more characters; without a port or a "
        "path any will do. Loopback, link-local and metadata addresses only if the host is written out, without *.",
    )
    prometheus_timeout_seconds: float = Field(
        default=5,
        gt=0,
        le=8,
        description="How long a query may take in all, with its one retry. Metacontroller waits 10 seconds for a hook.",
    )
    prometheus_bearer_token_file: str | None = Field(
        default=None,
        description="File with a bearer token, read for every query. As all credentials and headers, it is sent to the "
        "scheme, host and port of METAHOOKS_PROMETHEUS_URL only, never to others that an autoscaler names.",
    )
    prometheus_username: str | None = Field(default=None, description="Name for basic authentication.")
    prometheus_password_file: str | None = Field(
        default=None,
        validate_default=True,
        description="File with the password for basic authentication, read for every query.",
    )
    prometheus_ca_file: str | None = Field(
        default=None,
        description="File with the certificates (PEM) that https is checked against, for every backend. None: those of "
        "the system.",
    )
    prometheus_client_certificate_file: str | None = Field(
        default=None, description="File with the client certificate (PEM), and with its key unless that has its own."
    )
    prometheus_client_key_file: str | None = Field(
        default=None, description="File with the key (PEM, without a passphrase) of the client certificate."
    )
    prometheus_headers: Annotated[str | None, _checked(_check_headers)] = Field(
        default=None,
        repr=False,
        description="Further headers, such as the tenant: name=value, separated by commas.",
    )
    prometheus_matchers: Annotated[str | None, _checked(_check_matchers)] = Field(
        default=None,
        description="Labels that series must have, such as cluster=prod where one store holds several clusters: "
        "label=value, separated by commas. They go into the query to every backend.",
    )

    @field_validator("prometheus_username")
    @classmethod
    def _one_way_to_authenticate(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name and info.data.get("prometheus_bearer_token_file"):
            raise _refusal("there is a bearer token file already; give one of the two")
        if name and ":" in name:
            raise _refusal("a name for basic authentication cannot have a colon")
        return name

    @field_validator("prometheus_password_file")
    @classmethod
    def _name_and_password(cls, file: str | None, info: ValidationInfo) -> str | None:
        if "prometheus_username" in info.data and bool(file) != bool(info.data["prometheus_username"]):
            raise _refusal("basic authentication needs a name and a password file")
        return file

    @field_validator("prometheus_client_key_file")
    @classmethod
    def _key_of_a_certificate(cls, file: str | None, info: ValidationInfo) -> str | None:
        if file and not info.data.get("prometheus_client_certificate_file"):
            raise _refusal("a key needs a client certificate file")
        return file
