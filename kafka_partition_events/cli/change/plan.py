"""``kpe change plan``: a plan in words and as JSON."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Final

import typer

from kafka_partition_events.cli.change.session import Session, session
from kafka_partition_events.cli.change.spec import Wanted, check_topic, look_at_cluster, spec_of, view_of
from kafka_partition_events.cli.change.text import document, lasting, subject
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Output, OutputChoice, tell, write_document, write_line
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.cli.services.protocols import SampleRequest
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.plan import (
    GroupOutlook,
    KeyMoves,
    Plan,
    Safety,
    Seen,
    Verdict,
    plan,
)
from kafka_partition_events.control.groups.state import Group
from kafka_partition_events.control.protocol.records import Command
from kafka_partition_events.control.protocol.vocabulary import Kind, Verb
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.routing.fingerprint import Fingerprint, fingerprint

EXIT_BLOCKED: Final = 4
EXIT_CODES: Final = {
    Verdict.SAFE: 0,
    Verdict.EXPOSED: EXIT_DIFFERENT,
    Verdict.WOULD_CAP: EXIT_UNKNOWN,
    Verdict.BLOCKED: EXIT_BLOCKED,
}
_GROUPS_S: Final = 15.0
_SAMPLING_S: Final = 20.0


@with_options
def plan_command(
    context: typer.Context,
    wanted: Wanted,
    *,
    records: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Read the keys of this many of the latest records; 0: none."),
    ] = 2_000,
    output: OutputChoice = None,
    where: ControlOptions,
) -> None:
    """Show what a change would do, before it is requested. Writes nothing.

    \b
    - would the tracker refuse it, and why; would Kafka make a part of it only, because it is too much at once
    - which producers would be capped (KIP-34), by what their leases say of their memory; which have rejected
      such a change before
    - which consumer groups may miss records: those with auto.offset.reset=latest, which can't be seen from
      outside, unless all their members run the rebalance hook or producers wait for them (--gate)
    - how many producers write without the library, at least: no gate holds them (DescribeProducers, which
      needs kafka-python)
    - which part of the keys moves: exact for a hash modulo the partitions, and for rendezvous. How keys are
      placed is found from the latest records; growth alone moves no key that is pinned
    - how long changes of this kind have taken

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change plan -b localhost:9092 --topic orders --to 24 --gate consumers-first --records 20000
    kpe change plan -b localhost:9092 --topic orders --offline 3,5 | jq .verdict

    Exit codes, the gravest that applies: 0 safe; 1 a group may miss records; 3 a producer would be capped, or
    would reject it; 4 blocked, as in the first line. 2 is an error: no such topic, wrong address, no control
    topics, unknown option. Then there is no plan on stdout.
    """  # noqa: D301
    wanted.check()
    terms = wanted.terms
    with session(context, where, output) as at:
        check_topic(wanted.topic, at.where.prefix)
        cluster = look_at_cluster(at)
        spec = spec_of(wanted, cluster, at.desk.ledger.changes, terms)
        found = _groups(at, spec.topic)
        writers = _writers(at, cluster, spec.topic)
        view = view_of(spec, cluster, found, writers)
        groups = None if found is None else [group for group in found.values() if group is not None]
        seen = Seen(cluster=view, groups=groups, keys=_keys(at, spec.topic, records))
        command = Command(change_id="", verb=Verb.REQUEST, actor="", spec=spec)
        planned = plan(command, at.desk.ledger, seen, at.now_ms())
    if at.output is Output.TABLE:
        for line in plan_lines(planned):
            write_line(line)
    else:
        write_document(plan_document(planned), at.output)
    raise typer.Exit(EXIT_CODES[planned.verdict])


def _groups(at: Session, topic: str | None) -> Mapping[str, Group | None] | None:
    if topic is None:
        return None
    try:
        return at.desk.groups(topic, _GROUPS_S)
    except MetadataFetchError as error:
        tell(redacted(one_line(error), at.where.config))
        return None


def _writers(at: Session, cluster: Cluster, topic: str | None) -> int | None:
    info = None if topic is None else cluster.by_topic.get(topic)
    if info is None:
        return None
    led = [partition.tp for partition in info.partitions if partition.online]
    return at.desk.writers(led, at.now_ms())


def _keys(at: Session, topic: str | None, records: int) -> Fingerprint | None:
    """Return how the latest keys were placed; None if there are none, or they can't be read."""
    if topic is None or not records:
        return None
    request = SampleRequest(topic=topic, records=records, timeout=_SAMPLING_S)
    try:
        sample = at.services.sample(at.where.config, request, lambda _line: None)
    except CliError as error:
        tell(f"the topic's keys can't be read: {redacted(one_line(error), at.where.config)}")
        return None
    keyed = [(record.key, record.partition) for record in sample.records if record.key]
    return fingerprint(keyed, sample.partitions) if keyed else None


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
        yield "  groups: no broker could be asked"
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
        yield "  keys: too few to say how they are placed"
    for keys in plan.keys:
        rule = keys.rule or "another rule"
        moves = f"not known: {keys.why}" if keys.moves is None else f"{_percent(keys.moves)} of them move"
        yield f"  keys placed by {rule} ({keys.share:.1%}): {moves}"


def _percent(part: Fraction) -> str:
    return f"{float(part):.1%} ({part})"
