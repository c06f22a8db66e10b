"""The admission step: which updates of a claim raise its request, and what the API server is told."""

import base64
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hooks import wire
from hooks.kube.metadata import JsonObject
from hooks.kube.quantity import parse_quantity
from hooks.volume_admission import LONGEST_SIZE, SIZE, TOO_LARGE, AdmissionRequest, AdmissionReview, admit, grown
from hooks.volumes.claims import REQUESTED_AT, REQUESTED_SIZE
from tests.admission_cases import BEFORE, CASES, Case, Claim

COMPONENTS = Path(__file__).resolve().parents[1] / "deploy" / "components"


def review(case: Case) -> AdmissionReview:
    old, operation = (None, "CREATE") if case.old is None else (case.old.body(), "UPDATE")
    request = {"uid": "u-1", "operation": operation, "object": case.sent(), "oldObject": old}
    kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return wire.parse(AdmissionReview, json.dumps(kind | {"request": request}).encode())


def patched(outcome: wire.Outcome) -> str | None:
    """The size that the answer sets."""
    answer = outcome.response.body()
    response = answer["response"]
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert (response["uid"], response["allowed"]) == ("u-1", True)
    if "patch" not in response:
        assert response.keys() == {"uid", "allowed"}
        return None
    assert response["patchType"] == "JSONPatch"
    [operation] = json.loads(base64.b64decode(response["patch"], validate=True))
    assert (operation["op"], operation["path"]) == ("replace", "/spec/resources/requests/storage")
    return str(operation["value"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_a_claim_requests_after_an_update(case: Case) -> None:
    assert (patched(admit(review(case))) or case.new.request) == case.request


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_answer_changes_the_request_only_if_the_claim_grows(case: Case) -> None:
    assert (patched(admit(review(case))) is not None) == case.grows


def test_the_table_holds_enough_of_both() -> None:
    grows = [case.grows for case in CASES.values()]
    assert grows.count(True) >= 25
    assert grows.count(False) >= 35


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "CONNECT", "", "update"])
def test_only_updates_count(operation: str) -> None:
    request = AdmissionRequest(
        uid="u-1", operation=operation, old_object=Claim().body(), object=Claim(size="12Gi").body()
    )
    assert patched(admit(AdmissionReview(request=request))) is None


@pytest.mark.parametrize("field", ["object", "oldObject"])
def test_an_update_without_one_of_its_objects_is_let_through(field: str) -> None:
    request = {"uid": "u-1", "operation": "UPDATE", "object": Claim(size="12Gi").body(), "oldObject": Claim().body()}
    body = json.dumps({"request": request | {field: None}}).encode()
    assert patched(admit(wire.parse(AdmissionReview, body))) is None


POLICY, WEBHOOK = (
    next(yaml.safe_load_all((COMPONENTS / path).read_text()))
    for path in ("admission-policy/policy.yaml", "admission-webhook/webhook.yaml")
)


def conditions(spec: JsonObject) -> dict[str, str]:
    return {condition["name"]: condition["expression"] for condition in spec["matchConditions"]}


def test_the_policy_reads_sizes_as_the_hook_does() -> None:
    expression = conditions(POLICY["spec"])["size-is-larger"]
    assert re.findall(r"matches\('\^(.*?)\$'\)", expression) == [SIZE]
    assert re.findall(r"wanted\.size\(\) <= (\d+)", expression) == [str(LONGEST_SIZE)]
    assert re.findall(r"isLessThan\(quantity\('(.*?)'\)\)", expression) == [TOO_LARGE]


def test_the_policy_and_the_hook_mean_the_same_annotations() -> None:
    said = json.dumps(POLICY) + json.dumps(WEBHOOK)
    assert set(re.findall(r"volume-autoscaler\.io/[a-z-]+", said)) == {REQUESTED_SIZE, REQUESTED_AT}


def test_the_webhook_is_asked_on_the_conditions_of_the_policy() -> None:
    [webhook] = WEBHOOK["webhooks"]
    asked, decided = conditions(webhook), conditions(POLICY["spec"])
    assert asked == {name: decided[name] for name in asked}
    assert decided.keys() - asked.keys() == {"size-is-larger"}


def test_neither_stands_in_the_way_of_an_update() -> None:
    [webhook] = WEBHOOK["webhooks"]
    assert POLICY["spec"]["failurePolicy"] == webhook["failurePolicy"] == "Ignore"
    assert webhook["timeoutSeconds"] <= 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SIZES = st.sampled_from(["10Gi", "12Gi", "1e10", "9Ei", "1000E", "", "Gi", "12GB"]) | st.from_regex(
    SIZE, fullmatch=True
)


def claim_like(sizes: st.SearchStrategy[Any]) -> st.SearchStrategy[JsonObject]:
    """Claims, and what has some of their shape."""
    annotations = st.dictionaries(st.sampled_from([REQUESTED_SIZE, REQUESTED_AT, "a"]), sizes | JSON, max_size=3)
    requests = st.dictionaries(st.sampled_from(["storage", "cpu"]), sizes | JSON, max_size=2)
    resources = st.fixed_dictionaries({}, optional={"requests": requests | JSON})
    return st.fixed_dictionaries(
        {},
        optional={
            "metadata": st.fixed_dictionaries({}, optional={"annotations": annotations | JSON}) | JSON,
            "spec": st.fixed_dictionaries({}, optional={"resources": resources | JSON}) | JSON,
            "status": st.just({"phase": "Bound"}) | JSON,
        },
    )


@given(old=claim_like(SIZES), new=claim_like(SIZES), operation=st.sampled_from(["UPDATE", "CREATE", ""]))
def test_any_objects_are_let_through(old: JsonObject, new: JsonObject, operation: str) -> None:
    request = AdmissionRequest(uid="u-1", operation=operation, object=new, old_object=old)
    size = patched(admit(AdmissionReview(request=request)))
    assert size is None or parse_quantity(size) > parse_quantity(new["spec"]["resources"]["requests"]["storage"])


@given(before=SIZES, after=SIZES, wanted=SIZES)
def test_a_claim_never_becomes_smaller(before: str, after: str, wanted: str) -> None:
    size = grown(Claim(request=before).body(), Claim(request=after, size=wanted).body())
    if size is not None:
        assert parse_quantity(after) < parse_quantity(size) == parse_quantity(wanted) < Decimal(2**63 - 1)


@given(request=SIZES, wanted=SIZES)
def test_what_has_grown_does_not_grow_again(request: str, wanted: str) -> None:
    size = grown(Claim(request=request).body(), Claim(request=request, size=wanted).body())
    if size is not None:
        claim = Claim(request=size, size=wanted)
        assert grown(claim.body(), Claim(request=size, size=wanted, at=BEFORE).body()) is None
