"""Every YAML file that we ship, on a real API server that refuses unknown fields."""

from contextlib import suppress
from pathlib import Path

import pytest

from hooks.kube.metadata import namespace_of
from hooks.manifests import read_objects
from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.hook_server import ROOT
from tests.e2e.kube import AlreadyExists

pytestmark = pytest.mark.e2e

SHIPPED = sorted(
    path.relative_to(ROOT)
    for folder in ("deploy", "metacontroller", "examples")
    for path in (ROOT / folder).rglob("*.yaml")
)
OF_OTHERS = {Path("examples/storage-nodes/cluster.yaml")}  # kinds of another project: `plan` is tested with it
MANIFESTS = [path for path in SHIPPED if path.name != "kustomization.yaml" and path not in OF_OTHERS]
KUSTOMIZATIONS = [
    path.parent for path in SHIPPED if path.name == "kustomization.yaml" and "components" not in path.parts
]  # a component is built by the overlays that use it
CHECK = ("apply", "--dry-run=server", "--validate=strict")
CERT_MANAGER = str(Path(__file__).with_name("cert-manager-crds.yaml"))


@pytest.fixture(scope="module")
def ready(installed: ControlPlane) -> ControlPlane:
    """With what our files take for granted: the kinds of cert-manager, and the namespaces of the examples."""
    installed.kubectl("apply", "--validate=strict", "-f", CERT_MANAGER)
    installed.kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", CERT_MANAGER)
    for name in {namespace_of(obj) for obj in read_objects(ROOT / path for path in MANIFESTS)} - {""}:
        with suppress(AlreadyExists):
            installed.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return installed


@pytest.mark.parametrize("path", MANIFESTS, ids=str)
def test_the_api_server_knows_every_field(ready: ControlPlane, path: Path) -> None:
    assert ready.kubectl(*CHECK, "-f", str(ROOT / path))


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=str)
def test_the_api_server_takes_what_kustomize_builds(ready: ControlPlane, folder: Path) -> None:
    assert ready.kubectl(*CHECK, "-k", str(ROOT / folder))


def test_every_component_is_used_by_an_overlay() -> None:
    used = "".join((ROOT / path).read_text() for path in SHIPPED if "overlays" in path.parts)
    for path in SHIPPED:
        if path.name == "kustomization.yaml" and "components" in path.parts:
            assert f"components/{path.parent.name}" in used


@pytest.mark.parametrize("path", ["metacontroller/node-labeler.yaml", "deploy/base/workload-type.yaml"])
def test_an_unknown_field_is_refused(installed: ControlPlane, path: str) -> None:
    """The checks above can fail."""
    misspelt = (ROOT / path).read_text().replace("\nspec:\n", "\nspec:\n  misspelt: true\n")
    with pytest.raises(KubectlError, match=r'unknown field "spec.misspelt"'):
        installed.kubectl(*CHECK, "-f", "-", input=misspelt)
