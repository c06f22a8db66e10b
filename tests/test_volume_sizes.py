"""How far a claim grows in one step: exact whole numbers, rounded up to GiB, never above maxSize."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.kube.quantity import format_binary, whole_bytes
from hooks.volumes.policy import GIB, MIB, read_policy

TARGET = {"pvcName": "data-0"}


def next_size(base: str, **spec: Any) -> str | None:
    policy = read_policy({"target": TARGET, "maxSize": "100Ti"} | spec)
    assert policy.complaint == ""
    size = policy.next_size(whole_bytes(base))
    return None if size is None else format_binary(size)


@pytest.mark.parametrize(
    ("base", "spec", "size"),
    [
        pytest.param("10Gi", {}, "12Gi", id="case 1: 20 % by default"),
        pytest.param(
            "10Gi", {"increasePercent": 10, "increaseMinimum": "5Gi"}, "15Gi", id="case 2: at least the minimum"
        ),
        pytest.param("10Gi", {"increasePercent": 50, "maxSize": "12Gi"}, "12Gi", id="clamped at maxSize"),
        pytest.param("2Gi", {"increasePercent": 1}, "3Gi", id="case 4: the minimum is 1Gi if none is given"),
        pytest.param("10Gi", {"increasePercent": 33}, "14Gi", id="case 5: whole GiB, never 14280766259"),
        pytest.param("102297Mi", {"maxSize": "100Gi"}, None, id="case 7: 99.9Gi leaves less than 1Gi below 100Gi"),
        pytest.param("50Mi", {"increaseMinimum": "20Mi", "maxSize": "350Mi"}, "70Mi", id="case 8: MiB below 1Gi"),
        pytest.param(
            "50Mi", {"maxSize": "350Mi"}, "350Mi", id="a small claim with the default minimum goes to its limit"
        ),
        pytest.param("1Ei", {"maxSize": "2Ei"}, "1288490189Gi", id="case 10: exact where floats are not"),
        pytest.param("10Gi", {"increasePercent": 100}, "20Gi", id="case 14: twice as large"),
        pytest.param("100Gi", {"maxSize": "100Gi"}, None, id="case 44: at the limit"),
        pytest.param("100Gi", {"maxSize": "99Gi"}, None, id="above the limit, lowered since"),
        pytest.param("99Gi", {"maxSize": "100Gi"}, "100Gi", id="one GiB below the limit is one step"),
        pytest.param("10Gi", {"maxSize": "11500Mi"}, "11Gi", id="the limit is rounded down to GiB"),
        pytest.param(
            "900Mi", {"increaseMinimum": "10Mi", "maxSize": "1500Mi"}, "1Gi", id="from MiB to GiB below an odd limit"
        ),
        pytest.param("900Mi", {"increaseMinimum": "200Mi"}, "2Gi", id="from 1Gi on in whole GiB"),
        pytest.param("1000Gi", {"increaseMaximum": "50Gi"}, "1050Gi", id="at most increaseMaximum"),
        pytest.param("10Gi", {"increaseMaximum": "1500Mi"}, "11Gi", id="rounding does not exceed increaseMaximum"),
        pytest.param("10Gi", {"increaseMaximum": "100Mi"}, "11Gi", id="but a step is at least one GiB"),
        pytest.param(
            "102297Mi", {"increaseMaximum": "500Mi"}, "100Gi", id="an odd size is evened out by the first step"
        ),
        pytest.param(
            "10G", {"increasePercent": 1, "increaseMinimum": "1Mi"}, "10Gi", id="a decimal size becomes whole GiB"
        ),
    ],
)
def test_grows_to(base: str, spec: dict[str, Any], size: str | None) -> None:
    assert next_size(base, **spec) == size


SIZES = st.integers(min_value=1, max_value=2**62)
STEPS = st.none() | st.integers(min_value=1, max_value=2**50)


@given(base=SIZES, limit=SIZES, percent=st.integers(1, 100), least=STEPS, most=STEPS)
def test_is_larger_never_above_the_limit_and_whole(
    base: int, limit: int, percent: int, least: int | None, most: int | None
) -> None:
    given_steps = {"increaseMinimum": least, "increaseMaximum": max(most, least or 0) if most else None}
    spec = {"target": TARGET, "maxSize": limit, "increasePercent": percent} | given_steps
    policy = read_policy({key: value for key, value in spec.items() if value is not None})
    size = policy.next_size(base)

    if size is None:
        assert limit - base < 2 * GIB or limit < base
        return
    assert base < size <= limit
    assert size % (GIB if size >= GIB else MIB) == 0
    if most is not None:
        assert size - base <= max(most, least or 0, GIB if base + GIB >= GIB else MIB)
