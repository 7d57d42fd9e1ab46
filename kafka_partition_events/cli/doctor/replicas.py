"""``kpe doctor replicas``: what of each topic can be written if a broker hangs, and what would be better."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from attrs import field, frozen

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.logs import SHOWN_AS_EVENTS
from kafka_partition_events.cli.common.options import TopicFilter, Topics, with_options
from kafka_partition_events.cli.common.output import (
    Documents,
    Output,
    OutputChoice,
    choose_output,
    tell,
    write_json,
    write_line,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.doctor.reassignment import (
    Advice,
    Placement,
    Remedy,
    advise,
    most_blocked,
    reassignment_json,
)
from kafka_partition_events.cli.services.protocols import MinInsync
from kafka_partition_events.cli.services.services import Services, first_look
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.metadata.replicas import TopicOutages, outages

_MOST_LINES: Final = 20
_MOST_NAMES: Final = 3


@frozen(kw_only=True)
class ReplicasQuestion:
    """What is to be found out, and how it is shown."""

    config: Mapping[str, str] = field(repr=False)
    topics: str | None
    output: Output
    json_plan: bool = False


def diagnose_replicas(question: ReplicasQuestion, services: Services) -> int:
    """Look at a cluster, say what a broker that fails would block, and return the exit code.

    Raises:
        CliError: there was no answer, or no topic is meant. Of the options, the message tells names only.
    """
    topics = TopicFilter(question.topics)
    poller, _ = first_look(services, question.config)
    with contextlib.closing(poller):
        assert poller.cluster is not None  # noqa: S101 - the first look has it
        whole = poller.cluster
    cluster = topics.narrowed(whole)
    if question.topics is not None and not cluster.by_topic:
        raise CliError(f"no topic is called {question.topics!r}; --topics is a regular expression")
    settings = services.min_insync(question.config, sorted(cluster.by_topic))
    found = outages(cluster.by_topic.values(), settings.known)
    exposed = [topic.topic for topic in found if topic.without_safe_alternative]
    diagnosis = _Diagnosis(cluster, settings, found, advise(whole, exposed))
    if question.json_plan:
        diagnosis.write_plan()
    elif question.output is Output.TABLE:
        for line in diagnosis.lines():
            write_line(line)
    else:
        with Documents(question.output) as documents:
            for document in diagnosis.documents():
                documents.write(document)
    return diagnosis.exit_code


class _Diagnosis:
    """What was found, in words and as JSON."""

    def __init__(
        self,
        cluster: Cluster,
        settings: MinInsync,
        found: Sequence[TopicOutages],
        advices: Sequence[Advice],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._found = found
        self._advices = {advice.topic: advice for advice in advices}
        self._placements = [advice.placement for advice in advices if advice.placement is not None]

    @property
    def exit_code(self) -> int:
        if any(
            topic.without_safe_alternative or topic.writable == 0 < topic.partitions for topic in self._found
        ):
            return EXIT_DIFFERENT
        return EXIT_UNKNOWN if self._unknown else 0

    @property
    def _unknown(self) -> int:
        return sum(topic.min_insync_replicas is None for topic in self._found)

    # -- for programs ----------------------------------------------------------------------------------

    def write_plan(self) -> None:
        """Write the placements as Kafka's tool takes them, and on stderr what they would cost."""
        write_json(json.dumps(reassignment_json(self._placements)))
        what = _movement(self._placements) if self._placements else "no better placement"
        tell(f"{counted(len(self._placements), 'topic')}: {what}")

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield one JSON object for each topic, the worst first."""
        for topic in self._found:
            yield {
                "kind": "replicas_diagnosis",
                "topic": topic.topic,
                "partitions": topic.partitions,
                "min_insync_replicas": topic.min_insync_replicas,
                "writable": topic.writable,
                "without_safe_alternative": topic.without_safe_alternative,
                "brokers": [
                    {
                        "broker": broker.broker,
                        "while_it_hangs": _share(broker.hanging, topic.partitions),
                        "once_it_is_out": None
                        if broker.out is None
                        else _share(broker.out, topic.partitions),
                    }
                    for broker in topic.brokers
                ],
                "advice": self._advice_document(topic.topic),
            }

    def _advice_document(self, topic: str) -> dict[str, Any] | None:
        advice = self._advices.get(topic)
        if advice is None:
            return None
        placement = advice.placement
        return {
            "remedy": advice.remedy.value,
            "needed": advice.needed,
            "placement": placement
            and {
                "replicas": sum(map(len, placement.old)),
                "moved": placement.moved,
                "blocked": most_blocked(placement.old),
                "blocked_then": most_blocked(placement.new),
            },
        }

    # -- for people ------------------------------------------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Yield everything as text, however many topics there are."""
        found = self._found
        exposed = [topic for topic in found if topic.without_safe_alternative]
        partitions = sum(topic.partitions for topic in found)
        without = sum(topic.without_safe_alternative for topic in exposed)
        where = f", in {counted(len(exposed), 'topic')}" if exposed else ""
        yield (
            f"{counted(len(self._cluster.nodes), 'broker')}, {counted(len(found), 'topic')}, "
            f"{counted(partitions, 'partition')}: {without:,} without a safe alternative{where}"
        )
        if unwritable := partitions - sum(topic.writable for topic in found):
            yield f"{counted(unwritable, 'partition')} can't be written with acks=all even now"
        if self._unknown:
            topics = counted(self._unknown, "topic")
            yield f"min.insync.replicas of {topics} unknown: {self._settings.trouble}"
        if not found:
            return
        yield ""
        yield "Partitions that can be written with acks=all if one broker fails:"
        yield from self._topic_lines()
        yield ""
        yield from self._broker_lines()
        if exposed:
            yield ""
            yield from self._advice_lines()

    def _topic_lines(self) -> Iterator[str]:
        yield f"{'topic':<32}{'partitions':>11}{'min.isr':>9}{'it hangs':>17}{'it is out':>17}  worst"
        for topic in self._found[:_MOST_LINES]:
            worst = [broker.broker for broker in topic.brokers if broker.hanging == topic.hanging]
            yield (
                f"{topic.topic:<32}{topic.partitions:>11,}"
                f"{'?' if topic.min_insync_replicas is None else topic.min_insync_replicas:>9}"
                f"{_part(topic.hanging, topic.partitions):>17}{_part(topic.out, topic.partitions):>17}"
                f"  {_listed(worst, 'broker')}"
            )
        if rest := self._found[_MOST_LINES:]:
            without = sum(topic.without_safe_alternative > 0 for topic in rest)
            more = counted(len(rest), "more topic")
            yield f"and {more}, {without or 'none'} of them without a safe alternative"

    def _broker_lines(self) -> Iterator[str]:
        writable = sum(topic.writable for topic in self._found)
        partitions = sum(topic.partitions for topic in self._found)
        blocked, lost, whole = Counter[int](), Counter[int](), Counter[int]()
        for topic in self._found:
            for broker in topic.brokers:
                blocked[broker.broker] += topic.writable - broker.hanging
                lost[broker.broker] += topic.writable - (broker.out or 0)
                whole[broker.broker] += broker.hanging == 0
        brokers = sorted(blocked, key=lambda id_: (-whole[id_], -blocked[id_], id_))
        yield f"{'broker':<32}{'it hangs':>37}{'it is out':>17}  topics that it blocks whole"
        for id_ in brokers[:_MOST_LINES]:
            out = None if self._unknown else writable - lost[id_]
            yield (
                f"{id_:<32}{_part(writable - blocked[id_], partitions):>37}"
                f"{_part(out, partitions):>17}  {whole[id_]:,}"
            )
        if rest := brokers[_MOST_LINES:]:
            yield f"and {counted(len(rest), 'more broker')}, each of which blocks no more"

    def _advice_lines(self) -> Iterator[str]:
        yield "What helps:"
        for remedy in Remedy:
            advices = [advice for advice in self._advices.values() if advice.remedy is remedy]
            if advices:
                yield f"  {_listed([advice.topic for advice in advices], 'topic')}: {_words(remedy, advices)}"


