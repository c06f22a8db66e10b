"""Every YAML file that we ship, on a real API server that refuses unknown fields."""

from pathlib import Path

import pytest

from tests.e2e.controlplane import ControlPlane, KubectlError
from tests.e2e.hook_server import ROOT

pytestmark = pytest.mark.e2e

SHIPPED = sorted(
    path.relative_to(ROOT)
    for folder in ("deploy", "metacontroller", "examples")
    for path in (ROOT / folder).rglob("*.yaml")
)
MANIFESTS = [path for path in SHIPPED if path.name != "kustomization.yaml"]
KUSTOMIZATIONS = [
    path.parent for path in SHIPPED if path.name == "kustomization.yaml" and "components" not in path.parts
]  # a component is built by the overlays that use it
CHECK = ("apply", "--dry-run=server", "--validate=strict")


@pytest.mark.parametrize("path", MANIFESTS, ids=str)
def test_the_api_server_knows_every_field(installed: ControlPlane, path: Path) -> None:
    assert installed.kubectl(*CHECK, "-f", str(ROOT / path))


@pytest.mark.parametrize("folder", KUSTOMIZATIONS, ids=str)
def test_the_api_server_takes_what_kustomize_builds(installed: ControlPlane, folder: Path) -> None:
    assert installed.kubectl(*CHECK, "-k", str(ROOT / folder))


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
