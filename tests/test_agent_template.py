"""Templates: placeholders in a text, what it must be, and the form in which Kubernetes stores it."""

from contextlib import nullcontext, suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hooks.agents.template import LARGEST_TEXT, PLACEHOLDERS, InvalidTemplate, read_inline, read_text, tidy
from hooks.kube.metadata import JsonObject, compact_json
from tests.agents import TEMPLATE_TEXT, template

VALUES = {name: f"<{name}>" for name in PLACEHOLDERS} | {
    "Resources.Requests.CPU": "100m",
    "Resources.Requests.Memory": "327Mi",
    "Resources.Limits.CPU": "200m",
    "Resources.Limits.Memory": "819Mi",
}
HEAD = "apiVersion: apps/v1\nkind: DaemonSet\n"
SMALL = HEAD + "spec: {template: {spec: {containers: [{name: agent, image: IMAGE}]}}}\n"


def rendered(text: str, **values: str) -> JsonObject:
    return read_text(text).render(VALUES | values)


def image(text: str, **values: str) -> Any:
    """What becomes of a text in the place of an image."""
    return rendered(SMALL.replace("IMAGE", text), **values)["spec"]["template"]["spec"]["containers"][0]["image"]


def complaint(text: str) -> str:
    with pytest.raises(InvalidTemplate) as caught:
        read_text(text)
    return str(caught.value)


def inline(**spec: Any) -> JsonObject:
    """The pod of an inline template with these fields, as it is stored."""
    found: JsonObject = read_inline(template(**spec)).render(VALUES)["spec"]["template"]["spec"]
    return found


def refused(**spec: Any) -> str:
    with pytest.raises(InvalidTemplate) as caught:
        read_inline(template(**spec))
    return str(caught.value)


# Placeholders


@pytest.mark.parametrize("written", ["{{ .Name }}", "{{.Name}}", "{{  .Name\t}}", "'{{ .Name }}'", '"{{.Name}}"'])
def test_a_placeholder_may_be_written_with_any_spacing_and_in_quotes(written: str) -> None:
    assert image(written, Name="agent-large") == "agent-large"


def test_every_placeholder_has_its_place() -> None:
    text = "'" + " ".join(f"{{{{ .{name} }}}}" for name in PLACEHOLDERS) + "'"

    assert image(text).split() == [VALUES[name] for name in PLACEHOLDERS]


def test_a_placeholder_may_be_part_of_a_text_a_key_or_another_line() -> None:
    annotations = "metadata:\n  annotations:\n    {{ .Name }}: |-\n      a {{ .Name }}\n      b\n"
    text = SMALL.replace("IMAGE", "x/{{ .Name }}:{{ .NodeGroupLabel }}") + annotations
    found = rendered(text, Name="n", NodeGroupLabel="g")

    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "x/n:g"
    assert found["metadata"]["annotations"] == {"n": "a n\nb"}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("{{ .Unknown }}", "{{ .Unknown }}", id="unknown"),
        pytest.param("{{ .name }}", "{{ .name }}", id="another case"),
        pytest.param("{{ Name }}", "{{ Name }}", id="no dot"),
        pytest.param("{{ ..Name }}", "{{ ..Name }}", id="two dots"),
        pytest.param("{{ . Name }}", "{{ . Name }}", id="a blank after the dot"),
        pytest.param("{{- .Name -}}", "{{ - .Name - }}", id="trimming"),
        pytest.param("{{ .Name | quote }}", "{{ .Name | quote }}", id="a function"),
        pytest.param("{{ if .Name }}", "{{ if .Name }}", id="a control structure"),
        pytest.param("{{ range .Nodes }}", "{{ range .Nodes }}", id="a loop"),
        pytest.param("{{/* x */}}", "{{ /* x */ }}", id="a comment"),
        pytest.param("{{ .Name }", "{{ .Name } }}", id="closed by half"),
        pytest.param("{{ .Name", "{{ .Name }}", id="not closed"),
        pytest.param("{{}}", "{{  }}", id="nothing"),
        pytest.param("{{{ .Name }}}", "{{ { .Name }}", id="three braces"),
        pytest.param("{{ .Name {{ .Name }}", "{{ .Name {{ .Name }}", id="one in another"),
    ],
)
def test_whatever_else_is_in_braces_is_refused_with_its_line(written: str, shown: str) -> None:
    known = ", ".join(f"{{{{ .{name} }}}}" for name in PLACEHOLDERS)

    assert (
        complaint(f"{HEAD}# first\nimage: {written}\nx: y")
        == f"line 4: {shown} is not one of {known}; there is no template language"
    )


