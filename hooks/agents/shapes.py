"""NodeShapes: of each Node what the node agent autoscaler needs to know, in an object that heartbeats do not touch."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from hooks import wire
from hooks.agents.sizes import Amount
from hooks.kube.quantity import InvalidQuantity, milli, whole_bytes

API_VERSION, KIND, RESOURCE = "autoscaling.node-agent.io/v1alpha1", "NodeShape", "nodeshapes"
OS_LABEL = "kubernetes.io/os"
MOST_MILLI, MOST_BYTES = 10**9, 2**60
"""A million cores and an exbibyte: what says more than that says nothing."""


class Allocatable(wire.Model):
    cpu: str = ""
    memory: str = ""


class ShapeSpec(wire.Model):
    labels: dict[str, str] | None = None
    allocatable: Allocatable | None = None
    os: str = ""


class NodeShape(wire.Model, kw_only=True):
    metadata: wire.Metadata
    spec: ShapeSpec = msgspec.field(default_factory=ShapeSpec)

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        return self.spec.labels or {}

    @property
    def allocatable(self) -> Amount | None:
        """None if it is absent, unreadable or out of all proportion: such a node says nothing about sizes."""
        given = self.spec.allocatable
        return read_amount(given.cpu, given.memory) if given else None

    @property
    def runs_linux(self) -> bool:
        """A node that does not say is taken for one: the DaemonSet's own nodeSelector decides."""
        return self.spec.os in ("", "linux")


@lru_cache(maxsize=16384)  # nodes of a type say the same, or nearly
def read_amount(cpu: str, memory: str) -> Amount | None:
    try:
        amount = Amount(milli(cpu), whole_bytes(memory))
    except InvalidQuantity:
        return None
    is_sane = 0 < amount.cpu_milli <= MOST_MILLI and 0 < amount.memory_bytes < MOST_BYTES
    return amount if is_sane else None
