"""A plan in words and as JSON. Pure."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kafka_partition_events.cli.change_words import document, lasting, subject
from kafka_partition_events.cli.render import counted
from kafka_partition_events.control.plan import GroupOutlook, KeyMoves, Plan, Safety
from kafka_partition_events.control.records import Command
from kafka_partition_events.control.words import Kind, Verb

_LISTED = 20
_SAFETY = {
    Safety.HOOK: "safe: all members begin new partitions at their beginning",
    Safety.GATE: "safe behind the gate: producers wait until it has a position",
    Safety.NOTHING_NEW: "no partition is new to it",
    Safety.ABSENT: "no members: with auto.offset.reset=latest it misses what comes before it is back",
    Safety.EXPOSED: "may miss records if it has auto.offset.reset=latest, which can't be seen from outside",
}


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return a plan as one JSON object."""
    request = Command(change_id="", verb=Verb.REQUEST, actor="", spec=plan.spec)
    refusal, expected = plan.refusal, plan.expected
    return {
        "kind": "change_plan",
        "verdict": plan.verdict.value,
        "spec": document(request)["spec"],
        "refusal": refusal and {"reason": refusal.reason.value, "detail": refusal.detail},
        "producers": plan.producers,
        "without_limit": plan.without_limit,
        "capped": [
            {"instance_id": c.instance_id, "app": c.app, "granted": c.granted, "partial": c.partial}
            for c in plan.capped
        ],
        "rejecting": list(plan.rejecting),
        "uncovered": plan.uncovered,
        "groups": None if plan.groups is None else [_group_document(group) for group in plan.groups],
        "strangers": list(plan.strangers),
        "keys": None if plan.keys is None else [_keys_document(keys) for keys in plan.keys],
        "expected": expected
        and {"changes": expected.changes, "median_s": expected.median_s, "most_s": expected.most_s},
        "unverified": list(plan.unverified),
    }


def _group_document(outlook: GroupOutlook) -> dict[str, Any]:
    group = outlook.group
    return {
        "group": group.group_id,
        "protocol": group.protocol,
        "state": group.state.lower(),
        "members": len(group.members),
        "hooked": outlook.hooked,
        "safety": outlook.safety.value,
    }


def _keys_document(keys: KeyMoves) -> dict[str, Any]:
    moves = keys.moves
    return {
        "rule": keys.rule,
        "share": round(keys.share, 6),
        "moves": None if moves is None else round(float(moves), 6),
        "moves_exactly": None if moves is None else str(moves),
        "why": keys.why,
    }


def plan_lines(plan: Plan) -> Iterator[str]:
    """Return a plan in words, line by line."""
    verdict = plan.verdict.value.replace("_", " ")
    yield f"{subject(plan.spec)}: {verdict}"
    if plan.refusal is not None:
        yield f"  the tracker would refuse it: {plan.refusal.detail} ({plan.refusal.reason})"
    yield from _producer_lines(plan)
    yield from _group_lines(plan)
    yield from _key_lines(plan)
    if plan.expected is None:
        yield "  time: no such change has been finished yet; nothing to learn from"
    else:
        took = f"{lasting(plan.expected.median_s)}, nine of ten at most {lasting(plan.expected.most_s)}"
        yield f"  time: {counted(plan.expected.changes, 'such change')} took {took}"
    for doubt in plan.unverified:
        yield f"  not verified: {doubt}"


def _producer_lines(plan: Plan) -> Iterator[str]:
    yield f"  {counted(plan.producers, 'producer')} with the library, {plan.without_limit:,} without a limit"
    if plan.uncovered:
        yield f"  without the library: at least {counted(plan.uncovered, 'writer')}, which no gate holds"
    for capped in plan.capped[:_LISTED]:
        app = f" ({capped.app})" if capped.app else ""
        fewer = ", or fewer: its lease leaves topics out" if capped.partial else ""
        yield f"  capped: {capped.instance_id}{app} affords {capped.granted} of {plan.spec.to_count}{fewer}"
    if len(plan.capped) > _LISTED:
        yield f"  capped: {len(plan.capped) - _LISTED:,} more"
    for name in plan.rejecting[:_LISTED]:
        yield f"  rejects: {name} has rejected such a change before"
    if len(plan.rejecting) > _LISTED:
        yield f"  rejects: {len(plan.rejecting) - _LISTED:,} more"


def _group_lines(plan: Plan) -> Iterator[str]:
    if plan.spec.topic is None:
        return
    if plan.groups is None:
        yield "  groups: nobody could be asked"
    elif not plan.groups:
        yield "  groups: none reads it or has committed offsets of it"
    for outlook in plan.groups or ():
        group = outlook.group
        members = f"{group.protocol}, {counted(len(group.members), 'member')}, {outlook.hooked} with the hook"
        yield f"  group {group.group_id} ({members}): {_SAFETY[outlook.safety]}"
    for name in plan.strangers:
        yield f"  group {name}: required, and it neither reads the topic nor has offsets of it; see its name"


def _key_lines(plan: Plan) -> Iterator[str]:
    if plan.spec.kind not in {Kind.INCREASE, Kind.DECREASE}:
        return
    if plan.keys is None:
        yield "  keys: none were seen"
        return
    if not plan.keys:
        yield "  keys: too few to tell how they are placed"
    for keys in plan.keys:
        rule = keys.rule or "another rule"
        moves = f"not known: {keys.why}" if keys.moves is None else f"{_percent(keys.moves)} of them move"
        yield f"  keys placed by {rule} ({keys.share:.1%}): {moves}"


def _percent(part: Fraction) -> str:
    return f"{float(part):.1%} ({part})"
