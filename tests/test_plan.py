import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hooks.__main__ import main
from hooks.kube.cluster import Snapshot
from hooks.kube.merge import LAST_APPLIED
from hooks.kube.metadata import JsonObject
from hooks.manifests import read_objects
from hooks.plan import CannotPlan, Change, Note, Plan, compare, make_plan, render, run
from tests.builders import node, policy

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "cluster.yaml"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = "Plan: 0 to add, 0 to change, 0 to delete"
LABELLED = "Plan: 2 to add, 0 to change, 0 to delete"  # a label, and the record of it

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Writes the contents to files, plans for them, and returns exit code, stdout and stderr."""

    def run_plan(*contents: str | bytes, output: str = "table") -> tuple[int, str, str]:
        files = [tmp_path / f"{index}.yaml" for index in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        code = run([str(file) for file in files], output)
        out, err = capsys.readouterr()
        return code, out, err

    return run_plan


def dump(*objects: JsonObject) -> str:
    return yaml.safe_dump_all(objects)


def items(*objects: JsonObject, kind: str = "List", api_version: str = "v1") -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"resourceVersion": ""}, "items": objects})


# The example


def test_the_example_says_what_changes_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", str(EXAMPLE)]) == 1
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0] == (
        "- Node/rke2-prod-cache-t3v6b label workload-type (was cache) "
        "Removed label workload-type=cache removed: no rule asks for it any more"
    )
    assert lines[2] == (
        "~ Node/rke2-prod-compute-g8h1d label workload-type: compute -> gpu "
        "Changed label workload-type changed from 'compute' to 'gpu': policy gpu, rule 1"
    )
    assert lines[5] == (
        "+ Node/rke2-prod-compute-x7k2p label workload-type=compute "
        "Labeled label workload-type=compute added: policy workload-type, rule 2"
    )
    assert lines[7] == (
        "= Node/rke2-prod-general-m4w9z (unchanged) Kept label workload-type=build kept: somebody else set it, "
        "and policy workload-type, rule 1, which wants 'general', says Keep"
    )
    assert lines[-1] == "Plan: 4 to add, 1 to change, 2 to delete"
    assert len(lines) == 9
    assert err == ""


def test_the_columns_of_the_table_are_aligned(plan: Run) -> None:
    lines = plan(dump(policy(), node(name="a-compute-1"), node(name="much-longer-general-name")))[1].splitlines()
    assert (
        len({line.index(word) for line in lines[:-1] for word in ("Labeled", "Recorded") if f" {word} " in line}) == 1
    )
    assert not any(line.endswith(" ") for line in lines)


def _documents(capsys: pytest.CaptureFixture[str]) -> tuple[JsonObject, JsonObject, str]:
    outputs = []
    for output in ("json", "yaml", "table"):
        assert main(["plan", "-f", str(EXAMPLE), "-o", output]) == 1
        outputs.append(capsys.readouterr().out)
    return json.loads(outputs[0]), yaml.safe_load(outputs[1]), outputs[2]


def test_json_and_yaml_say_the_same_as_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    from_json, from_yaml, table = _documents(capsys)
    assert from_json == from_yaml
    changes = [Change(**change) for change in from_json["changes"]]
    notes = [Note(**note) for note in from_json["notes"]]
    assert render(Plan(changes, notes), "table") + "\n" == table
    assert from_json["summary"] == {"add": 4, "change": 1, "delete": 2}
    assert from_json["changes"][2] == {
        "action": "change",
        "object": "Node/rke2-prod-compute-g8h1d",
        "field": "labels.workload-type",
        "before": "compute",
        "after": "gpu",
        "reason": "Changed",
        "why": "label workload-type changed from 'compute' to 'gpu': policy gpu, rule 1",
    }


# A plan that was carried out leaves nothing to do


def apply_changes(objects: Sequence[JsonObject], changes: Sequence[Change]) -> list[JsonObject]:
    """As a reader of the plan would: every label and annotation set or removed."""
    by_ref = {f"{obj['kind']}/{obj['metadata']['name']}": json.loads(json.dumps(obj)) for obj in objects}
    for change in changes:
        part, _, key = change.field.partition(".")
        values = by_ref[change.object]["metadata"].setdefault(part, {})
        if change.after is None:
            del values[key]
        else:
            values[key] = change.after
    return [*by_ref.values()]


def test_the_example_is_at_rest_after_its_plan() -> None:
    objects = read_objects([EXAMPLE])
    first = make_plan(objects, now=NOW)
    assert make_plan(apply_changes(objects, first.changes), now=NOW).changes == []


NAMES = st.sampled_from(["a-general-1", "b-compute-1", "c-database-1", "d-other-1"])
LABELS = st.dictionaries(
    st.sampled_from(["workload-type", "zone"]), st.sampled_from(["general", "gpu", ""]), max_size=2
)


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(NAMES, LABELS, min_size=1, max_size=3),
    st.sampled_from(["Keep", "Enforce"]),
    st.integers(-1, 1),
)
def test_a_second_plan_is_empty(nodes: dict[str, dict[str, str]], conflict: str, priority: int) -> None:
    rules = [{"match": {"nodeSelector": {"matchLabels": {"zone": "gpu"}}}, "labels": {"workload-type": "gpu"}}]
    objects = [
        policy(),
        policy(name="gpu", conflict=conflict, priority=priority, rules=rules),
        *(node(name=name, labels=labels, uid="") for name, labels in nodes.items()),
    ]
    first = make_plan(objects, now=NOW)
    assert make_plan(apply_changes(objects, first.changes), now=NOW).changes == []


# What can be read


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param([dump(policy(), node())], id="YAML documents"),
        pytest.param([dump(policy()), dump(node())], id="two files"),
        pytest.param([items(policy(), node())], id="a list, as kubectl get -o json prints it"),
        pytest.param([f"---\n---\n# nothing\n---\n{dump(policy())}---\n{dump(node())}---\n"], id="empty documents"),
        pytest.param([items(policy()), items(node(), kind="NodeList")], id="a typed list"),
        pytest.param(
            [f"{{kind: List, apiVersion: v1, items: [{json.dumps(policy())}, {json.dumps(node())}]}}"], id="braces"
        ),
        pytest.param([f"\ufeff{items(policy(), node())}"], id="a byte order mark"),
        pytest.param([items({"apiVersion": "v1", "kind": "List", "items": [policy(), node()]})], id="a list in a list"),
        pytest.param([dump(policy(), node(), node())], id="the same object twice"),
    ],
)
def test_objects_are_read(plan: Run, contents: list[str]) -> None:
    code, out, err = plan(*contents)
    assert (code, out.splitlines()[-1], err) == (1, LABELLED, "")


def test_items_of_a_typed_list_may_leave_out_their_kind(plan: Run) -> None:
    bare = {key: value for key, value in node().items() if key not in ("apiVersion", "kind")}
    code, out, _ = plan(dump(policy()), items(bare, kind="NodeList"))
    assert (code, out.splitlines()[-1]) == (1, LABELLED)


def test_standard_input_is_the_default(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["plan"], ["plan", "-f", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO(items(policy(), node())))
        assert main(arguments) == 1
        assert capsys.readouterr().out.endswith(f"{LABELLED}\n")


def test_timestamps_stay_text(plan: Run) -> None:
    text = dump(policy(), node()).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z")
    assert plan(text)[0] == 1


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}, id="a custom resource"
        ),
        pytest.param({"apiVersion": "v2", "kind": "Node", "metadata": {"name": "n"}}, id="a later version"),
        pytest.param(
            {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}},
            id="a broken definition",
        ),
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "generation": None}}, id="a Pod"),
    ],
)
def test_kinds_that_no_hook_looks_at_are_passed_over(plan: Run, unknown: JsonObject) -> None:
    code, out, _ = plan(dump(unknown, policy(), node()))
    assert (code, out.splitlines()[-1]) == (1, LABELLED)


# What cannot be read


LAUGHS = "kind: A\nl0: &l0 [x]\n" + "".join(f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 9)}]\n" for n in range(12))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param("a: [", "neither YAML nor JSON: while parsing", id="broken YAML"),
        pytest.param('{"kind": ', "neither YAML nor JSON: ", id="broken JSON"),
        pytest.param(b"\xff\xfe\xfa", "neither YAML nor JSON: ", id="not text"),
        pytest.param("just text", "not a Kubernetes object: it has no kind", id="text"),
        pytest.param("- a\n- b", "not a Kubernetes object: it has no kind", id="a list of text"),
        pytest.param("metadata: {name: a}", "not a Kubernetes object: it has no kind", id="an object without a kind"),
        pytest.param("kind: 5", "not a Kubernetes object: it has no kind", id="a kind that is no text"),
        pytest.param(
            "kind: Node\nmetadata: {name: a}", "a Node without apiVersion or metadata.name", id="no apiVersion"
        ),
        pytest.param("kind: Node\napiVersion: v1", "a Node without apiVersion or metadata.name", id="no metadata"),
        pytest.param(
            "kind: Node\napiVersion: v1\nmetadata: {name: 5}",
            "a Node without apiVersion or metadata.name",
            id="a number",
        ),
        pytest.param(
            "kind: List\napiVersion: v1\nitems: [metadata: {name: a}]",
            "not a Kubernetes object: it has no kind",
            id="an item of a plain list without a kind",
        ),
        pytest.param("kind: List\nitems: [5]", "not a Kubernetes object: it has no kind", id="an item that is none"),
        pytest.param("kind: A\nspec: &a [*a]", "neither YAML nor JSON: ", id="an anchor inside itself"),
        pytest.param("kind: A\nspec: !!binary aGk=", "neither YAML nor JSON: ", id="bytes"),
        pytest.param("kind: A\nspec: .nan", "neither YAML nor JSON: ", id="not a number"),
        pytest.param("kind: A\nspec: !!python/object:os.system {}", "neither YAML nor JSON: ", id="code"),
        pytest.param("kind: " + "[" * 200_000 + "]" * 200_000, "nested too deeply", id="a bomb of YAML"),
        pytest.param(LAUGHS, "nested too deeply, or far larger than it looks", id="a bomb of aliases"),
        pytest.param('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply", id="a bomb of JSON"),
    ],
)
def test_an_unreadable_file_is_one_line_and_exit_code_2(plan: Run, content: str | bytes, problem: str) -> None:
    for output in ("table", "json"):
        code, out, err = plan(dump(policy(), node()), content, output=output)
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert err.startswith("plan: ")
        assert f"1.yaml: {problem}" in err


def test_a_file_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for file, problem in ((tmp_path / "none.yaml", "No such file or directory"), (tmp_path, "Is a directory")):
        assert main(["plan", "-f", str(file)]) == 2
        assert capsys.readouterr() == ("", f"plan: {file}: {problem}\n")


def test_an_object_that_a_hook_refuses_is_named(plan: Run) -> None:
    broken = node(name="n")
    broken["metadata"]["labels"] = {"gpu": True}
    code, out, err = plan(dump(policy(), broken))
    assert (code, out) == (2, "")
    assert err == "plan: Node/n: object.metadata.labels[...]: Expected `str`, got `bool`\n"


# What a newcomer wants to know


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        pytest.param(
            dump(node()),
            "the input holds no NodeLabelPolicy: node-labeler decides by them, so include them in the dump",
            id="Nodes without a policy",
        ),
        pytest.param(
            dump(policy()),
            "the input holds no object that a hook looks after "
            "(Node, NodeAgentAutoscaler, PersistentVolumeClaim, VolumeAutoscaler)",
            id="only policies",
        ),
    ],
)
def test_a_hint_says_why_nothing_happens(plan: Run, content: str, hint: str) -> None:
    assert plan(content) == (0, f"{NOTHING}\n", f"plan: {hint}\n")


def test_no_objects_at_all_are_an_error(plan: Run) -> None:
    """`kubectl get … | plan` without a cluster must not look like a cluster without changes."""
    assert plan("") == (2, "", "plan: the input holds no objects\n")


def test_a_policy_that_cannot_be_used_is_told_once_and_is_an_error(plan: Run) -> None:
    broken = policy(name="broken", rules=[{"match": {"nameContains": "x"}, "labels": {"a": "${2}"}}])
    code, out, _ = plan(dump(broken, node(name="a"), node(name="b", uid="2")))
    assert code == 2
    assert out.count("InvalidSpec  policy broken, rule 1: labels.a: ${2} is not a group of match.nameMatches") == 1


def test_a_bare_list_is_read(plan: Run) -> None:
    assert plan(json.dumps([policy(), node(name="a-compute-1")]))[0] == 1


def test_there_is_no_hint_if_nothing_needs_to_change(plan: Run) -> None:
    done = node(
        labels={"workload-type": "compute"},
        annotations={"node-labeler.io/owned": '{"labels":{"workload-type":"compute"}}'},
    )
    assert plan(dump(policy(), done)) == (0, f"{NOTHING}\n", "")


def test_a_node_on_its_way_out_is_left_alone(plan: Run) -> None:
    assert plan(dump(policy(), node(deleting=True)))[:2] == (0, f"{NOTHING}\n")


# Comparing and printing


def _plan_of(old: list[JsonObject], new: list[JsonObject]) -> list[Change]:
    def snapshot(objects: list[JsonObject]) -> Snapshot:
        return Snapshot({"Toy.v1": {obj["metadata"]["name"]: obj for obj in objects}})

    return [*compare(snapshot(old), snapshot(new))]


def toy(name: str = "t", *, annotations: dict[str, str] | None = None, **fields: Any) -> JsonObject:
    metadata = {
        "name": name,
        "namespace": "ns",
        "resourceVersion": json.dumps(fields),
        "annotations": annotations or {},
    }
    return {"kind": "Toy", "metadata": metadata, **fields}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param([], [toy()], "+  Toy/ns/t  (whole object)", id="a new object"),
        pytest.param([toy()], [], "-  Toy/ns/t  (whole object)", id="a deleted object"),
        pytest.param([toy()], [toy(spec={"a": 1})], '+  Toy/ns/t  spec={"a":1}', id="a new field"),
        pytest.param(
            [toy(data={"a": 1, "b": 2})],
            [toy(data={"a": 2, "b": 1})],
            '~  Toy/ns/t  data: {"a":1,"b":2} -> {"a":2,"b":1}',
            id="any field",
        ),
        pytest.param(
            [toy(data={"a": {"b": 1}, "c": 3})],
            [toy(data={"a": {"b": 2}, "c": 3})],
            "~  Toy/ns/t  data.a.b: 1 -> 2",
            id="a field in a field",
        ),
        pytest.param(
            [toy(status={"a": 1})], [toy(status={"a": 2})], '~  Toy/ns/t  status: {"a":1} -> {"a":2}', id="a status"
        ),
        pytest.param([toy(status={})], [toy()], "-  Toy/ns/t  status (was {})", id="a field that goes"),
        pytest.param(
            [toy()],
            [toy(annotations={"labels.example.com/a": "b"})],
            "+  Toy/ns/t  annotation labels.example.com/a=b",
            id="an annotation that is called labels",
        ),
        pytest.param(
            [toy()],
            [toy(annotations={"a": "x\n\x1b[31m"})],
            r"+  Toy/ns/t  annotation a=x\n\u001b[31m",
            id="a line break",
        ),
        pytest.param(
            [toy()], [toy(annotations={"a": "x" * 100})], f"+  Toy/ns/t  annotation a={'x' * 41}...", id="a long value"
        ),
        pytest.param([toy()], [toy(annotations={LAST_APPLIED: "{}"})], None, id="the books of Metacontroller"),
        pytest.param([toy(spec={"a": 1, "b": 2})], [toy(spec={"b": 2, "a": 1})], None, id="another order of keys"),
    ],
)
def test_one_change_is_one_line(old: list[JsonObject], new: list[JsonObject], line: str | None) -> None:
    assert render(Plan(_plan_of(old, new)), "table").splitlines()[:-1] == ([line] if line else [])


def test_a_plan_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rounds are needed: one that writes, and one that finds nothing more to do."""
    monkeypatch.setattr("hooks.plan.MOST_ROUNDS", 1)
    with pytest.raises(CannotPlan, match="do not come to rest: after 1 rounds they still update Node/"):
        make_plan([policy(), node()], now=NOW)
