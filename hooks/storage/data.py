"""DRBDResources: data on a node. A label with the node's name lets a Node relate to its own and to few others."""

import re

from hooks import wire
from hooks.kube.metadata import check_label_value
from hooks.kube.names import safety_hash

API_VERSION = "storage.deckhouse.io/v1alpha1"
KIND, RESOURCE = "DRBDResource", "drbdresources"
NODE_LABEL = "storage-nodes.metahooks.io/node"
LONGEST_PART = 54
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


class DataSpec(wire.Model):
    node_name: str = ""


class DrbdResource(wire.Model, kw_only=True):
    metadata: wire.Metadata
    spec: DataSpec | None = None

    @property
    def node(self) -> str:
        return self.spec.node_name if self.spec else ""


def label_for(node: str) -> str:
    """The node's name, or what of it can be part of a label, and a hash.

    To change it takes another NODE_LABEL too: for 20 minutes Nodes would go on asking for the value from before.
    """
    if check_label_value(node) is None:
        return node
    readable = _UNSAFE.sub("-", node)[:LONGEST_PART].strip("-_.")
    return f"{readable}-{safety_hash(node)}" if readable else safety_hash(node)
