"""What the series of a namespace say about its claims."""

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.volumes.usage import METRICS, Fault, Filesystem, Sample, read_usages

GIB = 2**30
NOW = 1_000_000.0


def series(claim: Any = "data-0", *, age: Any = 0, labels: Any = None, **values: Any) -> list[Sample]:
    all_labels = {"namespace": "db", "persistentvolumeclaim": claim, "node": "n1"} | dict(labels or {})
    named = {metric: {"__name__": f"kubelet_volume_stats_{metric}"} | all_labels for metric in values}
    return [Sample(metric, named[metric], value, NOW - age) for metric, value in values.items()]


def read(*groups: list[Sample]) -> Filesystem | Fault | None:
    return read_usages([sample for group in groups for sample in group], now=NOW).claims.get("data-0")


def percent(*groups: list[Sample]) -> int | None:
    found = read(*groups)
    assert isinstance(found, Filesystem), found
    return found.percent


FULL = {"used_bytes": 9 * GIB, "capacity_bytes": 10 * GIB}


def test_reads_all_that_a_kubelet_tells() -> None:
    found = read(
        series(
            used_bytes=6 * GIB,
            capacity_bytes=10 * GIB,
            available_bytes=3 * GIB,
            inodes=1000,
            inodes_used=250,
            health_status_abnormal=0,
        )
    )

    assert found == Filesystem(10 * GIB, 6 * GIB, 7 * GIB, inodes=1000, inodes_used=250, is_abnormal=False)
    assert (found.percent, found.inode_percent) == (70, 25)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param({"used_bytes": 79.9, "capacity_bytes": 100}, 79, id="case 11: rounded down"),
        pytest.param({"used_bytes": 795, "capacity_bytes": 1000}, 79, id="case 11: 79.5 is not 80"),
        pytest.param({"used_bytes": 800, "capacity_bytes": 1000}, 80, id="case 11: 80 is"),
        pytest.param(
            {"used_bytes": 1200, "capacity_bytes": 1000}, 100, id="case 13: more than there is counts as full"
        ),
        pytest.param({"used_bytes": 10, "capacity_bytes": 100, "available_bytes": 20}, 80, id="from what is available"),
        pytest.param({"capacity_bytes": 100, "available_bytes": 20}, 80, id="what is available is enough"),
        pytest.param(
            {"used_bytes": 50, "capacity_bytes": 100, "available_bytes": 200}, 50, id="available beyond all: used"
        ),
        pytest.param(
            {"used_bytes": 50, "capacity_bytes": 100, "available_bytes": math.nan}, 50, id="available is NaN: used"
        ),
    ],
)
def test_computes_the_percentage(values: dict[str, float], expected: int) -> None:
    assert percent(series(**values)) == expected


def test_takes_the_fullest_of_two_nodes() -> None:
    """Case 16: a pod that moved, or a volume that two nodes mount."""
    one = series(used_bytes=60, capacity_bytes=100)
    two = series(labels={"node": "n2"}, used_bytes=85, capacity_bytes=100)

    assert percent(one, two) == percent(two, one) == 85


def test_never_mixes_the_numbers_of_two_nodes() -> None:
    """The largest use of one by the smallest size of the other would be 90 of 50."""
    one = series(used_bytes=90, capacity_bytes=1000)
    two = series(labels={"node": "n2"}, used_bytes=10, capacity_bytes=50)

    assert percent(one, two) == 20


def test_takes_two_copies_of_prometheus_for_one() -> None:
    """Case 17."""
    copies = [series(labels={"prometheus_replica": replica}, **FULL) for replica in ("a", "b")]

    assert percent(*copies) == 90


