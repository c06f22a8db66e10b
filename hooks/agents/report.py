"""What people read about a NodeAgentAutoscaler: its status, its conditions, Events about what changed, and metrics.

The status is a report, never a memory: what a later sync needs is written down on the DaemonSets.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from hooks import wire
from hooks.agents import autoscaler
from hooks.agents.daemonsets import Running
from hooks.agents.groups import Group
from hooks.agents.sizes import Size
from hooks.kube.conditions import Status, condition
from hooks.kube.events import event
from hooks.kube.metadata import JsonObject, uid_of
from hooks.kube.times import InvalidTime, format_time, parse_time

READY, TEMPLATE_VALID = "Ready", "TemplateValid"
COMPONENT = "node-agent-autoscaler"
MOST_NAMES = 5
NEWS = timedelta(hours=1)
"""The API server forgets Events after an hour: one about something older would come again and again."""
A_MOMENT = timedelta(minutes=1)
SEEN_SECONDS = 1300
"""Every NodeAgentAutoscaler is synced each ten minutes, by one of several servers."""
CREATED, RESIZED, DELETED, FAILED = "Created", "Resized", "Deleted", "Failed"
"""The reasons of Events."""
GROUPS_FAILING, NODES_WITHOUT_GROUP, MANAGING = "GroupsFailing", "NodesWithoutGroup", "Managing"


class Reason(StrEnum):
    ADOPTED = "Adopted"  # the DaemonSet was handed over
    CREATED = "Created"  # the DaemonSet is new
    DELETED = "Deleted"  # it is no longer needed
    DELETING = "Deleting"  # somebody else deletes it
    EMPTY = "Empty"  # no node is left: it goes after the grace period
    FAILED = "Failed"  # the API server does not take it as it should be
    INVALID_SPEC = wire.INVALID_SPEC
    NAME_TAKEN = "NameTaken"  # somebody else's DaemonSet has that name
    NO_ALLOCATABLE = "NoAllocatable"  # no node of the group says what it can allocate
    NO_NODES = "NoNodes"  # no node is known at all
    PAUSED = "Paused"
    RESIZE_DEFERRED = "ResizeDeferred"  # another size waits for the rollout before it
    RESIZED = "Resized"  # the smallest node is another one now
    RUNNING = "Running"  # as it should be
    SUPERSEDED = "Superseded"  # grouped by a label that is no longer used, and nothing has taken its place yet
    TEMPLATE_INVALID = "TemplateInvalid"
    TEMPLATE_MISSING = "TemplateMissing"
    TOO_MANY_GROUPS = "TooManyGroups"
    UNKNOWN_GROUP = "UnknownGroup"  # the DaemonSet was handed over without the label that says its group
    UPDATED = "Updated"  # what people wrote has changed


FAILING = frozenset(
    {
        Reason.FAILED,
        Reason.INVALID_SPEC,
        Reason.NAME_TAKEN,
        Reason.NO_ALLOCATABLE,
        Reason.SUPERSEDED,
        Reason.TEMPLATE_INVALID,
        Reason.TOO_MANY_GROUPS,
        Reason.UNKNOWN_GROUP,
    }
)
RENDER_ERRORS = frozenset({Reason.TEMPLATE_INVALID, Reason.TEMPLATE_MISSING})


@dataclass(frozen=True)
class Fault:
    """Why a DaemonSet cannot be built at present."""

    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What happens to the DaemonSet of one group, and why."""

    group: Group
    running: Running | None
    reason: Reason
    message: str
    child: JsonObject | None
    """The DaemonSet as it should be; None if there is to be none."""
    size: Size | None = None
    requested_at: datetime | None = None
    """Since when it is not yet as it was asked for."""
    ends_at: datetime | None = None
    is_leftover: bool = False
    """Whether there is another one for the group, or the group is not one of those by the label that is used now."""

    @property
    def nodes(self) -> int:
        return len(self.group.shapes)

    @property
    def daemonset(self) -> str:
        if self.running:
            return self.running.name
        return str(self.child["metadata"]["name"]) if self.child else ""

    @property
    def changes(self) -> bool:
        if self.child is None or self.running is None:
            return self.child is not None or self.running is not None
        return self.child != self.running.applied

    @property
    def is_failing(self) -> bool:
        return self.reason in FAILING


