"""``kpe doctor``: whether `kpe observe` can do its work on a cluster; what is wrong, and the cure."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError
from kafka_partition_events.cli.common.options import behind_subcommand, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by
from kafka_partition_events.cli.doctor.findings import CheckStatus, Finding
from kafka_partition_events.cli.doctor.partitioner import partitioner_command
from kafka_partition_events.cli.doctor.replicas import replicas_command
from kafka_partition_events.cli.services.services import refusals_in_one_line
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.observe.settings import KafkaSinkSettings, Settings

_STATUS_WIDTH, _CHECK_WIDTH = 13, 26


doctor_app = typer.Typer(rich_markup_mode=None)


@doctor_app.callback(invoke_without_command=True)
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

    Asks each broker at the address that it advertises; sees what this user may do, and whether the topics of
    the service are fit for it. What can't be found out is "not checked". `kpe doctor partitioner` checks a
    topic's writers, `kpe doctor replicas` what brokers can block.

    Exit codes: 0 all is well, as far as it can be checked; 1 something failed, or is to be warned of; 2 wrong
    address, refused login, unknown option.
    """  # noqa: D301
    if behind_subcommand(context):
        return
    settings = where.load(sections={"kafka", "log", "observer", "sinks"}).settings
    config = connecting_by(settings)
    found = _ask(config, events_topic or _event_topics(settings), settings.observer.topics)
    _write(found, choose_output(output))
    if any(finding.status in {CheckStatus.FAILED, CheckStatus.WARNING} for finding in found):
        raise typer.Exit(EXIT_DIFFERENT)


doctor_app.command(
    "partitioner", short_help="Which key hash a topic's writers use, and whether they disagree."
)(partitioner_command)
doctor_app.command("replicas", short_help="What of each topic can be written if a broker hangs.")(
    replicas_command
)


def _event_topics(settings: Settings) -> Sequence[str]:
    here = {
        sink.topic
        for sink in settings.sinks
        if isinstance(sink, KafkaSinkSettings) and sink.bootstrap_servers is None
    }
    return sorted(here) or ([] if settings.sinks else ["kpe.events"])


def _ask(config: Mapping[str, str], event_topics: Sequence[str], observed: str) -> Sequence[Finding]:
    try:
        with refusals_in_one_line():
            from kafka_partition_events.cli.doctor.questions import ask_cluster
        return [*ask_cluster(config, event_topics, observed)]
    except CliError as error:
        raise CliError(redacted(str(error), config)) from None


def _write(found: Sequence[Finding], output: Output) -> None:
    if output is not Output.TABLE:
        for finding in found:
            write_json_line({"kind": "finding", **asdict(finding)})
        return
    for finding in found:
        write_line(f"{finding.status:<{_STATUS_WIDTH}}{finding.check:<{_CHECK_WIDTH}}  {finding.detail}")
        if finding.cure is not None:
            write_line(f"{'':<{_STATUS_WIDTH + _CHECK_WIDTH}}  -> {finding.cure}")
