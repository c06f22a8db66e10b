"""What one sync of a NodeAgentAutoscaler starts from: the request, and which DaemonSet is for which group of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from hooks import wire
from hooks.agents import daemonsets, shapes
from hooks.agents.autoscaler import Autoscaler
from hooks.agents.daemonsets import Running
from hooks.agents.groups import Group, group_nodes, name_for, plain_name
from hooks.agents.report import Previous
from hooks.agents.shapes import NodeShape
from hooks.kube.metadata import group_key


class ParentMetadata(wire.Metadata):
    generation: int = 0


class Parent(wire.Model, kw_only=True):
    metadata: ParentMetadata
    spec: Any = None
    status: Any = None


class ConfigMap(wire.Model):
    data: dict[str, str] | None = None


class Owner(wire.Model):
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class NeighbourMetadata(wire.Metadata):
    owner_references: list[Owner] | None = None


class Neighbour(wire.Model, kw_only=True):
    """A DaemonSet of the namespace, whoever made it."""

    metadata: NeighbourMetadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def group(self) -> str | None:
        return (self.metadata.labels or {}).get(daemonsets.NODE_GROUP)

    @property
    def owner(self) -> Owner | None:
        return next((owner for owner in self.metadata.owner_references or [] if owner.controller), None)


class Related(wire.Model):
    shapes: dict[str, NodeShape] | None = msgspec.field(default=None, name=group_key(shapes.API_VERSION, shapes.KIND))
    daemonsets: dict[str, Neighbour] | None = msgspec.field(
        default=None, name=group_key(daemonsets.API_VERSION, daemonsets.KIND)
    )
    config_maps: dict[str, ConfigMap] | None = msgspec.field(default=None, name=group_key("v1", "ConfigMap"))


class Children(wire.Model):
    daemonsets: wire.Objects | None = msgspec.field(
        default=None, name=group_key(daemonsets.API_VERSION, daemonsets.KIND)
    )
    events: wire.Objects | None = msgspec.field(default=None, name=group_key("v1", "Event"))


class SyncRequest(wire.Model, kw_only=True):
    controller: wire.Controller = msgspec.field(default_factory=wire.Controller)
    parent: Parent
    children: Children = msgspec.field(default_factory=Children)
    related: Related = msgspec.field(default_factory=Related)


@dataclass(frozen=True)
class Situation:
    """What one sync starts from."""

    request: SyncRequest
    autoscaler: Autoscaler
    now: datetime

    @property
    def name(self) -> str:
        return self.request.parent.metadata.name

    @property
    def namespace(self) -> str:
        return self.request.parent.metadata.namespace

    @cached_property
    def previous(self) -> Previous:
        return Previous.of(self.request.parent.status, self.request.parent.metadata.generation)

    @cached_property
    def nodes(self) -> Sequence[NodeShape]:
        """Those that count."""
        selector = self.autoscaler.selector
        found = (self.request.related.shapes or {}).items()
        return [shape for _, shape in sorted(found) if shape.runs_linux and selector.matches(shape.labels)]

    @cached_property
    def groups(self) -> Mapping[str | None, Group]:
        groups = group_nodes(self.nodes, self.autoscaler.spec.node_group_label)
        return {
            value: group for value, group in groups.items() if value is not None or self.autoscaler.has_default_group
        }

    @cached_property
    def without_group(self) -> Sequence[str]:
        """Names of nodes that have no group, and so no agent."""
        label = self.autoscaler.spec.node_group_label
        if self.autoscaler.has_default_group:
            return []
        return [shape.name for shape in self.nodes if label not in shape.labels]

    @cached_property
    def children(self) -> Sequence[Running]:
        return [Running(child) for _, child in sorted((self.request.children.daemonsets or {}).items())]

    @cached_property
    def running(self) -> Mapping[str | None, Running]:
        """By group: the one that is for it, else the one that has its name and is for none that there is now."""
        found: dict[str | None, Running] = {}
        for child in self.children:
            rival = found.get(child.group)
            if self.is_current(child) and (rival is None or self._rank(child) > self._rank(rival)):
                found[child.group] = child
        claimed = {child.name for child in found.values()}
        others = {child.name: child for child in self.children if child.name not in claimed}
        for value in self.groups.keys() - found.keys():
            plain = others.get(plain_name(self.name, value))
            namesake = others.get(name_for(self.name, value)) or (plain if plain and plain.group == value else None)
            if namesake:
                found[value] = namesake
        return found

    def _rank(self, child: Running) -> tuple[bool, bool]:
        return not child.is_deleting, child.name == name_for(self.name, child.group)

    def is_told(self, child: Running) -> bool:
        """Whether anybody can tell which group it is for."""
        return child.group is not None or child.is_ours or child.name == name_for(self.name, None)

    def is_current(self, child: Running) -> bool:
        """Whether it is for a group by the label that is used now."""
        return self.is_told(child) and child.grouped_by in ("", self.autoscaler.spec.node_group_label)

    def group_of(self, node: NodeShape) -> str | None:
        return node.labels.get(self.autoscaler.spec.node_group_label)

    def served_by(self, child: Running) -> Sequence[NodeShape]:
        """The nodes that a DaemonSet for another label is for."""
        label, value = child.grouped_by, child.group
        return [node for node in self.nodes if node.labels.get(label) == value]

    @cached_property
    def neighbours(self) -> Mapping[str, Neighbour]:
        """All DaemonSets of the namespace by name, ours too."""
        own = {child.name: Neighbour(metadata=NeighbourMetadata(child.name)) for child in self.children}
        return own | {other.name: other for other in (self.request.related.daemonsets or {}).values()}