@dataclass(frozen=True)
class Previous:
    """What an earlier sync reported, as far as it can be read."""

    status: JsonObject
    entries: Mapping[tuple[str | None, str], JsonObject]  # by group and DaemonSet
    is_same_spec: bool

    @classmethod
    def of(cls, status: Any, generation: int) -> "Previous":
        usable = status if isinstance(status, dict) else {}
        entries: dict[tuple[str | None, str], JsonObject] = {}
        for entry in _objects(usable.get("nodeGroups")):
            value = entry.get("value")
            if isinstance(value, str | None):
                entries[value, str(entry.get("daemonSet", ""))] = entry
        return cls(usable, entries, usable.get("observedGeneration", 0) == generation)

    @property
    def conditions(self) -> Sequence[JsonObject]:
        return list(_objects(self.status.get("conditions")))

    @property
    def ready_reason(self) -> str:
        return next((str(item.get("reason")) for item in self.conditions if item.get("type") == READY), "")

    def entry(self, verdict: Verdict) -> JsonObject:
        """What was said of the same DaemonSet, or of the group before it had one."""
        value = verdict.group.value
        return self.entries.get((value, verdict.daemonset)) or self.entries.get((value, "")) or {}

    def reason(self, verdict: Verdict) -> str:
        return str(self.entry(verdict).get("reason", ""))

    def requested_at(self, verdict: Verdict) -> datetime | None:
        """Unless something else was asked for then."""
        was_handed_over = self.reason(verdict) == Reason.ADOPTED and verdict.reason is not Reason.ADOPTED
        is_same = self.is_same_spec and not was_handed_over
        return _time(self.entry(verdict).get("requestedAt")) if is_same else None

    def size(self, verdict: Verdict) -> JsonObject:
        """As it was reported, for what is kept as it is."""
        entry = self.entry(verdict)
        sizes = {part: _strings(entry.get(part)) for part in ("requests", "limits")}
        limit = entry.get("goMemLimit")
        return {**sizes, "goMemLimit": limit if isinstance(limit, str) else None}