def test_a_placeholder_ends_on_its_line() -> None:
    assert complaint("a: {{ .Name\n}}\nb: {{ .Name }}").startswith("line 1: {{ .Name }} is not one of")


def test_the_first_of_several_is_named_and_a_long_one_is_cut() -> None:
    assert complaint("a: {{ .A }}\nb: {{ .B }}").startswith("line 1: {{ .A }}")
    assert f"line 1: {{{{ {'x' * 40} }}}} is" in complaint("{{ " + "x" * 500 + " }}")


def test_single_braces_are_yaml() -> None:
    assert image("{a: {b: c}}") == {"a": {"b": "c"}}


def test_sizes_are_placed_only_if_the_text_says_where() -> None:
    assert read_text(TEMPLATE_TEXT).places_sizes
    assert not read_text(SMALL).places_sizes
    assert not read_text(SMALL.replace("IMAGE", "'{{ .GoMemLimit }} {{ .Name }}'")).places_sizes
    assert not read_inline(template()).places_sizes


# Values cannot change what the text means


@pytest.mark.parametrize(
    "value",
    ["true", "1.5", "0x10", "null", "~", "", "x: y", "[a, b]", "{a: b}", "# x", "'", '"', "a\nb: c", "- x", "&a", "*a"],
)
@pytest.mark.parametrize("written", ["{{ .NodeGroupLabel }}", "'{{ .NodeGroupLabel }}'", '"{{ .NodeGroupLabel }}"'])
def test_a_value_is_a_string_whatever_it_looks_like(value: str, written: str) -> None:
    assert image(written, NodeGroupLabel=value) == value


@given(st.text())
def test_a_value_changes_nothing_but_its_place(value: str) -> None:
    before, after = rendered(TEMPLATE_TEXT, NodeGroupLabel="x"), rendered(TEMPLATE_TEXT, NodeGroupLabel=value)

    assert after["spec"]["template"]["metadata"]["labels"].pop("group") == value
    before["spec"]["template"]["metadata"]["labels"].pop("group")
    assert after == before


@pytest.mark.parametrize("value", ["{{ .Name }}", "METAHOOKSx0x", "\\1", "\\g<0>"])
def test_a_value_is_not_read_again(value: str) -> None:
    assert image("{{ .NodeGroupLabel }}", NodeGroupLabel=value) == value