@pytest.mark.parametrize(
    ("groups", "fault"),
    [
        pytest.param([series(used_bytes=5)], Fault.NO_METRICS, id="case 20: no capacity"),
        pytest.param([series(capacity_bytes=5)], Fault.NO_METRICS, id="no use"),
        pytest.param([series(inodes=5, inodes_used=5)], Fault.NO_METRICS, id="inodes only"),
        pytest.param([series(used_bytes=5, capacity_bytes=0)], Fault.INVALID_METRICS, id="case 22: capacity 0"),
        pytest.param([series(used_bytes=5, capacity_bytes=math.nan)], Fault.INVALID_METRICS, id="capacity NaN"),
        pytest.param([series(used_bytes=5, capacity_bytes=math.inf)], Fault.INVALID_METRICS, id="capacity infinite"),
        pytest.param([series(used_bytes=5, capacity_bytes=-1)], Fault.INVALID_METRICS, id="capacity below zero"),
        pytest.param([series(used_bytes=math.nan, capacity_bytes=5)], Fault.INVALID_METRICS, id="use NaN"),
        pytest.param(
            [series(capacity_bytes=5, available_bytes=7)], Fault.INVALID_METRICS, id="more available than all"
        ),
        pytest.param([series(age=301, **FULL)], Fault.OLD_METRICS, id="case 25: too old"),
        pytest.param([series(age=-301, **FULL)], Fault.OLD_METRICS, id="from the future"),
        pytest.param(
            [series(labels={"cluster": name}, **FULL) for name in ("a", "b")], Fault.SEVERAL_CLUSTERS, id="two clusters"
        ),
        pytest.param(
            [series(used_bytes=5), series(labels={"node": "n2"}, used_bytes=5, capacity_bytes=0)],
            Fault.INVALID_METRICS,
            id="of two faults the one that says more",
        ),
    ],
)
def test_says_why_series_cannot_be_used(groups: list[list[Sample]], fault: Fault) -> None:
    assert read(*groups) is fault


def test_takes_samples_up_to_five_minutes_old() -> None:
    assert percent(series(age=300, **FULL)) == 90


def test_one_usable_reading_is_enough() -> None:
    assert percent(series(used_bytes=5, capacity_bytes=0), series(labels={"node": "n2"}, **FULL)) == 90


def test_one_cluster_label_is_fine() -> None:
    assert percent(series(labels={"cluster": "a"}, **FULL)) == 90


@pytest.mark.parametrize(
    "inodes",
    [{}, {"inodes": 0, "inodes_used": 0}, {"inodes_used": 5}, {"inodes": math.nan, "inodes_used": 5}],
    ids=["none", "zero", "no total", "total NaN"],
)
def test_missing_inodes_never_block_bytes(inodes: dict[str, float]) -> None:
    found = read(series(**FULL, **inodes))

    assert isinstance(found, Filesystem)
    assert (found.percent, found.inode_percent) == (90, None)


def test_a_reading_without_a_cluster_is_of_another_cluster() -> None:
    assert read(series(**FULL), series(labels={"cluster": "a"}, **FULL)) is Fault.SEVERAL_CLUSTERS


def test_bytes_and_inodes_may_be_fullest_in_different_readings() -> None:
    one = series(used_bytes=9, capacity_bytes=10, inodes=100, inodes_used=1)
    two = series(labels={"node": "n2"}, used_bytes=1, capacity_bytes=10, inodes=100, inodes_used=99)
    found = read(one, two)

    assert isinstance(found, Filesystem)
    assert (found.percent, found.inode_percent) == (90, 99)


def test_one_abnormal_reading_is_abnormal() -> None:
    healthy, sick = (
        series(**FULL),
        series(labels={"node": "n2"}, used_bytes=1, capacity_bytes=10, health_status_abnormal=1),
    )

    found = read(healthy, sick)

    assert isinstance(found, Filesystem)
    assert (found.percent, found.is_abnormal) == (90, True)


def test_tells_claims_apart_and_skips_what_is_no_claim() -> None:
    samples = [*series("a", **FULL), *series("b", used_bytes=1, capacity_bytes=10), Sample("used_bytes", {}, 1, NOW)]

    assert {
        name: found.percent
        for name, found in read_usages(samples, now=NOW).claims.items()
        if isinstance(found, Filesystem)
    } == {"a": 90, "b": 10}


@given(
    st.lists(
        st.builds(
            Sample,
            metric=st.sampled_from(METRICS),
            labels=st.fixed_dictionaries(
                {"persistentvolumeclaim": st.sampled_from(["data-0", "b"])},
                optional={"node": st.sampled_from(["n1", "n2"]), "cluster": st.sampled_from(["c", "d"])},
            ),
            value=st.floats() | st.integers(-5, 2**63).map(float),
            time=st.floats(NOW - 400, NOW + 400),
        ),
        max_size=20,
    ),
    st.randoms(use_true_random=False),
)
def test_any_series_give_a_reading_or_a_fault_whatever_their_order(samples: list[Sample], random: Random) -> None:
    unique = list({(sample.metric, frozenset(sample.labels.items())): sample for sample in samples}.values())
    found = read_usages(unique, now=NOW)
    random.shuffle(unique)

    assert read_usages(unique, now=NOW) == found
    for reading in found.claims.values():
        assert isinstance(reading, Fault) or 0 <= reading.percent <= 100
