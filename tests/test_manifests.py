"""What the manifests promise to the code, and the code to the manifests."""

import tomllib
from pathlib import Path

import pytest
import yaml

from hooks.app import HOOKS
from hooks.controllers import read_controllers
from hooks.kube.cluster import Kinds
from hooks.kube.metadata import JsonObject, name_of
from hooks.manifests import read_manifests

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("metacontroller", "metacontroller/storage-nodes", "metacontroller/storage-data")
CONTROLLERS = [manifest for folder in FOLDERS for manifest in read_manifests(folder)]


def test_every_hook_has_a_controller_and_every_controller_a_hook() -> None:
    kinds = Kinds.of(read_manifests("deploy/crds"))
    asked = {
        controller.path(action)
        for controller in read_controllers(CONTROLLERS, kinds)
        for action in ("sync", "customize")
        if controller.path(action)
    }
    wanted = {f"/{hook.name}/{action}" for hook in HOOKS for action in hook.actions if action != "admit"}
    assert asked == wanted, "each hook needs a controller in metacontroller/ that asks its sync and its customize path"


@pytest.mark.parametrize("manifest", CONTROLLERS, ids=name_of)
def test_a_controller_follows_our_rules(manifest: JsonObject) -> None:
    spec = manifest["spec"]
    assert {hook["version"] for hook in spec["hooks"].values()} == {"v2"}
    assert "finalize" not in spec["hooks"], "it would block the deletion of Nodes while the hook is down"
    assert spec.get("resyncPeriodSeconds", 601) <= 600, "what was missed is noticed after ten minutes at the latest"


def test_every_manifest_is_listed_in_its_kustomization() -> None:
    for folder in (*FOLDERS, "deploy/crds", "deploy/base"):
        listed = yaml.safe_load((ROOT / folder / "kustomization.yaml").read_text())["resources"]
        files = {path.name for path in (ROOT / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert files <= set(listed)


def test_every_hook_is_among_the_modules_that_must_be_pure() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = next(contract["source_modules"] for contract in contracts if contract["type"] == "forbidden")
    assert {hook.sync.__module__ for hook in HOOKS} <= set(pure)


def test_the_variables_of_service_links_do_not_reach_the_server() -> None:
    """Kubernetes would set METAHOOKS_PORT=tcp://… for a Service of that name, and the server would not start."""
    [pod] = [
        manifest["spec"]["template"]["spec"]
        for manifest in read_manifests("deploy/base")
        if manifest["kind"] == "Deployment"
    ]
    assert pod["enableServiceLinks"] is False


def test_nothing_that_we_deploy_needs_a_label_that_our_own_hook_sets() -> None:
    """A hook that runs only on Nodes that it has labelled would never run."""
    for manifest in read_manifests("deploy/base"):
        pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
        assert "nodeSelector" not in pod
        assert "affinity" not in pod
