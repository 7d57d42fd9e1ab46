"""``kpe doctor``: whether `kpe observe` can do its work on a cluster; what is wrong, and the cure."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from attrs import evolve

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by
from kafka_partition_events.cli.doctor.findings import Finding, Needs, Status, findings
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, check_options
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError
from kafka_partition_events.observe.settings import (
    KAFKA_PYTHON,
    Client,
    Kafka,
    KafkaSinkSettings,
    Settings,
)
from kafka_partition_events.observe.sources import how_to_install, installed_client, open_source, the_other

_STATUS_WIDTH, _CHECK_WIDTH = 13, 26


@with_options
def doctor_group(
    context: typer.Context,
    *,
    events_topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help="Where events are to go; default: as --config says, or kpe.events."
        ),
    ] = None,
    output: OutputChoice = None,
    where: ClusterOptions,
) -> None:
    """Check whether `kpe observe` can work on a cluster: what is wrong, and the cure. Writes nothing.

    \b
    kpe doctor -b localhost:9092
    kpe doctor --config /etc/kpe/kpe.toml                     with its login and topics
    kpe doctor -b localhost:9092 | jq -r 'select(.status == "failed") | .cure'
    kpe doctor partitioner -b localhost:9092 --topic orders   which key hash its writers use
    kpe doctor replicas -b localhost:9092                     what can be written if a broker hangs

    Asks each broker at the address that it advertises; sees what this user may do, whether the topics of the
    service are fit for it, and whether the client of the service can poll the cluster. What can't be found
    out is "not checked". `kpe doctor partitioner` checks a topic's writers, `kpe doctor replicas` what
    brokers can block.

    Exit codes: 0 all is well, as far as it can be checked; 1 something failed, or is to be warned of; 2 wrong
    address, refused login, unknown option.
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    settings = where.load(sections={"kafka", "log", "observer", "sinks"}).settings
    config = connecting_by(settings)
    needs = _needs(settings, events_topic)
    found = (*_ask(config, needs), look(settings.kafka))
    _write(found, choose_output(output))
    if any(finding.status in {Status.FAILED, Status.WARNING} for finding in found):
        raise typer.Exit(EXIT_DIFFERENT)


def _needs(settings: Settings, events_topics: Sequence[str] | None) -> Needs:
    here = [
        sink.topic
        for sink in settings.sinks
        if isinstance(sink, KafkaSinkSettings) and sink.bootstrap_servers is None
    ]
    topics = events_topics or here or ([] if settings.sinks else ["kpe.events"])
    return Needs(event_topics=sorted(set(topics)), observed=settings.observer.topics)


def _ask(config: Mapping[str, str], needs: Needs) -> tuple[Finding, ...]:
    try:
        from kafka_partition_events.cli.doctor.questions import ask_cluster
    except ImportError as error:
        raise CliError(one_line(error)) from error
    try:
        check_options(config)
        return tuple(findings(ask_cluster(config, needs)))
    except CliError as error:
        raise CliError(redacted(str(error), config)) from None


def look(kafka: Kafka) -> Finding:
    """Look at the cluster once, as `kpe observe` would, with the client that it would use."""
    check, used = "client", evolve(kafka, client=installed_client(kafka.client))
    try:
        with contextlib.closing(open_source(used)) as source:
            seen = source.fetch(frozenset(), started_at=0.0, timeout=FIRST_ANSWER_S)
    except ConfigurationError as error:
        return Finding(check, Status.FAILED, one_line(error))  # which names the cure
    except MetadataFetchError as error:
        told = redacted(one_line(error), kafka.properties)
        return Finding(check, Status.FAILED, f"{used.client}: {told}", _another(used.client))
    if used.client != kafka.client:
        return Finding(
            check,
            Status.WARNING,
            f"{kafka.client} is not installed; kpe observe would use {used.client}",
            how_to_install(kafka.client),
        )
    if not seen.leader_epochs:
        return Finding(
            check,
            Status.WARNING,
            f"{used.client} reports no leader epochs: two observers give one outage two ids",
            "Kafka 2.4 and newer report them" if used.client == KAFKA_PYTHON else _another(used.client),
        )
    return Finding(check, Status.OK, f"{used.client} can poll the cluster")


def _another(client: Client) -> str:
    return f'set client = "{the_other(client)}" in [kafka]'


def _write(found: Sequence[Finding], output: Output) -> None:
    if output is not Output.TABLE:
        for finding in found:
            write_json_line(_document(finding))
        return
    for finding in found:
        write_line(f"{finding.status:<{_STATUS_WIDTH}}{finding.check:<{_CHECK_WIDTH}}  {finding.detail}")
        if finding.cure is not None:
            write_line(f"{'':<{_STATUS_WIDTH + _CHECK_WIDTH}}  -> {finding.cure}")


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "kind": "finding",
        "check": finding.check,
        "status": finding.status,
        "detail": finding.detail,
        "cure": finding.cure,
    }