def test_rendering_leaves_the_template_as_it_is() -> None:
    read = read_text(TEMPLATE_TEXT)
    first = read.render(VALUES)
    first["spec"]["template"]["spec"]["containers"].clear()

    assert read.render(VALUES)["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize("word", ["METAHOOKSx0x", "METAHOOKSx9x", '"METAHOOKS\\x780x"'])
def test_a_word_that_looks_like_our_own_marks_breaks_nothing(word: str) -> None:
    assert image(word).startswith("METAHOOKSx")


# What a text must be


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "holds 0 documents; give one DaemonSet", id="empty"),
        pytest.param("---\n---\n", "holds 0 documents; give one DaemonSet", id="empty documents"),
        pytest.param("# only this", "holds 0 documents; give one DaemonSet", id="a comment"),
        pytest.param(f"{SMALL}---\n{SMALL}", "holds 2 documents; give one DaemonSet", id="several"),
        pytest.param("kind: DaemonSet\napiVersion: extensions/v1beta1", "is not a DaemonSet of apps/v1", id="old"),
        pytest.param("kind: Pod\napiVersion: v1", "is not a DaemonSet of apps/v1", id="another kind"),
        pytest.param("{}", "is not a DaemonSet of apps/v1", id="an empty object"),
        pytest.param(HEAD, "spec: is missing or empty", id="no spec"),
        pytest.param(f"{HEAD}spec: 5", "spec: has the wrong type", id="a spec that is a number"),
        pytest.param(f"{HEAD}spec: {{template: []}}", "spec.template: is missing or empty", id="an empty list"),
        pytest.param(f"{HEAD}spec: {{template: {{spec: [1]}}}}", "spec.template.spec: has the wrong type", id="a list"),
        pytest.param(
            f"{HEAD}spec: {{template: {{spec: {{containers: []}}}}}}",
            "spec.template.spec.containers: is missing or empty",
            id="no container",
        ),
        pytest.param(
            f"{HEAD}spec: {{template: {{spec: {{containers: [1]}}}}}}",
            "spec.template.spec.containers[0]: has no name",
            id="a container that is a number",
        ),
        pytest.param(f"{SMALL}metadata: x", "metadata: has the wrong type", id="metadata that is a text"),
        pytest.param("x" * (LARGEST_TEXT + 1), "longer than 128 KiB", id="too long"),
    ],
)
def test_says_what_a_text_must_be(text: str, said: str) -> None:
    assert complaint(text) == said


@pytest.mark.parametrize("text", ["just words", "[a]", "5"])
def test_a_document_that_is_no_object_is_refused(text: str) -> None:
    assert "give one DaemonSet" in complaint(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{HEAD}spec: [", "line 4"),
        (f"{HEAD}  spec: x", "line 3"),
        ("a: b: c", "line 1"),
        (f"{HEAD}a: *x", "line 3"),
        ("\ta: b", "line 1"),
    ],
)
def test_yaml_that_cannot_be_read_is_named_with_its_line(text: str, line: str) -> None:
    said = complaint(text)

    assert said.startswith("neither YAML nor JSON: ")
    assert line in said
    assert "METAHOOKS" not in said
    assert "\n" not in said


def test_empty_documents_beside_the_one_are_fine() -> None:
    assert rendered(f"---\n{SMALL}---\n")["kind"] == "DaemonSet"


def test_json_is_fine_too() -> None:
    text = compact_json({"apiVersion": "apps/v1", "kind": "DaemonSet", **template(image="{{ .Name }}")})

    assert rendered(text, Name="x") == rendered(yaml.safe_dump(yaml.safe_load(text.replace("{{ .Name }}", "x"))))


def test_dates_stay_text() -> None:
    assert image("2026-01-02") == "2026-01-02"


# Bombs


def laughs() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join([HEAD, *lines])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(laughs(), id="a billion laughs"),
        pytest.param(f"{SMALL}x: {'[' * 600}{']' * 600}", id="deep lists"),
        pytest.param(f"{SMALL}x: {'[' * 100_000}", id="deep lists that do not end"),
        pytest.param(f"{SMALL}x: {'{a: ' * 600}1{'}' * 600}", id="deep objects"),
        pytest.param("- " * 5000 + "x", id="deep blocks"),
        pytest.param(f"{SMALL}x: &x [*x]", id="an anchor inside itself"),
        pytest.param(f"{SMALL}x: &x {{y: *x}}", id="an object inside itself"),
        pytest.param(f"{SMALL}x: [{'a, ' * 30_000}]", id="far too many items"),
        pytest.param(f"{SMALL}x: .nan", id="not a number"),
        pytest.param(f"{SMALL}x: !!python/object/apply:os.system [x]", id="a call"),
        pytest.param(f"{SMALL}x: !!binary aGVsbG8=", id="bytes"),
        pytest.param(f"{SMALL}x: !!set {{a, b}}", id="a set"),
        pytest.param(f"{SMALL}? [a, b]\n: c", id="a key that is a list"),
    ],
)
def test_what_is_no_object_or_far_larger_than_it_looks_is_refused(text: str) -> None:
    assert complaint(text)