def _words(remedy: Remedy, advices: Sequence[Advice]) -> str:
    needed = sorted({advice.needed for advice in advices if advice.needed is not None})
    least = "" if not needed else f"{needed[0]}" if len(needed) == 1 else f"{needed[0]} to {needed[-1]}"
    match remedy:
        case Remedy.MOVE:
            moving = _movement([a.placement for a in advices if a.placement is not None])
            return f"another placement (--json-plan prints it); {moving}"
        case Remedy.IN_SYNC:
            return "that replicas are in sync and online again: their placement is good"
        case Remedy.RETURN:
            return "ask again when all brokers that have their replicas are back"
        case Remedy.PARTITIONS:
            return f"at least {least} partitions; with so few, some broker has all, wherever they are placed"
        case Remedy.BROKERS:
            return (
                f"at least {least} brokers, as every broker has all of them now; else only fewer replicas or "
                "acks=1, which both risk records"
            )
        case Remedy.RACKS:
            return "more brokers in racks that have few; a better placement would have replicas share a rack"


def _movement(placements: Sequence[Placement]) -> str:
    moved = sum(placement.moved for placement in placements)
    replicas = sum(len(row) for placement in placements for row in placement.old)
    then = max(most_blocked(placement.new) / len(placement.new) for placement in placements)
    most = f"no broker block more than {then:.0%} of a topic"
    return f"{moved:,} of {replicas:,} replicas would be copied, and {most}"


