"""Our quantities against the real ones: kubectl reads and prints them with the API server's own code."""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from hooks.kube.quantity import InvalidQuantity, canonical

pytestmark = pytest.mark.e2e

SUFFIXES = [*"numkMGTPE", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e-3", "E+2", "e0", "e-12", "e30", "e+07"]
WHOLES = ["0", "1", "007", "8", "100", "512", "1000", "1023", "1024", "1500", "2000", "1048576", "999999999999"]
LARGE_WHOLES = ["123456789012345678", "1234567890123456789", "9223372036854775807", "9223372036854775808"]
FRACTIONS = ["", "", "", ".", ".5", ".0", ".000", ".500", ".001", ".25", ".123456789", ".1234567891"]

# fmt: off
PICKED = [
    "0", "0Gi", "-0", "+5", "007", "1.", ".5", "1.5", "1.500", "0.500",
    "2000", "1000m", "1n", "1E", "1E3", "1e3", "1000e3", "12e-1", "1e-9", "1e-10",
    "-1e-10", "1024Mi", "0.5Gi", "1.5Gi", "0.1Gi", "-0.1Gi", "0.5Ki", "1.953125Ki", "7Ei", "8Ei",
    "100Ei", "-100Ei", "9223372036854775808", "1e30", "1500E", "1e99", "9e99",
]
# fmt: on

REFUSED = [
    "",
    " 1Gi",
    "1 Gi",
    "1K",
    "1ki",
    "1Zi",
    "1GiB",
    "1e",
    "1e1.5",
    "1_000",
    "1.2.3",
    "--1",
    "Infinity",
    "NaN",
    "٣Gi",
]

# What Go accepts and we refuse on purpose, with what Go makes of it: see the docstring of hooks.kube.quantity.
STRICTER = {"Gi": "0", "m": "0", ".": "0", "+": "0", "1000E": "1", "1" + "0" * 21: "1", "1e4294967296": "1e4294967296"}


def _print_with_go(folder: Path, texts: Sequence[str]) -> list[str]:
    """What one kubectl call prints for all of them."""
    hard = ",".join(f"example.com/r{index}={text}" for index, text in enumerate(texts))
    command = [str(folder / "kubectl"), "create", "quota", "q", f"--hard={hard}", "--dry-run=client", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)["spec"]["hard"]
    return [printed[f"example.com/r{index}"] for index in range(len(texts))]


def _generated(count: int) -> list[str]:
    chance = random.Random(20260101)
    texts: list[str] = []
    while len(texts) < count:
        whole = chance.choice([*WHOLES, *LARGE_WHOLES, str(chance.randrange(10 ** chance.randint(1, 20)))])
        text = chance.choice(["", "", "+", "-"]) + whole + chance.choice(FRACTIONS) + chance.choice(SUFFIXES)
        if _is_accepted(text):
            texts.append(text)
    return texts


def _is_accepted(text: str) -> bool:
    try:
        canonical(text)
    except InvalidQuantity:
        return False
    return True


def test_prints_what_kubernetes_prints_after_storing_it(controlplane_binaries: Path) -> None:
    texts = [*PICKED, *_generated(1000)]
    stored = _print_with_go(controlplane_binaries, texts)
    read = _print_with_go(controlplane_binaries, stored)
    expected = dict(zip(texts, read, strict=True))
    assert {text: canonical(text) for text in texts} == expected


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_what_kubernetes_refuses(controlplane_binaries: Path, text: str) -> None:
    assert not _is_accepted(text)
    with pytest.raises(subprocess.CalledProcessError):
        _print_with_go(controlplane_binaries, [text])


def test_is_stricter_only_where_go_is_wrong(controlplane_binaries: Path) -> None:
    assert _print_with_go(controlplane_binaries, list(STRICTER)) == list(STRICTER.values())
    assert not any(_is_accepted(text) for text in STRICTER)