def _objects(value: Any) -> Iterator[JsonObject]:
    return (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def _strings(value: Any) -> JsonObject | None:
    found = {k: v for k, v in value.items() if isinstance(v, str)} if isinstance(value, dict) else {}
    return found or None


def _time(text: Any) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except InvalidTime:
        return None


# The status


def status(
    verdicts: Sequence[Verdict],
    previous: Previous,
    *,
    halt: Fault | None,
    broken_template: Fault | None,
    nodes: int,
    without_group: Sequence[str],
    label: str,
    unused: Sequence[str],
    now: datetime,
) -> JsonObject:
    is_ready, *why = readiness(verdicts, halt, nodes, without_group, label, unused)
    is_valid, *why_valid = validity(verdicts, broken_template)
    rollouts = [verdict.running.rollout for verdict in verdicts if verdict.running]
    return {
        "groups": sum(bool(verdict.daemonset) for verdict in verdicts),
        "nodes": nodes,
        "agents": sum(rollout.wanted for rollout in rollouts),
        "agentsReady": sum(rollout.ready for rollout in rollouts),
        "conditions": [
            condition(READY, is_ready, *why, now=now, observed=previous.conditions),
            condition(TEMPLATE_VALID, is_valid, *why_valid, now=now, observed=previous.conditions),
        ],
        "nodeGroups": [entry(verdict, previous) for verdict in verdicts if verdict.reason is not Reason.DELETED],
    }


def entry(verdict: Verdict, previous: Previous) -> JsonObject:
    value = verdict.group.value
    return {
        "value": value,
        "isDefault": True if value is None and verdict.reason is not Reason.UNKNOWN_GROUP else None,
        "daemonSet": verdict.daemonset or None,
        "nodes": verdict.nodes,
        "ready": verdict.running.rollout.ready if verdict.running else 0,
        **reported_size(verdict, previous),
        "requestedAt": format_time(verdict.requested_at) if verdict.requested_at else None,
        "reason": str(verdict.reason),
        "message": verdict.message,
    }


def reported_size(verdict: Verdict, previous: Previous) -> JsonObject:
    size = verdict.size
    if size is None:
        return previous.size(verdict)
    return size.resources() | {"goMemLimit": size.go_mem_limit}


def ready(reported: JsonObject) -> JsonObject:
    """The condition Ready of a status."""
    found: JsonObject = next(item for item in reported["conditions"] if item["type"] == READY)
    return found


def readiness(
    verdicts: Sequence[Verdict],
    halt: Fault | None,
    nodes: int,
    without_group: Sequence[str],
    label: str,
    unused: Sequence[str],
) -> tuple[Status, str, str]:
    """The first that holds."""
    failing = [verdict for verdict in verdicts if verdict.is_failing]
    if halt:
        return "False", halt.reason, halt.message
    if failing:
        faults = [f"{v.daemonset if v.is_leftover else v.group}: {v.reason}: {v.message}" for v in failing]
        return "False", GROUPS_FAILING, "; ".join(some(faults))
    if without_group:
        who = ", ".join(some(without_group))
        advice = "set defaultGroup to Enabled, or leave them out by nodeSelector"
        return "False", NODES_WITHOUT_GROUP, f"without the label {label}, and so without an agent: {who}; {advice}"
    hint = f"; no node is in these groups of the spec: {', '.join(some(unused))}" if unused else ""
    return "True", MANAGING, f"nodes: {nodes}, groups: {sum(bool(verdict.nodes) for verdict in verdicts)}{hint}"


def some(names: Sequence[str]) -> Sequence[str]:
    hidden = len(names) - MOST_NAMES
    return [*names[:MOST_NAMES], f"and {hidden} more"] if hidden > 0 else names


def validity(verdicts: Sequence[Verdict], broken: Fault | None) -> tuple[Status, str, str]:
    if broken:
        return "False", broken.reason, broken.message
    if fault := next((verdict for verdict in verdicts if verdict.reason is Reason.TEMPLATE_INVALID), None):
        return "False", fault.reason, fault.message
    return "True", "Valid", "a DaemonSet can be made of it"


# What became of it: as Events, and counted


def news(verdicts: Sequence[Verdict], previous: Previous, now: datetime) -> Iterator[tuple[str, str, Verdict]]:
    """What is done, not what is asked for: the API server may refuse it. Each with the reason of its Event.

    The status may be older than the DaemonSet: the sync that asked for it has perhaps not written its own yet.
    """
    for verdict in verdicts:
        before, running = previous.reason(verdict), verdict.running
        if verdict.reason is Reason.DELETED and running and not running.is_deleting:
            yield DELETED, verdict.message, verdict
        elif verdict.is_failing and before != verdict.reason and verdict.reason is not Reason.SUPERSEDED:
            yield FAILED, f"{verdict.reason}: {verdict.message}", verdict
        elif running is None or verdict.changes or not running.is_ours:
            continue
        elif _is_new(running, before, now):
            yield CREATED, str(verdict.size or ""), verdict
        elif before == Reason.RESIZED or (before == Reason.RUNNING and _is_resized(verdict, previous)):
            yield RESIZED, str(verdict.size or ""), verdict


def _is_new(running: Running, before: str, now: datetime) -> bool:
    """Once refused, it may have been there before: then only a moment ago counts."""
    created = _time(running.object["metadata"].get("creationTimestamp"))
    news = {"": NEWS, str(Reason.CREATED): NEWS, str(Reason.FAILED): A_MOMENT}.get(before)
    return created is not None and news is not None and now - created < news


def _is_resized(verdict: Verdict, previous: Previous) -> bool:
    return previous.is_same_spec and reported_size(verdict, previous) != previous.size(verdict)


def events(
    about: JsonObject, verdicts: Sequence[Verdict], previous: Previous, reported: JsonObject, now: datetime
) -> Iterator[JsonObject]:
    whole = ready(reported)
    for reason, message, verdict in news(verdicts, previous, now):
        if verdict.reason == whole["reason"]:
            continue  # it is the same for all groups, and told once
        whose = f"{verdict.daemonset} for {verdict.group}" if verdict.daemonset else str(verdict.group)
        running = uid_of(verdict.running.object) if verdict.running else ""
        yield _event(about, reason, f"{whose}: {message}", now, [verdict.daemonset, running, message])
    if whole["reason"] in (Reason.INVALID_SPEC, *RENDER_ERRORS) and whole["reason"] != previous.ready_reason:
        yield _event(about, FAILED, f"{whole['reason']}: {whole['message']}", now, [whole["message"]])


def autoscaler_ref(metadata: wire.Metadata) -> JsonObject:
    names = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    return {"apiVersion": autoscaler.API_VERSION, "kind": autoscaler.KIND, "metadata": names}


def _event(about: JsonObject, reason: str, message: str, now: datetime, identity: Sequence[str]) -> JsonObject:
    return event(
        involved=about,
        reason=reason,
        message=message,
        type_="Warning" if reason == FAILED else "Normal",
        component=COMPONENT,
        now=now,
        identity=identity,
    )


def counts(
    owner: Mapping[str, str],
    verdicts: Sequence[Verdict],
    previous: Previous,
    broken_template: Fault | None,
    now: datetime,
) -> Iterator[wire.Measurement]:
    resized = sum(reason == RESIZED for reason, _, _ in news(verdicts, previous, now))
    broken = 1 if broken_template else sum(verdict.reason in RENDER_ERRORS for verdict in verdicts)
    if resized:
        yield wire.Measurement("node_agent_autoscaler_resizes_total", resized, owner)
    if broken:
        yield wire.Measurement("node_agent_autoscaler_render_errors_total", broken, owner)


def gauges(owner: Mapping[str, str], verdicts: Sequence[Verdict]) -> wire.Gauges:
    reasons = Counter(str(verdict.reason) for verdict in verdicts)
    return wire.Gauges(
        source="node-agent/" + "/".join(owner.values()),
        lasts_seconds=SEEN_SECONDS,
        values=[
            *(
                wire.Measurement("node_agent_autoscaler_groups", n, {**owner, "reason": why})
                for why, n in sorted(reasons.items())
            ),
            *(
                wire.Measurement("node_agent_autoscaler_nodes", v.nodes, {**owner, "group": _group(v.group)})
                for v in verdicts
                if v.reason is not Reason.DELETED and not v.is_leftover
            ),
        ],
    )


def _group(group: Group) -> str:
    return "(no label)" if group.value is None else group.value