def _share(part: int, whole: int) -> dict[str, Any]:
    return {"partitions": part, "share": round(part / whole, 6) if whole else 0.0}


def _part(part: int | None, whole: int) -> str:
    if part is None:
        return "?"
    return f"{part:,} ({part / whole:.0%})" if whole else "0"


def _listed(values: Sequence[object], noun: str) -> str:
    """Return some values and how many more there are: ``orders, payments, logs and 7 more topics``."""
    text = ", ".join(map(str, values[:_MOST_NAMES]))
    more = len(values) - _MOST_NAMES
    return f"{text} and {counted(more, f'more {noun}')}" if more > 0 else text


@with_options
def replicas_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    json_plan: Annotated[
        bool,
        typer.Option(
            "--json-plan", help="Print the better placement instead, for kafka-reassign-partitions.sh."
        ),
    ] = False,
    output: OutputChoice = None,
    where: ClusterOptions,
) -> None:
    """Find for each broker what of each topic can be written with acks=all if it fails, and what helps.

    With acks=all a write waits for every in-sync replica. A broker that hangs stays in sync until its session
    ends (9 s) or it lags too long (replica.lag.time.max.ms, 30 s); until then it blocks every partition that
    it is in sync of. Partitioners can use others, if there are any: partitions that one broker can block
    together with all others of the topic have no safe alternative. Three brokers with three replicas: none.
    Once it is out of sync, a partition needs min.insync.replicas of the others; where that setting may not be
    seen (DESCRIBE_CONFIGS on the topic), it is unknown and counts as 1 for what can be written now.

    A better placement, if there is one, moves as few replicas as possible, keeps racks apart and leaders
    even. It is for topics without a safe alternative; nothing is changed here. Topics come the worst first.

    \b
    kpe doctor replicas -b localhost:9092
    kpe doctor replicas -b localhost:9092 --topics 'orders|payments'
    kpe doctor replicas -b localhost:9092 | jq -r 'select(.without_safe_alternative > 0) | .topic'
    kpe doctor replicas -b localhost:9092 --topics orders --json-plan > plan.json
    kafka-reassign-partitions.sh --bootstrap-server localhost:9092 --execute --throttle 50000000 \\
        --reassignment-json-file plan.json

    Exit codes: 0 every partition has a safe alternative; 1 some have none, or nothing of a topic can be
    written now; 2 wrong address, no such topic, unknown option; 3 none was found, but min.insync.replicas of
    some topics is unknown.
    """  # noqa: D301
    question = ReplicasQuestion(
        config=where.config(told_elsewhere=SHOWN_AS_EVENTS),
        topics=topics,
        output=choose_output(output),
        json_plan=json_plan,
    )
    raise typer.Exit(diagnose_replicas(question, context.obj))
