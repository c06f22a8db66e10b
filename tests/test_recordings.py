"""What the real Metacontroller sent, and what the hooks answered then.

Node agents: two groups of nodes, of which one was resized and one became empty. Storage: a Node that a pool listed,
then held data alone, then none.
"""

import pytest

from hooks.kube.times import parse_time
from tests.recordings import answer, read, recorded

RECORDED = recorded("node-agent-*", "node-shape-*", "storage-*")


@pytest.mark.parametrize("name", RECORDED)
def test_answers_as_when_it_was_recorded(name: str) -> None:
    """Asked at the second at which it was asked then."""
    recording = read(name)
    assert answer(recording, now=parse_time(recording["at"])) == recording["response"]


def test_the_recordings_hold_the_whole_story() -> None:
    assert len(RECORDED) == 7 + 5