@pytest.mark.parametrize("depth", [300, 400, 490, 600, 900, 2000, 100_000])
@pytest.mark.parametrize("comment", ["", "# as YAML\n"])
def test_a_text_that_is_nested_deeply_is_read_or_refused(depth: int, comment: str) -> None:
    """As JSON too, which is read by another way."""
    pod = f'{{"containers":[{{"name":"a"}}],"x":{"[" * depth}1{"]" * depth}}}'
    text = f'{comment}{{"apiVersion":"apps/v1","kind":"DaemonSet","spec":{{"template":{{"spec":{pod}}}}}}}'
    with nullcontext() if depth < 400 else suppress(InvalidTemplate):
        read_text(text).render(VALUES)


@given(st.text(alphabet=st.characters(codec="utf-8")) | st.text(alphabet="{}[]:,.-&*!|>'\"\n a0x#"))
def test_any_text_is_read_or_refused(text: str) -> None:
    for whole in (text, SMALL + text, SMALL.replace("IMAGE", text)):
        with suppress(InvalidTemplate):
            read_text(whole).render(VALUES)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from(["containers", "affinity", "volumes", "labels", "limits", "sources", "a"]), JSON)
)
def test_any_pod_is_read_or_refused(pod: JsonObject) -> None:
    with suppress(InvalidTemplate):
        stored = read_inline({"spec": {"template": {"spec": {"containers": [{"name": "a"}]} | pod}}}).render(VALUES)
        assert tidy(stored, "") == stored


# As Kubernetes stores it


@pytest.mark.parametrize(
    ("written", "stored"),
    [("1000m", "1"), ("1024Mi", "1Gi"), ("0.5", "500m"), (2, "2"), ("1.5Gi", "1536Mi"), ("1e3", "1e3"), (0, "0")],
)
def test_quantities_are_made_canonical(written: Any, stored: str) -> None:
    """Wherever they are: another form would be written at every sync."""
    amounts, kept = {"requests": {"cpu": written}, "limits": {"cpu": written}}, {"cpu": stored}
    found = inline(
        containers=[{"name": "a", "resources": amounts}],
        initContainers=[{"name": "b", "resources": amounts}],
        overhead={"cpu": written},
        volumes=[{"name": "v", "emptyDir": {"sizeLimit": written}}],
    )

    for part in ("containers", "initContainers"):
        assert found[part][0]["resources"] == {"requests": kept, "limits": kept}
    assert found["overhead"] == kept
    assert found["volumes"] == [{"name": "v", "emptyDir": {"sizeLimit": stored}}]


@pytest.mark.parametrize("odd", ["much", "", "1 Gi", True, [], {}])
def test_what_is_no_quantity_is_named(odd: Any) -> None:
    said = refused(volumes=[{"emptyDir": {}}], containers=[{"name": "a", "resources": {"limits": {"memory": odd}}}])

    assert said.startswith("spec.template.spec.containers[0].resources.limits.memory: ")


@pytest.mark.parametrize("word", ["sizeLimit", "example.com/x.sizeLimit", "limits", "requests", "a.overhead"])
def test_a_label_may_have_the_name_of_a_quantity(word: str) -> None:
    """What is inside labels, annotations and node selectors is text alone."""
    given_labels = {word: "large"}
    pod = {"containers": [{"name": "a"}], "nodeSelector": given_labels}
    found = read_inline({"spec": {"template": {"metadata": {"labels": given_labels}, "spec": pod}}}).render(VALUES)

    assert found["spec"]["template"]["metadata"]["labels"] == given_labels
    assert found["spec"]["template"]["spec"]["nodeSelector"] == given_labels


def test_floats_are_refused_where_kubernetes_has_none() -> None:
    """They do not survive a round trip unchanged."""
    assert refused(terminationGracePeriodSeconds=1.5).startswith(
        "spec.template.spec.terminationGracePeriodSeconds: 1.5 is not a whole number"
    )
    assert refused(x=[{"y": [0.5]}]).startswith("spec.template.spec.x[0].y[0]: 0.5 is not a whole number")


