"""Where `plan` learns how full volumes are: from a file of samples, from a Prometheus, or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from hooks import wire
from hooks.service.endpoint import Ask
from hooks.service.logs import make_logger
from hooks.service.prometheus import Prometheus
from hooks.service.settings import Settings
from hooks.volumes.usage import METRICS, PREFIX, UNREACHABLE, Question, Sample, Unavailable, Usages, read_usages

NAMES = {f"{PREFIX}{metric}": metric for metric in METRICS}


class Unusable(ValueError):
    """The file of samples or the address of Prometheus cannot be used; the message says why."""


async def ask_nobody(question: Question) -> Unavailable:
    return Unavailable(UNREACHABLE, "how full volumes are is not known: give --samples or --prometheus")


def ask_samples(file: str) -> Ask:
    """Samples in the text format of Prometheus, such as a kubelet shows them; their times do not matter."""
    try:
        samples = list(_read(Path(file).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"cannot read {file}: {getattr(error, 'strerror', None) or 'not UTF-8'}") from error
    except ValueError as error:
        raise Unusable(f"{file} is not in the text format of Prometheus: {error}") from error
    if not samples:
        raise Unusable(f"{file} holds no {PREFIX}* of any claim")

    async def ask(question: Question) -> Usages:
        return read_usages((s for s in samples if s.labels["namespace"] == question.namespace), now=0)

    return ask


def _read(text: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(text):
        for found in family.samples:
            if found.name in NAMES and "namespace" in found.labels:
                yield Sample(NAMES[found.name], found.labels, float(found.value), 0)


def ask_backend(url: str) -> Ask:
    """This Prometheus instead of those that the VolumeAutoscalers name; the settings of the server apply otherwise."""
    try:
        settings = Settings(prometheus_url=url, log_level="error")
    except ValidationError as error:
        raise Unusable(f"--prometheus {url}: {wire.problem(error)}") from error

    async def ask(question: Question) -> Usages | Unavailable:
        backend = Prometheus(settings, count=lambda code, seconds: None, logger=make_logger(settings))
        try:
            return await backend.ask(replace(question, url=""))
        finally:
            await backend.aclose()

    return ask
