"""What the hook says of a NodeAgentAutoscaler, beside what the API server says of it: the same table for both."""

from typing import Any

import pytest
import yaml
from hypothesis import given as given_any
from hypothesis import strategies as st

from hooks.agents.autoscaler import Autoscaler, read_autoscaler
from hooks.agents.template import InvalidTemplate, Template, read_inline, read_text
from hooks.kube.metadata import JsonObject, name_of
from hooks.manifests import read_objects
from tests.agent_verdicts import CRD, GROUP, PROJECT, USABLE, VERDICTS, Verdict, given

EXAMPLES = sorted((PROJECT / "examples" / "node-agent").glob("*.yaml"))


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_spec(verdict: Verdict) -> None:
    read = read_autoscaler(verdict.name, verdict.spec)

    assert verdict.hook in read.complaint
    assert bool(read.complaint) == bool(verdict.hook)


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_group(verdict: Verdict) -> None:
    """What is wrong with one group is no reason for the others to wait."""
    faults = read_autoscaler(verdict.name, verdict.spec).faults

    assert list(faults) == ([GROUP] if verdict.fault else [])
    assert verdict.fault in faults.get(GROUP, "")


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_template(verdict: Verdict) -> None:
    said = template_problem(read_autoscaler(verdict.name, verdict.spec))

    assert verdict.template in said
    assert bool(said) == bool(verdict.template)


def template_problem(autoscaler: Autoscaler) -> str:
    try:
        read_inline(USABLE["template"] if autoscaler.spec.template is None else autoscaler.spec.template)
    except InvalidTemplate as error:
        return str(error)
    return ""


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_the_api_server_and_the_hook_agree_unless_the_table_says_why(verdict: Verdict) -> None:
    assert (bool(verdict.api) is verdict.is_usable) == bool(verdict.differ)


# Defaults


def schema_of_spec() -> JsonObject:
    crd = yaml.safe_load(CRD.read_text())
    schema: JsonObject = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return schema


def filled_in(value: Any, schema: JsonObject) -> Any:
    """With the defaults of the schema, as the API server stores it."""
    if not isinstance(value, dict):
        return value
    properties: JsonObject = schema.get("properties", {})
    defaults = {key: part["default"] for key, part in properties.items() if "default" in part}
    return {key: filled_in(part, properties.get(key, {})) for key, part in (defaults | value).items()}


def test_what_the_api_server_fills_in_is_what_the_hook_assumes() -> None:
    stored = filled_in(USABLE, schema_of_spec())
    assumed, read = read_autoscaler("agent", USABLE), read_autoscaler("agent", stored)

    assert set(stored) - set(USABLE) == {
        *("nodeGroupLabel", "defaultGroup", "resourcePercentages", "minResources", "maxResources"),
        *("goMemLimitPercent", "emptyGroupGracePeriod", "paused"),
    }
    assert read.bounds(None) == assumed.bounds(None)
    filled = {"resource_percentages", "min_resources", "max_resources", "go_mem_limit_percent"}
    assert read.spec.model_dump(exclude=filled) == assumed.spec.model_dump(exclude=filled)


def test_a_part_of_the_percentages_and_bounds_leaves_the_other_defaults() -> None:
    spec = given(resourcePercentages={"limitCPU": 50}, minResources={"cpu": "1"}, maxResources={"memory": "8Gi"})

    stored = filled_in(spec, schema_of_spec())

    assert stored["resourcePercentages"] == {"requestCPU": 2, "requestMemory": 2, "limitCPU": 50, "limitMemory": 5}
    assert read_autoscaler("agent", stored).bounds(None) == read_autoscaler("agent", spec).bounds(None)


def test_a_template_in_a_config_map_has_the_key_of_the_original() -> None:
    spec = {"templateConfigMap": {"name": "template"}}

    stored = filled_in(spec, schema_of_spec())

    assert stored["templateConfigMap"]["key"] == "daemonset-template.yaml"
    assert read_autoscaler("agent", stored).spec.template_config_map == (
        read_autoscaler("agent", spec).spec.template_config_map
    )


def test_an_override_has_no_defaults_of_its_own() -> None:
    """They would take the place of what is given for all."""
    spec = given(resourcePercentages={"limitCPU": 50}, groups=[{"value": GROUP, "resourcePercentages": {}}])
    groups = schema_of_spec()["properties"]["groups"]["items"]

    assert filled_in(spec["groups"][0], groups) == spec["groups"][0]
    assert read_autoscaler("agent", spec).bounds(GROUP).percentages.limit_cpu == 50


# Examples


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_can_be_used(path: Any) -> None:
    objects = read_objects([path])
    texts = {name_of(found): found["data"] for found in objects if found["kind"] == "ConfigMap"}
    autoscalers = [found for found in objects if found["kind"] == "NodeAgentAutoscaler"]

    assert autoscalers
    for found in autoscalers:
        read = read_autoscaler(name_of(found), found["spec"])
        assert (read.complaint, read.faults) == ("", {})
        assert template_of(read, texts).daemonset["spec"]["template"]["spec"]["containers"]


def template_of(autoscaler: Autoscaler, texts: dict[str, dict[str, str]]) -> Template:
    if where := autoscaler.spec.template_config_map:
        return read_text(texts[where.name][where.key])
    return read_inline(autoscaler.spec.template or {})


# Anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PROPERTIES = schema_of_spec()["properties"]
FIELDS = st.sampled_from(sorted(PROPERTIES))
GROUP_FIELDS = st.sampled_from(sorted(PROPERTIES["groups"]["items"]["properties"]))
SOMETIMES_RIGHT = st.sampled_from(
    [*("2", "4Gi", "1h", "-1s", "Enabled", "a/b", 5, 100, 2.5), {"cpu": "3"}, {"requestCPU": 6}, {"name": "a"}]
)
NAMED = st.sampled_from([{"value": "a"}, {"value": "b"}, {"default": True}])
GROUPS = st.lists(
    st.builds(lambda name, fields: fields | name, NAMED, st.dictionaries(GROUP_FIELDS, JSON | SOMETIMES_RIGHT)),
    max_size=3,
)


@given_any(st.dictionaries(FIELDS, JSON | SOMETIMES_RIGHT | GROUPS) | JSON)
def test_anything_gives_an_autoscaler_and_at_most_complaints(spec: Any) -> None:
    read = read_autoscaler("agent", spec)

    for said in (read.complaint, *read.faults.values()):
        assert "\n" not in said
        assert len(said) < 1000
    assert not read.faults.keys() & read.overrides.keys()
    if not read.complaint:
        for value in (None, *read.overrides):
            bounds = read.bounds(value)
            assert 0 < bounds.least.cpu_milli <= bounds.most.cpu_milli
            assert 0 < bounds.least.memory_bytes <= bounds.most.memory_bytes
