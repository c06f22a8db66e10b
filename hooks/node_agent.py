"""NodeAgentAutoscaler -> one DaemonSet for each group of nodes, with requests and limits that fit these nodes.

Nodes are known through their NodeShapes. Whatever is in doubt, the DaemonSets that run are kept as they are: an answer
without one deletes it, and with it the agent on every node of its group.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hooks import wire
from hooks.agents import daemonsets, report, shapes
from hooks.agents.autoscaler import KIND, read_autoscaler
from hooks.agents.daemonsets import Plan, Running
from hooks.agents.groups import Group, name_for, plain_name, show
from hooks.agents.report import Fault, Reason, Verdict
from hooks.agents.situation import Neighbour, Situation
from hooks.agents.situation import SyncRequest as SyncRequest  # part of what a hook module offers
from hooks.agents.sizes import Amount, Size, size_for
from hooks.agents.template import InvalidTemplate, Template, read_inline, read_text
from hooks.kube.events import with_earlier
from hooks.kube.metadata import JsonObject, name_of, namespace_of
from hooks.kube.times import format_time

MOST_GROUPS = 200
"""A label that is different on every node would make as many DaemonSets as there are nodes."""
PATIENCE = timedelta(minutes=1)
"""How long a DaemonSet may take to be as it was asked for, before that counts as refused."""


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """All NodeShapes, the DaemonSets of the namespace to see whose names are taken, and the template if it is named."""
    namespace = namespace_of(request.parent)
    spec = read_autoscaler(name_of(request.parent), request.parent.get("spec")).spec
    rules = [
        wire.RelatedRule(api_version=shapes.API_VERSION, resource=shapes.RESOURCE),
        wire.RelatedRule(api_version=daemonsets.API_VERSION, resource=daemonsets.RESOURCE, namespace=namespace),
    ]
    if where := spec.template_config_map:
        rules.append(wire.RelatedRule(api_version="v1", resource="configmaps", namespace=namespace, names=[where.name]))
    return wire.Outcome(response=wire.CustomizeResponse(rules))


def sync(request: SyncRequest, *, now: datetime) -> wire.Outcome:
    situation = Situation(request, read_autoscaler(request.parent.metadata.name, request.parent.spec), now)
    check_wired(situation)
    template = read_template(situation)
    usable = halt(situation) or template
    verdicts = keep_all(situation, usable) if isinstance(usable, Fault) else decide(situation, usable)
    return answer(situation, [*verdicts], template, usable)


def check_wired(situation: Situation) -> None:
    """A kind that is absent is not one without objects: to go on would drop what it should keep."""
    related, children = situation.request.related, situation.request.children
    wired: dict[str, object] = {
        "children DaemonSets": children.daemonsets,
        "related DaemonSets": related.daemonsets,
        "related NodeShapes": related.shapes,
    }
    if situation.autoscaler.spec.template_config_map:
        wired["related ConfigMaps"] = related.config_maps
    if missing := sorted(what for what, objects in wired.items() if objects is None):
        raise wire.RetryLater(f"the request has no {missing[0]}, not even an empty map of them", seconds=60)


def read_template(situation: Situation) -> Template | Fault:
    spec = situation.autoscaler.spec
    try:
        if spec.template is not None:
            return read_inline(spec.template)
        if spec.template_config_map is None:
            return Fault(Reason.TEMPLATE_MISSING, "give template or templateConfigMap")
        where = spec.template_config_map
        maps = situation.request.related.config_maps or {}
        found = maps.get(f"{situation.namespace}/{where.name}") or maps.get(where.name)
        if found is None:
            return Fault(Reason.TEMPLATE_MISSING, f"there is no ConfigMap {where.name}")
        text = (found.data or {}).get(where.key)
        if text is None:
            return Fault(Reason.TEMPLATE_MISSING, f"ConfigMap {where.name} has no key {where.key}")
        return read_text(text)
    except InvalidTemplate as error:
        return Fault(Reason.TEMPLATE_INVALID, f"{_place(situation)}: {error}")


def _place(situation: Situation) -> str:
    where = situation.autoscaler.spec.template_config_map
    return f"ConfigMap {where.name}, {where.key}" if where else "template"


def halt(situation: Situation) -> Fault | None:
    """Why every DaemonSet stays as it is, whatever the template, if so."""
    if situation.autoscaler.complaint:
        return Fault(Reason.INVALID_SPEC, situation.autoscaler.complaint)
    if situation.autoscaler.spec.paused:
        return Fault(Reason.PAUSED, "paused: what runs is kept as it is")
    if not situation.nodes:
        return Fault(Reason.NO_NODES, _no_nodes(situation))
    return None


def _no_nodes(situation: Situation) -> str:
    if situation.request.related.shapes:
        return "nodeSelector chooses no Linux node"
    return "there are no NodeShapes: is the controller node-shape running?"


# Deciding


def keep_all(situation: Situation, fault: Fault) -> Iterator[Verdict]:
    for value in in_order(situation.groups.keys() | situation.running.keys()):
        yield keep(situation.groups.get(value, Group(value)), situation.running.get(value), fault)
    for child in leftovers(situation):
        yield replace(keep(Group(child.group), child, fault), is_leftover=True)


def decide(situation: Situation, template: Template) -> Iterator[Verdict]:
    """One verdict for each group that has nodes or a DaemonSet, and for each DaemonSet that is for no such group."""
    verdicts: dict[str | None, Verdict] = {}
    new = [value for value in in_order(situation.groups) if value not in situation.running]
    surplus = set(new) if len(new) + len(situation.running) > MOST_GROUPS else set[str | None]()
    for value in in_order(situation.groups.keys() | situation.running.keys()):
        group, running = situation.groups.get(value, Group(value)), situation.running.get(value)
        if value in surplus:
            if value in new[: report.MOST_NAMES]:
                verdicts[value] = keep(group, None, too_many_groups(situation))
        elif group.shapes:
            verdicts[value] = with_nodes(situation, template, group, running)
        elif running:
            verdicts[value] = without_nodes(situation, group, running)
    verdicts |= held_back(situation, verdicts)
    yield from verdicts.values()
    served = {value for value, verdict in verdicts.items() if _serves(verdict)}
    for child in leftovers(situation):
        yield replace(leftover(situation, child, verdicts, served), is_leftover=True)


def held_back(situation: Situation, verdicts: Mapping[str | None, Verdict]) -> Mapping[str | None, Verdict]:
    """A DaemonSet for another label is not changed to be for this one while nodes of it would be left without an agent.

    One that is held back may be what the nodes of another one wait for.
    """
    held: dict[str | None, Verdict] = {}
    while True:
        fine = {v for v, verdict in verdicts.items() if v not in held and verdict.running and not verdict.is_failing}
        more = {
            value: keep(verdict.group, verdict.running, superseded(verdict.running, waiting))
            for value, verdict in verdicts.items()
            if value not in held and verdict.running and is_for_another_label(situation, verdict.running)
            if (waiting := [n.name for n in situation.served_by(verdict.running) if situation.group_of(n) not in fine])
        }
        if not more:
            return held
        held |= more


def is_for_another_label(situation: Situation, child: Running) -> bool:
    return child.is_ours and not situation.is_current(child)


def in_order(values: Iterable[str | None]) -> Sequence[str | None]:
    return sorted(values, key=lambda value: (value is not None, value or ""))


def leftovers(situation: Situation) -> Sequence[Running]:
    used = {child.name for child in situation.running.values()}
    return [child for child in situation.children if child.name not in used]


def too_many_groups(situation: Situation) -> Fault:
    label = situation.autoscaler.spec.node_group_label
    message = f"{label} has {len(situation.groups)} values, and there are at most {MOST_GROUPS} groups"
    return Fault(Reason.TOO_MANY_GROUPS, message)


def keep(group: Group, running: Running | None, fault: Fault) -> Verdict:
    child = (running.kept_in_use() if group.shapes else running.kept()) if running else None
    return Verdict(group=group, running=running, reason=fault.reason, message=fault.message, child=child)


def with_nodes(situation: Situation, template: Template, group: Group, running: Running | None) -> Verdict:
    autoscaler, name = situation.autoscaler, running.name if running else name_for(situation.name, group.value)
    if fault := autoscaler.faults.get(group.value):
        return keep(group, running, Fault(Reason.INVALID_SPEC, fault))
    if running is None and (other := in_the_way(situation, group)):
        return keep(group, None, name_taken(situation, other))
    if running and running.is_deleting:
        return keep(group, running, Fault(Reason.DELETING, "somebody deletes it; it is made anew when it is gone"))
    if running and running.applied is None:
        return handed_over(situation, group, running)
    choice = choose_size(situation, group, running)
    if isinstance(choice, Fault):
        return keep(group, running, choice)
    plan = Plan(
        name=name,
        namespace=situation.namespace,
        owner_uid=situation.request.parent.metadata.uid,
        grouped_by=autoscaler.spec.node_group_label,
        group=group.value,
        nodes=autoscaler.selector,
        container=autoscaler.spec.container,
        override=autoscaler.of_group(group.value),
        sized_for=choice.sized_for,
        size=choice.size,
        running=running,
    )
    try:
        wanted = daemonsets.build(template, plan)
    except InvalidTemplate as error:
        return keep(group, running, Fault(Reason.TEMPLATE_INVALID, f"{_place(situation)}: {error}"))
    is_there = running is not None and running.applied == wanted
    reason, message = explain(choice, running, is_there=is_there)
    verdict = Verdict(group=group, running=running, reason=reason, message=message, child=wanted, size=choice.size)
    return verdict if is_there else awaited(situation, verdict)


def awaited(situation: Situation, verdict: Verdict) -> Verdict:
    """The DaemonSet is not yet as it should be. If that lasts, the API server refuses it."""
    since = situation.previous.requested_at(verdict)
    since = min(since or situation.now, situation.now)
    if situation.now - since < PATIENCE:
        return replace(verdict, requested_at=since)
    return replace(verdict, requested_at=since, reason=Reason.FAILED, message=refused(verdict.running))


def handed_over(situation: Situation, group: Group, running: Running) -> Verdict:
    """First what it is made of is written down, then it is built anew: else what the template lacks would stay."""
    verdict = keep(group, running, Fault(Reason.ADOPTED, "handed over: it is brought up to date next"))
    return awaited(situation, verdict)


def in_the_way(situation: Situation, group: Group) -> Neighbour | None:
    """A DaemonSet that has the name of this group, or the name that the original gives it and serves it already."""
    plain = situation.neighbours.get(plain_name(situation.name, group.value))
    if plain is not None and group.value is not None and plain.group == group.value:
        return plain
    return situation.neighbours.get(name_for(situation.name, group.value))


@dataclass(frozen=True)
class Choice:
    """The size for a group, and of which node it is a part."""

    sized_for: Amount
    size: Size
    is_resize: bool = False
    deferred: Fault | None = None
    """Why another size has to wait, if so."""


def choose_size(situation: Situation, group: Group, running: Running | None) -> Choice | Fault:
    """A size stays until another is worth a rollout, and waits for the rollout before it.

    What is remembered is the node, not the size: a change of the percentages or bounds is not a matter of waiting.
    """
    bounds = situation.autoscaler.bounds(group.value)
    found, before = group.allocatable, running.sized_for if running else None
    unknown = Fault(Reason.NO_ALLOCATABLE, "no node of the group says what it can allocate")
    if before is None:
        return Choice(found, size_for(found, bounds)) if found else unknown
    present = Choice(before, size_for(before, bounds))
    if found is None:
        return Choice(before, present.size, deferred=unknown)
    wanted = Choice(found, size_for(found, bounds), is_resize=True)
    if wanted.size.is_close_to(present.size):
        return present
    if running and not running.rollout.is_finished:
        why = f"{wanted.size} waits: {running.rollout.updated} of {running.rollout.wanted} agents are up to date"
        return Choice(before, present.size, deferred=Fault(Reason.RESIZE_DEFERRED, why))
    return wanted


def explain(choice: Choice, running: Running | None, *, is_there: bool) -> tuple[Reason, str]:
    size = str(choice.size)
    if running is None:
        return Reason.CREATED, size
    if choice.is_resize:
        return Reason.RESIZED, f"{size}, for the smallest node as it is now"
    if choice.deferred:
        return choice.deferred.reason, choice.deferred.message
    if not is_there:
        return Reason.UPDATED, size
    if field := running.written_again():
        return Reason.RUNNING, f"{size}; {field} is stored otherwise than the template says, so it is written again"
    return Reason.RUNNING, size


def refused(running: Running | None) -> str:
    what = "is not as it was asked for" if running else "was asked for and is not there"
    return f"the DaemonSet {what}, for a minute or longer: the events of this NodeAgentAutoscaler say why"


def name_taken(situation: Situation, other: Neighbour) -> Fault:
    uid = situation.request.parent.metadata.uid
    handed = f"hand it over with the label {daemonsets.CONTROLLER_UID}={uid}"
    if other.name in {child.name for child in situation.children}:
        advice = f"is for {show(other.group)} already"
    elif other.owner is None:
        advice = f"is not ours: delete it, or {handed}"
    elif other.owner.kind == KIND:
        advice = f"belongs to {KIND} {other.owner.name}: give one of them another name"
    else:
        whose = f"{other.owner.kind} {other.owner.name}"
        advice = f"belongs to {whose}: stop that and delete it with --cascade=orphan, then {handed}"
    return Fault(Reason.NAME_TAKEN, f"DaemonSet {other.name} {advice}")


def without_nodes(situation: Situation, group: Group, running: Running) -> Verdict:
    """Its last node is gone, or has moved to another group; it may come back."""
    if not running.is_ours:
        label = situation.autoscaler.spec.node_group_label
        return keep(group, running, Fault(Reason.UNKNOWN_GROUP, f"it was handed over, and no node has {label} {group}"))
    if group.value is None and not situation.autoscaler.has_default_group:
        return let_go(group, running, "defaultGroup is Disabled")
    since = min(running.empty_since or situation.now, situation.now)
    until = since + situation.autoscaler.spec.empty_group_grace_period
    if situation.now >= until:
        return let_go(group, running, "no node of the group has been there for the grace period")
    message = f"no node is left; the DaemonSet goes after {format_time(until)}"
    return Verdict(
        group=group,
        running=running,
        reason=Reason.EMPTY,
        message=message,
        child=running.kept_empty(since),
        ends_at=until,
    )


def let_go(group: Group, running: Running, why: str) -> Verdict:
    return Verdict(group=group, running=running, reason=Reason.DELETED, message=why, child=None)


def leftover(
    situation: Situation,
    child: Running,
    verdicts: Mapping[str | None, Verdict],
    served: AbstractSet[str | None],
) -> Verdict:
    """A second one for a group, one for a label that is no longer used, or one that nobody can tell."""
    group = Group(child.group)
    if not situation.is_told(child):
        return keep(group, child, Fault(Reason.UNKNOWN_GROUP, f"it has no label {daemonsets.NODE_GROUP}"))
    if situation.is_current(child):
        if child.group not in served:
            return keep(group, child, Fault(Reason.SUPERSEDED, "it stays until the other one for its group is there"))
        return let_go(group, child, f"{verdicts[child.group].daemonset} is for the same group")
    waiting = [node.name for node in situation.served_by(child) if situation.group_of(node) not in served]
    if waiting or not served:
        return keep(group, child, superseded(child, waiting))
    return let_go(group, child, f"nodes are no longer grouped by {child.grouped_by}")


def _serves(verdict: Verdict) -> bool:
    is_there = verdict.running is not None and not verdict.running.is_deleting and not verdict.changes
    return bool(verdict.nodes) and is_there and not verdict.is_failing


def superseded(child: Running, waiting: Sequence[str]) -> Fault:
    who = ", ".join(report.some(waiting)) or "any node"
    return Fault(
        Reason.SUPERSEDED,
        f"it is for {child.grouped_by}, and stays until one for the label that is used now serves {who}",
    )


# The answer


def answer(
    situation: Situation, verdicts: Sequence[Verdict], template: Template | Fault, usable: Template | Fault
) -> wire.Outcome:
    broken = template if isinstance(template, Fault) else None
    status = report.status(
        verdicts,
        situation.previous,
        halt=usable if isinstance(usable, Fault) else None,
        broken_template=broken,
        nodes=len(situation.nodes),
        without_group=situation.without_group,
        label=situation.autoscaler.spec.node_group_label,
        unused=[show(value) for value in in_order(situation.autoscaler.overrides.keys() - situation.groups.keys())],
        now=situation.now,
    )
    response = wire.CompositeResponse(
        status=status,
        children=[*(v.child for v in verdicts if v.child), *events(situation, verdicts, status)],
        resync_after_seconds=resync_after(situation, verdicts),
    )
    owner = {"namespace": situation.namespace, "nodeagentautoscaler": situation.name}
    return wire.Outcome(
        response=response,
        decisions=[*decisions(situation, verdicts, status)],
        measurements=[*report.counts(owner, verdicts, situation.previous, broken, situation.now)],
        gauges=report.gauges(owner, verdicts),
    )


def resync_after(situation: Situation, verdicts: Iterable[Verdict]) -> int:
    """When something is due: the end of a grace period, or a look at what was asked for."""
    waits = [verdict.ends_at - situation.now for verdict in verdicts if verdict.ends_at]
    if any(verdict.requested_at or verdict.reason is Reason.RESIZE_DEFERRED for verdict in verdicts):
        waits.append(PATIENCE)
    return max(1, math.ceil(min(waits).total_seconds())) if waits else 0


def events(situation: Situation, verdicts: Sequence[Verdict], status: JsonObject) -> Sequence[JsonObject]:
    """Earlier Events as they are, and new ones; none if the manifest lists none."""
    if not situation.request.controller.manages("v1", "events"):
        return ()
    about = report.autoscaler_ref(situation.request.parent.metadata)
    news = report.events(about, verdicts, situation.previous, status, situation.now)
    return with_earlier(situation.request.children.events, news)


def decisions(situation: Situation, verdicts: Sequence[Verdict], status: JsonObject) -> Iterator[wire.Decision]:
    ready = report.ready(status)
    autoscaler = wire.ObjectRef(KIND, situation.name, situation.namespace)
    message = f"{autoscaler}: {ready['message']}" if ready["reason"] == wire.INVALID_SPEC else ready["message"]
    yield wire.Decision(reason=ready["reason"], message=message, object=autoscaler, changes=False, field="status")
    for verdict in verdicts:
        if verdict.reason != ready["reason"]:
            name = verdict.daemonset or name_for(situation.name, verdict.group.value)
            yield wire.Decision(
                reason=verdict.reason,
                message=f"{show(verdict.group.value)}: {verdict.message}",
                object=wire.ObjectRef(daemonsets.KIND, name, situation.namespace),
                changes=verdict.changes,
            )
