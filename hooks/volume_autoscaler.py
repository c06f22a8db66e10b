"""Claims that grow by themselves: a VolumeAutoscaler says which, from when on, and how far.

When the file system of a claim is fuller than the threshold, the claim is asked to grow by a step, through a
VolumeExpansion that the claim's own sync carries out. It never shrinks a claim, never grows one beyond maxSize, waits
between steps, and says of every claim that does not grow why not.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from hooks import wire
from hooks.kube.events import with_earlier
from hooks.kube.metadata import JsonObject, group_key, namespace_of, uid_of
from hooks.volumes import checks, claims, expansions, measures, policy, report
from hooks.volumes.checks import Reason
from hooks.volumes.claims import Claim
from hooks.volumes.expansions import Expansion, Step
from hooks.volumes.observed import LastSample, Observed
from hooks.volumes.policy import Policy
from hooks.volumes.report import Judged, Previous
from hooks.volumes.steps import kept_step, leaving_step, next_step
from hooks.volumes.usage import Fault, Filesystem, Question, Unavailable, Usages

STORAGE_API = "storage.k8s.io/v1"
CONTROLLER_UID = "controller-uid"
"""The label that Metacontroller puts on the children of a parent."""


class ParentMetadata(wire.Metadata):
    generation: int = 0


class Parent(wire.Model, kw_only=True):
    metadata: ParentMetadata
    spec: Any = None
    status: Any = None


class StorageClass(wire.Model):
    allow_volume_expansion: bool | None = None


class Related(wire.Model):
    claims: dict[str, Claim] | None = msgspec.field(default=None, name=group_key(claims.API_VERSION, claims.KIND))
    classes: dict[str, StorageClass] | None = msgspec.field(default=None, name=group_key(STORAGE_API, "StorageClass"))
    rivals: dict[str, Expansion] | None = msgspec.field(
        default=None, name=group_key(expansions.API_VERSION, expansions.KIND)
    )


class Children(wire.Model):
    expansions: dict[str, Expansion] | None = msgspec.field(
        default=None, name=group_key(expansions.API_VERSION, expansions.KIND)
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
    policy: Policy
    previous: Previous
    now: datetime
    claims: Sequence[Claim]
    steps: Mapping[str, Step]  # by claim name, as they were last written
    uids: Mapping[str, str]  # of the expansions by claim name, also of those that are being deleted
    retired: Step

    @property
    def name(self) -> str:
        return self.request.parent.metadata.name

    @property
    def namespace(self) -> str:
        return self.request.parent.metadata.namespace

    @property
    def owner(self) -> Mapping[str, str]:
        """The labels of metrics."""
        return {"namespace": self.namespace, "volumeautoscaler": self.name}

    @property
    def keeps_steps(self) -> bool:
        """Whether the expansions stay as they are, whatever was found out."""
        return not self.policy.applies or bool(self.policy.complaint)

    def step_for(self, claim: Claim) -> Step | None:
        """None too if the step was for a claim of this name that is gone."""
        step = self.steps.get(claim.name)
        return step if step and step.claim_uid == claim.uid else None


def customize(request: wire.CustomizeRequest) -> wire.Outcome:
    """The claims by name or selector, all StorageClasses, and what other VolumeAutoscalers want of the same claims."""
    namespace = namespace_of(request.parent)
    target = policy.read_policy(request.parent.get("spec")).target
    foreign = {"key": CONTROLLER_UID, "operator": "NotIn", "values": [uid_of(request.parent)]}
    rules = [
        wire.RelatedRule(api_version=STORAGE_API, resource="storageclasses"),
        wire.RelatedRule(
            api_version=expansions.API_VERSION,
            resource=expansions.RESOURCE,
            namespace=namespace,
            label_selector={"matchExpressions": [foreign]},
        ),
    ]
    if target:
        selected = wire.RelatedRule(
            api_version=claims.API_VERSION,
            resource=claims.RESOURCE,
            namespace=namespace,
            names=[target.name] if target.name else (),
            label_selector=None if target.name else target.selector_text,
        )
        rules.insert(0, selected)
    return wire.Outcome(response=wire.CustomizeResponse(rules))


def question(request: SyncRequest, *, now: datetime) -> Question | None:
    """What to ask before `sync` can decide; None if it is not time to look, or there is nothing to look at."""
    situation = assess(request, now)
    if not situation.claims or not is_due(situation):
        return None
    spec = situation.policy.spec
    return Question(situation.namespace, spec.prometheus_url, spec.poll_interval.total_seconds())


def sync(request: SyncRequest, *, now: datetime, usage: Usages | Unavailable | None = None) -> wire.Outcome:
    check_wired(request)
    situation = assess(request, now)
    if not is_due(situation):
        return rest(situation)
    judged = [Judged(observed, checks.decide(observed)) for observed in observe(situation, usage)]
    return answer(situation, judged)


def check_wired(request: SyncRequest) -> None:
    """A kind that is absent is not one without objects: to go on would drop what it should keep."""
    related, children = request.related, request.children
    wired: dict[str, object] = {
        "related StorageClasses": related.classes,
        "related VolumeExpansions": related.rivals,
        "children VolumeExpansions": children.expansions,
    }
    if policy.read_policy(request.parent.spec).target:
        wired["related PersistentVolumeClaims"] = related.claims
    if missing := sorted(what for what, objects in wired.items() if objects is None):
        raise wire.RetryLater(f"the request has no {missing[0]}, not even an empty map of them", seconds=60)


def assess(request: SyncRequest, now: datetime) -> Situation:
    read = policy.read_policy(request.parent.spec)
    own = [(expansion, expansion.written) for _, expansion in sorted((request.children.expansions or {}).items())]
    written = [step for expansion, step in own if not expansion.is_deleting]
    return Situation(
        request=request,
        policy=read,
        previous=Previous.of(request.parent.status),
        now=now,
        claims=select(request, read),
        steps={step.claim_name: step for step in written if step.claim_name},
        uids={step.claim_name: expansion.metadata.uid for expansion, step in own},
        retired=next((step for step in written if not step.claim_name), Step()),
    )


def select(request: SyncRequest, read: Policy) -> Sequence[Claim]:
    namespace = request.parent.metadata.namespace
    if read.target is None:
        return []
    found = [claim for claim in (request.related.claims or {}).values() if claim.metadata.namespace == namespace]
    chosen = [claim for claim in found if read.target.matches(claim.name, claim.metadata.labels or {})]
    return sorted(chosen, key=lambda claim: claim.name)


def is_due(situation: Situation) -> bool:
    """Whether to look at the usage now. Extra syncs cost no query: they get the answer of the last poll."""
    metadata, last = situation.request.parent.metadata, situation.previous.last_poll
    if metadata.deletion_timestamp:
        return False
    if last is None or not last <= situation.now < last + situation.policy.spec.poll_interval:
        return True
    if situation.previous.status.get("observedGeneration") != metadata.generation:
        return True
    if any(entry.get("reason") == Reason.SELECTED for entry in situation.previous.entries.values()):
        return True
    # A claim that has just appeared; one that is being deleted gets no expansion any more.
    unknown = (claim for claim in situation.claims if not claim.is_deleting and not situation.step_for(claim))
    return not situation.keeps_steps and any(unknown)


def rest(situation: Situation) -> wire.Outcome:
    """The same answer as at the last poll, until it is time for the next."""
    last = min(situation.previous.last_poll or situation.now, situation.now)
    until = last + situation.policy.spec.poll_interval - situation.now
    status = {key: value for key, value in situation.previous.status.items() if key != "observedGeneration"}
    if status:  # which may be an older one than is there by now: at least it must not count less
        status["totalScaleEvents"] = max(situation.previous.total, total(situation, situation.steps, situation.retired))
    children = [*as_written(situation), *(situation.request.children.events or {}).values()]
    response = wire.CompositeResponse(
        status=status, children=children, resync_after_seconds=max(1, math.ceil(until.total_seconds()))
    )
    return wire.Outcome(response=response)


def observe(situation: Situation, usage: Usages | Unavailable | None) -> Iterator[Observed]:
    classes = situation.request.related.classes or {}
    rivals = rivals_by_claim(situation)
    known = usage.claims if isinstance(usage, Usages) else {}
    since = situation.previous.last_poll
    watched_since = claims.time_of(situation.request.parent.metadata.creation_timestamp)
    for claim in situation.claims:
        step = situation.step_for(claim)
        is_same = step is not None or situation.keeps_steps
        of_class = classes.get(claim.storage_class)
        found = usage if isinstance(usage, Unavailable) else known.get(claim.name)
        yield Observed(
            claim=claim,
            policy=situation.policy,
            now=situation.now,
            step=step,
            rivals=rivals.get(claim.name, ()),
            is_expandable=bool(of_class.allow_volume_expansion) if of_class else None,
            filesystem=found,
            has_others=len(known) > (claim.name in known),
            last_sample=lost_sample(situation, claim, found) if is_same else None,
            was_listed=situation.previous.knows(claim.name),
            before=situation.previous.reason(claim.name),
            since=since,
            watched_since=watched_since,
        )


def lost_sample(
    situation: Situation, claim: Claim, found: Filesystem | Fault | Unavailable | None
) -> LastSample | None:
    return None if isinstance(found, Filesystem) else situation.previous.last_sample(claim.name, claim.uid)


def rivals_by_claim(situation: Situation) -> Mapping[str, Sequence[str]]:
    """Who else wants a claim. Mode Observe wants nothing, so it has no rivals, unless it still holds an expansion."""
    found: dict[str, list[str]] = {}
    for key, rival in sorted((situation.request.related.rivals or {}).items()):
        claim = rival.spec.claim_name
        if claim and not rival.is_deleting and (situation.policy.applies or claim in situation.steps):
            found.setdefault(claim, []).append(rival.autoscaler or f"VolumeExpansion {key.rpartition('/')[2]}")
    return found


# The answer


def answer(situation: Situation, judged: Sequence[Judged]) -> wire.Outcome:
    steps, retired = next_steps(situation, judged)
    spec = situation.policy.spec
    n_steps = total(situation, steps, retired)
    status = report.status(situation.policy, judged, situation.previous, total=n_steps, now=situation.now)
    response = wire.CompositeResponse(
        status=status,
        children=[*children(situation, steps, retired), *events(situation, judged, status)],
        resync_after_seconds=math.ceil(spec.poll_interval.total_seconds()),
    )
    return wire.Outcome(
        response=response,
        decisions=[*decisions(situation, judged, status)],
        measurements=[*measures.counts(situation.owner, situation.policy, judged, situation.previous)],
        gauges=measures.gauges(situation.owner, situation.policy, judged),
    )


def next_steps(situation: Situation, judged: Sequence[Judged]) -> tuple[Mapping[str, Step], Step]:
    """The expansions to have, and the record of those that are no longer needed."""
    if situation.keeps_steps:
        taken_back = {
            item.name: kept_step(item.observed, item.verdict, item.observed.step)
            for item in judged
            if item.observed.step
        }
        return {**situation.steps, **taken_back}, situation.retired
    wanted = [item for item in judged if not item.observed.claim.is_deleting or item.name in situation.steps]
    steps = {item.name: next_step(item.observed, item.verdict, situation.steps.get(item.name)) for item in wanted}
    unwanted = {name: step for name, step in situation.steps.items() if name not in steps}
    leaving = {name: step for name, step in unwanted.items() if not is_recorded(situation, step)}
    steps |= {name: leaving_step(step) for name, step in leaving.items()}
    return steps, retire(situation, {situation.uids[name]: step.count for name, step in leaving.items()})


def is_recorded(situation: Situation, step: Step) -> bool:
    """Whether its expansion can go: the record, as it is seen and not only as it was sent, holds what it counted."""
    return step.count <= situation.retired.leaving.get(situation.uids[step.claim_name], 0)


def retire(situation: Situation, leaving: Mapping[str, int]) -> Step:
    """The record: it holds the counts of expansions that go by their UIDs, and adds them up when they are gone.

    Record and expansion are two objects, and the write of either may be dropped: by the UID nothing counts twice.
    """
    held = dict(islice({**situation.retired.leaving, **leaving}.items(), expansions.MOST_LEAVING))
    seen = set(situation.uids.values())
    gone = sum(count for uid, count in held.items() if uid not in seen)
    return Step(
        reason=expansions.RETIRED,
        message="steps of claims that are gone or no longer selected",
        count=situation.retired.count + gone,
        leaving={uid: count for uid, count in held.items() if uid in seen},
    )


def total(situation: Situation, steps: Mapping[str, Step], retired: Step) -> int:
    """Each expansion once: where the record holds its count too, the larger of the two."""
    counts = Counter({situation.uids.get(name, name): step.count for name, step in steps.items()})
    return retired.count + (counts | Counter(retired.leaving)).total()


def children(situation: Situation, steps: Mapping[str, Step], retired: Step) -> Iterator[JsonObject]:
    for claim, step in sorted(steps.items()):
        yield expansions.child(expansions.name_for(situation.name, claim), step)
    if retired.count or retired.leaving:
        yield expansions.child(expansions.retired_name(situation.name), retired)


def as_written(situation: Situation) -> Iterator[JsonObject]:
    return children(situation, situation.steps, situation.retired)


def events(situation: Situation, judged: Sequence[Judged], status: JsonObject) -> Sequence[JsonObject]:
    """Earlier Events as they are, and new ones; none if the manifest lists none."""
    if not situation.request.controller.manages("v1", "events"):
        return ()
    about = report.autoscaler_ref(situation.name, situation.namespace, situation.request.parent.metadata.uid)
    news = report.events(about, judged, situation.previous, status, situation.now)
    return with_earlier(situation.request.children.events, news)


def decisions(situation: Situation, judged: Sequence[Judged], status: JsonObject) -> Iterator[wire.Decision]:
    ready = report.ready(status)
    autoscaler = wire.ObjectRef(policy.KIND, situation.name, situation.namespace)
    message = f"{autoscaler}: {ready['message']}" if situation.policy.complaint else ready["message"]
    yield wire.Decision(reason=ready["reason"], message=message, object=autoscaler, changes=False, field="status")
    for item in judged:
        if item.verdict.reason is not Reason.INVALID_SPEC:
            yield wire.Decision(
                reason=item.verdict.reason,
                message=item.verdict.message,
                object=wire.ObjectRef(claims.KIND, item.name, situation.namespace),
                changes=item.verdict.is_step,
            )
