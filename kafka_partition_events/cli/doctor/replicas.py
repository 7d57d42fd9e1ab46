"""``kpe doctor replicas``: what of each topic can be written if a broker hangs, and what helps."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import typer

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, one_line
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import Topics, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
    write_table,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, connected, read_cluster
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.diagnose.replicas import TopicOutages, outages
from kafka_partition_events.metadata.cluster import Cluster

_HEADERS: Final = ("TOPIC", "PARTITIONS", "MIN.ISR", "IT HANGS", "IT IS OUT", "WORST")
_MOST_LINES: Final = 20
_MOST_NAMES: Final = 3
_SETTING: Final = "min.insync.replicas"
_AT_ONCE: Final = 500
"""Topics in one request: a broker answers with all settings of each."""


@with_options
def replicas_command(
    context: typer.Context, *, topics: Topics = None, output: OutputChoice = None, where: ClusterOptions
) -> None:
    """Find for each broker what of each topic can be written with acks=all if it fails.

    \b
    kpe doctor replicas -b localhost:9092
    kpe doctor replicas -b localhost:9092 --topics 'orders|payments'
    kpe doctor replicas -b localhost:9092 | jq -r 'select(.without_safe_alternative > 0) | .topic'

    With acks=all a write waits for every in-sync replica. A broker that hangs stays in sync until its session
    ends (9 s) or it lags too long (replica.lag.time.max.ms, 30 s); until then it blocks every partition that
    it is in sync of. Partitioners can use others, if there are any: partitions that one broker can block
    together with all others of the topic have no safe alternative. Three brokers with three replicas: none.
    Once it is out of sync, a partition needs min.insync.replicas (at most all) of the others; where that may
    not be seen (DESCRIBE_CONFIGS on the topic), it is unknown and counts as 1 for what can be written now.

    Topics come the worst first. What helps is in docs/replicas.md.

    Exit codes: 0 every partition has a safe alternative; 1 some have none, or nothing of a topic can be
    written now; 2 wrong address, no such topic, unknown option; 3 none was found, but min.insync.replicas of
    some topics is unknown.
    """  # noqa: D301
    config = where.config()
    cluster = read_cluster(context.obj, config, topics)
    known, trouble = ask_min_insync(config, sorted(cluster.by_topic))
    found = outages(cluster.by_topic.values(), known)
    if choose_output(output) is Output.TABLE:
        _write(cluster, found, trouble)
    else:
        for topic in found:
            write_json_line(_document(topic))
    raise typer.Exit(_exit_code(found))


# -- what is asked -----------------------------------------------------------------------------------------


def ask_min_insync(config: Mapping[str, str], topics: Sequence[str]) -> tuple[Mapping[str, int], str | None]:
    """Return ``min.insync.replicas`` of the topics that show it; and why others do not.

    Blocks for some seconds for each 500 topics; stops asking when no broker answers.

    Raises:
        CliError: confluent-kafka is missing or refuses a setting.
    """
    known: dict[str, int] = {}
    trouble: str | None = None
    waiting = iter(topics)
    with connected(config) as connection:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

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
    return known, trouble


# -- how it is shown ---------------------------------------------------------------------------------------


def _exit_code(found: Sequence[TopicOutages]) -> int:
    if any(topic.without_safe_alternative or topic.writable == 0 < topic.partitions for topic in found):
        return EXIT_DIFFERENT
    return EXIT_UNKNOWN if any(topic.min_insync_replicas is None for topic in found) else 0


def _document(topic: TopicOutages) -> dict[str, Any]:
    return {
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
                "once_it_is_out": None if broker.out is None else _share(broker.out, topic.partitions),
            }
            for broker in topic.brokers
        ],
    }


def _write(cluster: Cluster, found: Sequence[TopicOutages], trouble: str | None) -> None:
    """Write everything for people, in few lines however many topics there are."""
    exposed = [topic for topic in found if topic.without_safe_alternative]
    partitions = sum(topic.partitions for topic in found)
    without = sum(topic.without_safe_alternative for topic in exposed)
    where = f", in {counted(len(exposed), 'topic')}" if exposed else ""
    size = (counted(len(cluster.nodes), "broker"), counted(len(found), "topic"))
    write_line(f"{', '.join(size)}, {counted(partitions, 'partition')}")
    write_line(f"{counted(without, 'partition')} without a safe alternative{where}")
    if unwritable := partitions - sum(topic.writable for topic in found):
        write_line(f"{counted(unwritable, 'partition')} can't be written with acks=all even now")
    if unknown := sum(topic.min_insync_replicas is None for topic in found):
        write_line(f"min.insync.replicas of {counted(unknown, 'topic')} unknown: {trouble}")
    if not found:
        return
    write_line("")
    write_line("Partitions that can be written with acks=all if one broker fails:")
    write_table([_cells(topic) for topic in found[:_MOST_LINES]], _HEADERS)
    if rest := found[_MOST_LINES:]:
        hidden = sum(topic.without_safe_alternative > 0 for topic in rest)
        write_line(f"and {counted(len(rest), 'more topic')}, {hidden or 'none'} without a safe alternative")
    if exposed:
        write_line("")
        write_line("Another placement, more partitions or more brokers help: see docs/replicas.md")


def _cells(topic: TopicOutages) -> tuple[str, ...]:
    worst = [broker.broker for broker in topic.brokers if broker.hanging == topic.hanging]
    return (
        topic.topic,
        f"{topic.partitions:,}",
        "?" if topic.min_insync_replicas is None else str(topic.min_insync_replicas),
        _part(topic.hanging, topic.partitions),
        _part(topic.out, topic.partitions),
        _listed(worst),
    )


def _share(part: int, whole: int) -> dict[str, Any]:
    return {"partitions": part, "share": round(part / whole, 6) if whole else 0.0}


def _part(part: int | None, whole: int) -> str:
    if part is None:
        return "?"
    return f"{part:,} ({part / whole:.0%})" if whole else "0"


def _listed(brokers: Sequence[int]) -> str:
    """Return some brokers and how many more there are: ``1, 2, 3 +7``."""
    text = ", ".join(map(str, brokers[:_MOST_NAMES]))
    more = len(brokers) - _MOST_NAMES
    return f"{text} +{more}" if more > 0 else text
