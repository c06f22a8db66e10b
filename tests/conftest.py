"""Fixtures of the end-to-end tests. Nothing is built or started unless a test asks for it."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest
from hypothesis import settings

from tests.e2e.controlplane import ControlPlane
from tests.e2e.kube import KubeClient

settings.register_profile("no deadline", deadline=None)  # no test depends on a time
settings.load_profile("no deadline")

BUILD = Path(__file__).resolve().parent.parent / "tools" / "controlplane" / "build.py"


@pytest.fixture(scope="session")
def controlplane_binaries(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with etcd, kube-apiserver, kube-controller-manager, kubectl, prometheus and promtool."""
    with _terminal(pytestconfig):  # the first build takes minutes: show its progress
        done = subprocess.run([sys.executable, BUILD], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        pytest.fail("the control plane could not be built; the reason is above the test results", pytrace=False)
    built = Path(done.stdout.strip())
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return _united(tmp_path_factory.mktemp("binaries"), Path(assets), built) if assets else built


@pytest.fixture(scope="session")
def control_plane(controlplane_binaries: Path, pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """The control plane that all tests of a run share."""
    with ExitStack() as stack:
        yield stack.enter_context(ControlPlane(controlplane_binaries))
        with _terminal(pytestconfig):  # it says where it keeps logs, if it does
            stack.close()


@pytest.fixture
def admin(control_plane: ControlPlane) -> KubeClient:
    """May do everything."""
    return control_plane.admin


@pytest.fixture
def namespace(admin: KubeClient) -> Iterator[str]:
    """A fresh namespace. Kubernetes empties it after the test in its own time."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    admin.delete("v1", "namespaces", name)


def _united(folder: Path, *sources: Path) -> Path:
    """One folder of links to the programs of all; the first that has a program gives it."""
    for source in sources:
        for program in source.iterdir():
            link = folder / program.name
            if program.is_file() and not link.exists():
                link.symlink_to(program.resolve())
    return folder


def _terminal(config: pytest.Config) -> AbstractContextManager[None]:
    """What is written inside is seen at once, not captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()
