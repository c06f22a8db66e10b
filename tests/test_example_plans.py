"""`plan` for storage nodes and node agents, with the examples that the README names."""

from pathlib import Path

import pytest

from hooks.__main__ import main

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def planned(capsys: pytest.CaptureFixture[str], *files: str) -> tuple[int, list[str]]:
    code = main(["plan", *(part for file in files for part in ("-f", str(EXAMPLES / file)))])
    return code, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_storage_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    label = "storage.deckhouse.io/sds-replicated-volume-node"
    assert planned(capsys, "storage-nodes/cluster.yaml") == (
        1,
        [
            "+ DRBDResource/pvc-7f3c-worker-4 label storage-nodes.metahooks.io/node=worker-4 "
            "Marked it is on node worker-4",
            f"+ Node/worker-1 label {label}= MatchesStorageClass class fast means it",
            f"- Node/worker-2 label {label} (was ) NoMatch no class means it, and no data is known to be on it",
            f"~ Node/worker-3 label {label}: worker-3 -> EligibleInPool "
            "label corrected from 'worker-3': pool hdd of class bulk lists it",
            "= Node/worker-4 (unchanged) HoldsData DRBDResource pvc-7f3c-worker-4 is on it",
            "Plan: 2 to add, 1 to change, 1 to delete",
        ],
    )


def test_node_agents(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = planned(capsys, "nodes.yaml", "node-agent/exporter.yaml")
    assert code == 1
    assert lines[:3] == [
        "+ DaemonSet/monitoring/exporter-default-6e340b (whole object) Created "
        "nodes without the label: 100m CPU and 180Mi, at most 100m and 194Mi",
        "+ DaemonSet/monitoring/exporter-m5-8xlarge-2783fe (whole object) Created "
        '"m5.8xlarge": 640m CPU and 2621Mi, at most 1600m and 4Gi',
        "+ DaemonSet/monitoring/exporter-m5-xlarge-4ddc15 (whole object) Created "
        '"m5.xlarge": 100m CPU and 311Mi, at most 196m and 778Mi',
    ]


@pytest.mark.parametrize("example", ["node-agent/kubescape.yaml", "node-agent/gpu-groups.yaml"])
def test_the_other_examples_make_daemonsets(capsys: pytest.CaptureFixture[str], example: str) -> None:
    code, lines = planned(capsys, "nodes.yaml", example)
    assert code == 1
    assert sum(" Created " in line for line in lines) == 2


def test_a_broken_template_is_an_error_and_not_just_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text((EXAMPLES / "node-agent/kubescape.yaml").read_text().replace("{{ .GoMemLimit }}", "{{ if }}"))
    code = main(["plan", "-f", str(EXAMPLES / "nodes.yaml"), "-f", str(broken)])
    said = capsys.readouterr().out
    assert code == 2
    assert "TemplateInvalid" in said
    assert "line 34: {{ if }} is not one of" in said
