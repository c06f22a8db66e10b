"""What the hook says of a VolumeAutoscaler, beside what the API server says of it: the same table for both."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.metadata import JsonObject
from hooks.volumes.policy import read_policy
from tests.autoscaler_verdicts import VERDICTS, Verdict


@pytest.mark.parametrize("verdict", VERDICTS.values(), ids=VERDICTS.keys())
def test_says_of_a_spec(verdict: Verdict) -> None:
    complaint = read_policy(verdict.spec).complaint

    assert verdict.hook in complaint
    assert bool(complaint) == bool(verdict.hook)


def test_a_spec_that_only_one_of_the_two_refuses_says_why() -> None:
    unexplained = [
        name for name, verdict in VERDICTS.items() if bool(verdict.api) != bool(verdict.hook) and not verdict.differ
    ]
    assert unexplained == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "target",
        "thresholdPercent",
        "maxSize",
        "increasePercent",
        "increaseMinimum",
        "increaseMaximum",
        "pollInterval",
        "cooldownPeriod",
        "inodeThresholdPercent",
        "prometheusURL",
        "mode",
        "resizeBudget",
        "onMetricsLost",
    ]
)
SOMETIMES_RIGHT = st.sampled_from(["10Gi", "-5", "0", "60s", "-1h", "290000h", "1e100", "http://x", 80, 101, 2**70])


@given(st.dictionaries(FIELDS, JSON | SOMETIMES_RIGHT | st.just({"pvcName": "a"})) | JSON)
def test_anything_gives_a_policy_and_at_most_a_complaint(spec: JsonObject | Any) -> None:
    policy = read_policy(spec)

    assert policy.spec.poll_interval.total_seconds() >= 10
    assert policy.complaint or (policy.target and policy.spec.max_size)
    assert "\n" not in policy.complaint
    assert len(policy.complaint) < 1000
