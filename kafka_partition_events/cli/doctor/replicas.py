"""``kpe doctor replicas``: what of each topic can be written if a broker hangs, and what helps."""

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any, Final

import typer
from attrs import frozen

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import TopicFilter, Topics, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import (
    FIRST_ANSWER_S,
    look_once,
    refusals_in_one_line,
)
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.diagnose.replicas import TopicOutages, outages
from kafka_partition_events.metadata.cluster import Cluster, TopicInfo

_MOST_LINES: Final = 20
_MOST_NAMES: Final = 3
_SETTING: Final = "min.insync.replicas"
_AT_ONCE: Final = 500
"""Topics in one request: a broker answers with all settings of each."""


@frozen(kw_only=True)
class MinInsync:
    """``min.insync.replicas`` of topics.

    Attributes:
        known: What it is, by topic; one that is missing is unknown.
        trouble: Why some are unknown; None if none is.
    """

    known: Mapping[str, int]
    trouble: str | None = None


@with_options
def replicas_command(
    context: typer.Context,
    *,
    topics: Topics = None,
    output: OutputChoice = None,
    where: ClusterOptions,
) -> None:
    """Find for each broker what of each topic can be written with acks=all if it fails, and what helps.

    \b
    kpe doctor replicas -b localhost:9092
    kpe doctor replicas -b localhost:9092 --topics 'orders|payments'
    kpe doctor replicas -b localhost:9092 | jq -r 'select(.without_safe_alternative > 0) | .topic'

    With acks=all a write waits for every in-sync replica. A broker that hangs stays in sync until its session
    ends (9 s) or it lags too long (replica.lag.time.max.ms, 30 s); until then it blocks every partition that
    it is in sync of. Partitioners can use others, if there are any: partitions that one broker can block
    together with all others of the topic have no safe alternative. Three brokers with three replicas: none.
    Once it is out of sync, a partition needs min.insync.replicas of the others; where that setting may not be
    seen (DESCRIBE_CONFIGS on the topic), it is unknown and counts as 1 for what can be written now.

    For topics without a safe alternative it says what helps. Topics come the worst first.

    Exit codes: 0 every partition has a safe alternative; 1 some have none, or nothing of a topic can be
    written now; 2 wrong address, no such topic, unknown option; 3 none was found, but min.insync.replicas of
    some topics is unknown.
    """  # noqa: D301
    config = where.config()
    cluster = look_once(context.obj, config, TopicFilter(topics))
    settings = ask_min_insync(config, sorted(cluster.by_topic))
    found = outages(cluster.by_topic.values(), settings.known)
    exposed = [topic.topic for topic in found if topic.without_safe_alternative]
    advices = [advise(cluster.by_topic[topic], cluster.nodes) for topic in exposed]
    diagnosis = _Diagnosis(cluster, settings, found, advices)
    if choose_output(output) is Output.TABLE:
        for line in diagnosis.lines():
            write_line(line)
    else:
        for document in diagnosis.documents():
            write_json_line(document)
    raise typer.Exit(diagnosis.exit_code)


# -- what helps --------------------------------------------------------------------------------------------


class Remedy(StrEnum):
    """What gives a topic's partitions a safe alternative."""

    MOVE = "move"
    """Another placement on the brokers that there are."""
    IN_SYNC = "in_sync"
    """Nothing but time, or a repair: with all replicas in sync the placement is good."""
    RETURN = "return"
    """A broker that has replicas is not listed; what helps is a question for when it is back."""
    PARTITIONS = "partitions"
    """More partitions: no placement of so few is any better."""
    BROKERS = "brokers"
    """More brokers; else only fewer replicas, or another ``acks``, which both risk records."""


@frozen(kw_only=True)
class Advice:
    """What gives a topic's partitions a safe alternative.

    Attributes:
        topic: The topic's name.
        remedy: What helps.
        needed: How many brokers or partitions there must be at least; None for other remedies.
    """

    topic: str
    remedy: Remedy
    needed: int | None = None


def advise(info: TopicInfo, listed: Collection[int]) -> Advice:
    """Return what gives the partitions of a topic a safe alternative, on the listed brokers; pure."""
    rows = [p.replicas for p in info.partitions]
    partitions, brokers, total = len(rows), len(listed), sum(map(len, rows))
    load = Counter(broker for row in rows for broker in row)
    if not load.keys() <= set(listed):
        return Advice(topic=info.name, remedy=Remedy.RETURN)
    if max(load.values(), default=0) < partitions:
        return Advice(topic=info.name, remedy=Remedy.IN_SYNC)
    if total <= brokers * (partitions - 1):
        return Advice(topic=info.name, remedy=Remedy.MOVE)
    most = max(map(len, rows))  # some broker has a replica of each partition, wherever they are
    if most < brokers:
        return Advice(topic=info.name, remedy=Remedy.PARTITIONS, needed=-(-brokers // (brokers - most)))
    needed = -(-total // (partitions - 1)) if partitions > 1 else most + 1
    return Advice(topic=info.name, remedy=Remedy.BROKERS, needed=needed)


# -- what is asked -----------------------------------------------------------------------------------------


def ask_min_insync(config: Mapping[str, str], topics: Sequence[str]) -> MinInsync:
    """Return ``min.insync.replicas`` of those topics that show it, and why not of the others.

    Blocks for some seconds for each 500 topics; stops asking when no broker answers.

    Raises:
        CliError: confluent-kafka is missing or refuses a setting.
    """
    with refusals_in_one_line():
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]  # noqa: PLC0415

        from kafka_partition_events.clients.confluent.connection import Connection  # noqa: PLC0415

        connection = Connection(config)
    known: dict[str, int] = {}
    trouble: str | None = None
    waiting = iter(topics)
    with contextlib.closing(connection):
        while names := list(islice(waiting, _AT_ONCE)):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
            futures = connection.admin().describe_configs(resources, request_timeout=FIRST_ANSWER_S)
            before = len(known)
            for resource, future in futures.items():
                try:
                    known[resource.name] = int(future.result(FIRST_ANSWER_S + 1.0)[_SETTING].value)
                except (KafkaException, TimeoutError) as error:
                    needed = Right(("DescribeConfigs",), "topic", resource.name)
                    failure = connection.failure(f"no configuration of {resource.name}", error, needed)
                    trouble = trouble or redacted(one_line(failure), config)
            if len(known) == before:
                break
    return MinInsync(known=known, trouble=trouble)


# -- how it is shown ---------------------------------------------------------------------------------------


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
        return {"remedy": advice.remedy.value, "needed": advice.needed}

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
            return "another placement, over all brokers: kafka-reassign-partitions.sh --generate makes one"
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