def test_what_is_nothing_is_not_stored_and_what_is_empty_on_purpose_is() -> None:
    """As the API server does: an empty object, a false and a zero may mean something else than none."""
    found = inline(
        a=None,
        tolerations=[],
        nodeSelector={},
        volumes=[{"name": "v", "emptyDir": {}, "x": None}, {"name": "h", "hostPath": {"path": "/", "type": ""}}],
        securityContext={"runAsUser": 0, "runAsNonRoot": False},
        hostPID=False,
        automountServiceAccountToken=False,
        terminationGracePeriodSeconds=0,
        schedulerName="",
    )

    assert {key: value for key, value in found.items() if key != "containers"} == {
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/", "type": ""}}],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
    }


@pytest.mark.parametrize("part", ["labels", "annotations"])
@pytest.mark.parametrize("odd", [5, True, ["x"], {"a": "b"}])
def test_labels_and_annotations_hold_text_alone(part: str, odd: Any) -> None:
    given_template = template()
    given_template["spec"]["template"]["metadata"] = {part: {"x": odd}}
    with pytest.raises(InvalidTemplate, match=f"spec.template.metadata.{part}: must hold strings only"):
        read_inline(given_template)


@pytest.mark.parametrize("odd", [5, True, 1.5, ["x"], {"a": "b"}])
def test_env_holds_text_alone(odd: Any) -> None:
    assert refused(containers=[{"name": "a", "env": [{"name": "X", "value": odd}]}]) == (
        'spec.template.spec.containers[0].env: the value of "X" must be a string; put it in quotes'
    )


@pytest.mark.parametrize("odd", ["x", {"A": "b"}, ["x"], [{"value": "x"}], [{"name": 5}]])
def test_env_is_a_list_of_names(odd: Any) -> None:
    assert refused(initContainers=[{"name": "a", "env": odd}]) == (
        "spec.template.spec.initContainers[0].env: is not a list of names and values"
    )


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        ({"containers": [{"name": "a"}, {"name": "a"}]}, 'containers: two items have the name "a"'),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, 'volumes: two items have the name "v"'),
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": 53, "protocol": p} for p in ("TCP", "UDP")]}]},
            'containers[0].ports: two items have the containerPort "53"',
        ),
        (
            {"containers": [{"name": "a", "env": [{"name": "X"}, {"name": "X"}]}]},
            'containers[0].env: two items have the name "X"',
        ),
    ],
)
def test_items_that_are_merged_by_a_key_have_it_once(pod: JsonObject, said: str) -> None:
    """Metacontroller would lose one of the two at the next update."""
    assert refused(**pod) == f"spec.template.spec.{said}, and could not be told apart"


def test_a_template_that_would_not_fit_twice_into_an_object_is_refused() -> None:
    """Its last-applied annotation has all of it once more."""
    assert refused(a="x" * 66_000) == "larger than 64 KiB as JSON"


@pytest.mark.parametrize("odd", ["x", {"limits": "x"}, {"requests": [1]}])
def test_resources_are_maps(odd: Any) -> None:
    assert refused(containers=[{"name": "a", "resources": odd}]) == (
        "spec.template.spec.containers[0].resources: has the wrong type"
    )


def test_projected_volumes_get_the_defaults_of_the_api_server() -> None:
    """Their sources have no key to merge by: what the API server adds would be taken away at every sync."""
    given_sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"serviceAccountToken": {"path": "short", "expirationSeconds": 600}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"downwardAPI": {"items": [{"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
        {"configMap": {"name": "ca"}},
    ]
    found = inline(volumes=[{"name": "v", "projected": {"sources": given_sources}}])

    assert found["volumes"][0]["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"serviceAccountToken": {"path": "short", "expirationSeconds": 600}},
        {
            "downwardAPI": {
                "items": [{"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]
            }
        },
        {"downwardAPI": {"items": [{"path": "cpu", "resourceFieldRef": {"divisor": "0", "resource": "limits.cpu"}}]}},
        {"configMap": {"name": "ca"}},
    ]


def test_what_is_stored_once_stays_as_it_is() -> None:
    stored = rendered(TEMPLATE_TEXT)

    assert tidy(stored, "") == stored
