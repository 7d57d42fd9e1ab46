"""The commands: their options, help and exit codes. What they do stands in the modules they call."""

import contextlib
import errno
import math
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console

import kafka_partition_events
from kafka_partition_events.cli.acks import acks_app
from kafka_partition_events.cli.arguments import Bootstrap, ClientOptions, OutputChoice, Topics, Verbose
from kafka_partition_events.cli.assets import assets_app
from kafka_partition_events.cli.change import change_app
from kafka_partition_events.cli.change_session import Prefix
from kafka_partition_events.cli.check import check_command
from kafka_partition_events.cli.checkup import doctor_group
from kafka_partition_events.cli.config import config_app
from kafka_partition_events.cli.control_doctor import diagnose_control
from kafka_partition_events.cli.doctor import Question, diagnose_partitioner
from kafka_partition_events.cli.errors import EXIT_DIFFERENT, EXIT_ERROR, EXIT_UNKNOWN, CliError, one_line
from kafka_partition_events.cli.events import events_app
from kafka_partition_events.cli.group import group_app
from kafka_partition_events.cli.instances import instances_app
from kafka_partition_events.cli.logs import configure_logs
from kafka_partition_events.cli.mapping import mapping_app
from kafka_partition_events.cli.observe import observe_command
from kafka_partition_events.cli.options import TopicFilter, check_out, parse_client_options, parse_duration
from kafka_partition_events.cli.output import abandon_stdout, choose_output, tell, write_line
from kafka_partition_events.cli.replicas import ReplicasQuestion, diagnose_replicas
from kafka_partition_events.cli.services import SampleRequest, Services
from kafka_partition_events.cli.silence import silence_app
from kafka_partition_events.cli.snapshot import show_difference, take_snapshot
from kafka_partition_events.cli.spark import spark_app
from kafka_partition_events.cli.topics import topics_app
from kafka_partition_events.cli.tracker import tracker_command
from kafka_partition_events.cli.watch import SHOWN_AS_EVENTS, Watch, watch
from kafka_partition_events.control.topics import PREFIX
from kafka_partition_events.errors import KafkaPartitionEventsError

_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C has ended

app = typer.Typer(
    name="kpe",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it reads the same in a terminal, a pipe and a bug report
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("observe", short_help="Run the service: journal, incidents, sinks, metrics.")(observe_command)
app.command("check", short_help="Tell the cluster's state as a Nagios plugin does.")(check_command)
app.add_typer(mapping_app, name="mapping", short_help="Show what keys are pinned to; cut them over.")
app.add_typer(topics_app, name="topics", short_help="Make the topics that change control needs.")
app.add_typer(change_app, name="change", short_help="Change partitions, and know who has followed.")
app.add_typer(acks_app, name="ack", short_help="See what instances and groups say of a change.")
app.add_typer(instances_app, name="instances", short_help="See the processes that run the library.")
app.command("tracker", short_help="Carry out changes, and follow who has followed.")(tracker_command)
app.add_typer(group_app, name="group", short_help="See how far consumer groups are with partitions.")
app.add_typer(config_app, name="config", short_help="Show the configuration and where it comes from.")
app.add_typer(events_app, name="events", short_help="List, follow, show, replay recorded events.")
app.add_typer(silence_app, name="silence", short_help="Keep sinks quiet about what is expected.")
app.add_typer(
    spark_app, name="spark", short_help="Compute from the events, by Spark, what happened to a fleet."
)
app.add_typer(assets_app, name="assets", short_help="Get alert rules, dashboards, schemas, units.")

doctor = typer.Typer(rich_markup_mode=None)
doctor.callback(invoke_without_command=True)(doctor_group)

# The base of what typer's parser raises about a command line; typer exports this one child of it only.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"kpe {kafka_partition_events.__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 all is well; 1 `kpe diff` or `kpe doctor` found something, or the demo failed; 2 "
    "error, told in one line on stderr; 3 `kpe doctor` can't tell; those of `kpe check` are Nagios', "
    "`kpe change` has its own. "
    "`kpe COMMAND --help` has examples."
)
def top(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """See what happens to the partitions of a Kafka cluster.

    \b
    kpe watch -b localhost:9092                     what changes, as it happens
    kpe snapshot -b localhost:9092 -o before.json   the cluster as it is now, to a file
    kpe diff before.json after.json                 what happened between two snapshots
    kpe check -b localhost:9092                     its state, for Nagios and its like
    kpe doctor -b localhost:9092                    can `kpe observe` work here?
    kpe doctor partitioner -b localhost:9092 --topic orders    do its writers agree on a key hash?
    kpe doctor replicas -b localhost:9092           what can be written if a broker hangs?
    kpe mapping show --store pins.json              what keys are pinned to, of GrowthSafePartitioner
    kpe topics init -b localhost:9092               the topics that change control needs
    kpe change plan -b localhost:9092 --topic orders --to 24    who would follow, and who could not
    kpe group probe -b localhost:9092 --topic orders    how far consumer groups are with its partitions
    kpe tracker -b localhost:9092                   carries out changes, and tells who has followed
    kpe observe --config kpe.toml                   the service: events to sinks, metrics, incidents
    kpe config show --config kpe.toml               its configuration, and where it comes from
    kpe events ls --config kpe.toml --since 2h      what it has seen
    kpe silence add --config kpe.toml --broker 2 --for 2h --reason "new disks"
    kpe spark fleet -b localhost:9092 --out /data/kpe --once    tables of outages, availability, churn
    kpe assets export ./kpe                         alert rules, dashboards, units to go with it
    kpe demo                                        a tour on a cluster of its own
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@app.command("watch", short_help="Show what changes, as it happens.")
def watch_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    client_options: ClientOptions = None,
    topic: Topics = None,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks.")] = "5s",
    output: OutputChoice = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Stop after this time.")
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Show what happens to topics, partitions and brokers, as it happens.

    Begins with the state as it is: in a table with a summary and what is offline, in JSON with one event
    ("initial": true) for each broker, topic and offline partition. While something is offline it looks
    more often than --interval. What happens and is undone between two looks is not seen. Times are UTC.
    Durations are 500ms, 5s, 10m, 1h.

    \b
    kpe watch -b localhost:9092
    kpe watch -b localhost:9092 --topic 'orders|payments' --interval 1s
    kpe watch -b localhost:9092 --for 10m > events.jsonl
    kpe watch -b localhost:9092 | jq -c 'select(.kind == "partition_offline")'
    kpe watch -b broker:9093 -X security.protocol=SASL_SSL -X ssl.ca.location=ca.pem \\
        -X sasl.mechanism=SCRAM-SHA-512 -X sasl.username=noc -X "sasl.password=$PASSWORD"

    Exit codes: 0 the time of --for is over, or Ctrl-C; 2 wrong address, refused login, unknown option.
    """  # noqa: D301
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)
    request = Watch(
        config=parse_client_options(bootstrap, client_options or ()),
        topics=TopicFilter(topic),
        interval=parse_duration(interval),
        output=choose_output(output),
        limit=math.inf if for_ is None else parse_duration(for_),
    )
    watch(request, context.obj)


@app.command("snapshot", short_help="Write the cluster as it is now to a file.")
def snapshot_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    file: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="Where to write; - is standard output.")
    ],
    client_options: ClientOptions = None,
    topic: Topics = None,
    verbose: Verbose = False,
) -> None:
    """Write the cluster's brokers, topics and partitions to a file, as JSON.

    The file appears at once when it is complete. Its format has a version; `kpe diff` reads it.

    \b
    kpe snapshot -b localhost:9092 -o before.json
    kpe snapshot -b localhost:9092 -o - | jq '.topics | length'

    Exit codes: 0 written; 2 wrong address, refused login, unknown option, file can't be written.
    """  # noqa: D301
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)
    config = parse_client_options(bootstrap, client_options or ())
    take_snapshot(config, TopicFilter(topic), file, context.obj)


@app.command("diff", short_help="Show what happened between two snapshots.")
def diff_command(
    old: Annotated[str, typer.Argument(metavar="A", help="The earlier snapshot.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The later snapshot; one of the two may be -.")],
    output: OutputChoice = None,
) -> None:
    """Show what happened between two snapshots, in the words of `kpe watch`. Needs no cluster.

    \b
    kpe diff before.json after.json
    kpe snapshot -b localhost:9092 -o - | kpe diff before.json -

    Exit codes: 0 the same; 1 different; 2 a file can't be read or is no snapshot.
    """  # noqa: D301
    if show_difference(old, new, choose_output(output)):
        raise typer.Exit(EXIT_DIFFERENT)


@doctor.command("partitioner", short_help="Which key hash a topic's writers use, and whether they disagree.")
def doctor_partitioner_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic to look at.")],
    client_options: ClientOptions = None,
    records: Annotated[
        int, typer.Option(min=1, metavar="N", help="Read about so many of the latest records.")
    ] = 10_000,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Read no longer than this.")] = "30s",
    show_keys: Annotated[
        bool, typer.Option("--show-keys", help="Show example keys; they may be personal data.")
    ] = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Tell which key hash placed a topic's records, and whether its writers disagree.

    Clients differ: Java and kafka-python place keys by murmur2, librdkafka (confluent-kafka) by CRC32, Sarama
    by FNV-1a. Where two of them write one topic, one key's records are on two partitions, out of order.

    Reads the latest records, the same number from each partition, without joining a group or committing
    anything. Only keys are looked at, and no key is shown without --show-keys. A key that is not where the
    hash says was placed by something else; a hash is named if chance explains its hits less than once in
    1,000 topics. Records from before the topic has grown are recognized, and so are both mappings of
    GrowthSafePartitioner: "pinned" as a hash of fewer partitions, "rendezvous" as such.

    \b
    kpe doctor partitioner -b localhost:9092 --topic orders
    kpe doctor partitioner -b localhost:9092 --topic orders --records 100000 --timeout 2m
    kpe doctor partitioner -b localhost:9092 --topic orders | jq .verdict

    Exit codes: 0 one hash; 1 the writers disagree; 2 wrong address, no such topic, no right to read it,
    unknown option; 3 can't tell: too few keys, one partition, or no hash that is known.
    """  # noqa: D301
    configure_logs(verbose=verbose)
    question = Question(
        config=parse_client_options(bootstrap, client_options or ()),
        request=SampleRequest(topic=topic, records=records, timeout=parse_duration(timeout)),
        output=choose_output(output),
        show_keys=show_keys,
    )
    raise typer.Exit(diagnose_partitioner(question, context.obj))


@doctor.command("replicas", short_help="What of each topic can be written if a broker hangs.")
def doctor_replicas_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    client_options: ClientOptions = None,
    topic: Topics = None,
    json_plan: Annotated[
        bool,
        typer.Option(
            "--json-plan", help="Print the better placement instead, for kafka-reassign-partitions.sh."
        ),
    ] = False,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Tell for each broker what of each topic can be written with acks=all if it fails, and what helps.

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
    kpe doctor replicas -b localhost:9092 --topic 'orders|payments'
    kpe doctor replicas -b localhost:9092 | jq -r 'select(.without_safe_alternative > 0) | .topic'
    kpe doctor replicas -b localhost:9092 --topic orders --json-plan > plan.json
    kafka-reassign-partitions.sh --bootstrap-server localhost:9092 --execute --throttle 50000000 \\
        --reassignment-json-file plan.json

    Exit codes: 0 every partition has a safe alternative; 1 some have none, or nothing of a topic can be
    written now; 2 wrong address, no such topic, unknown option; 3 none was found, but min.insync.replicas of
    some topics is unknown.
    """  # noqa: D301
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)
    question = ReplicasQuestion(
        config=parse_client_options(bootstrap, client_options or ()),
        topic=topic,
        output=choose_output(output),
        json_plan=json_plan,
    )
    raise typer.Exit(diagnose_replicas(question, context.obj))


@doctor.command("control", short_help="Which records of change control everybody passes over.")
def doctor_control_command(
    context: typer.Context,
    bootstrap: Bootstrap,
    client_options: ClientOptions = None,
    prefix: Prefix = PREFIX,
    output: OutputChoice = None,
    verbose: Verbose = False,
) -> None:
    """Tell which records in the control topics are skipped by all who read them, and why.

    malformed: no record of change control, or one with something in it that can't be. version: a later
    version of this library has written it. Nothing comes of such a command, change, lease or ack, and nobody
    stops at it; it goes as all others do, by retention or compaction. Reads all four topics to their ends,
    without joining a group. All such records are counted, the latest 100 listed.

    \b
    kpe doctor control -b localhost:9092
    kpe doctor control -b localhost:9092 --prefix staging.
    kpe doctor control -b localhost:9092 | jq -r '.latest[] | [.topic, .partition, .offset, .reason] | @tsv'

    Exit codes: 0 none is skipped; 1 some are; 2 no control topics, no right to read them, wrong address,
    unknown option.
    """  # noqa: D301
    configure_logs(verbose=verbose)
    config = parse_client_options(bootstrap, client_options or ())
    raise typer.Exit(diagnose_control(config, prefix, choose_output(output), context.obj))


app.add_typer(doctor, name="doctor", short_help="Find what is wrong, and the cure.")


@app.command("demo", short_help="Make trouble on a cluster of its own and account for it.")
def demo_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes.")] = Path(
        "demo-report.html"
    ),
    rate: Annotated[
        int, typer.Option(min=10, max=2000, help="Records per second of each of the two producers.")
    ] = 250,
    stretch: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to watch after each step.")
    ] = "6s",
    mock: Annotated[
        bool, typer.Option("--mock", help="Use librdkafka's mock cluster, without Java and Spark.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Make trouble on a Kafka cluster of its own, watch it, and account for every record.

    Starts three brokers; two producers, one on each client, write keyed and unkeyed records all the time. A
    topic grows beyond its producer's buffer budget, a broker dies by SIGKILL and comes back, a topic is
    deleted and created anew. The events go to the Kafka topic kpe.events as CloudEvents; Spark makes a
    report of them. In the end stands what was sent, acknowledged, failed, rerouted and capped, as the
    producers counted and as the topics show, losses included. Under three minutes on two cores.

    Without Java 17 it runs on librdkafka's mock cluster, without growth, Spark and report. Ctrl-C stops
    everything that was started.

    \b
    kpe demo
    kpe demo --stretch 20s --rate 500 --out /tmp/report.html
    kpe demo --mock

    Exit codes: 0 every acknowledged record is accounted for; 1 one is not; 2 a part of the demo failed.
    """  # noqa: D301
    configure_logs(verbose=verbose, told_elsewhere=SHOWN_AS_EVENTS)
    seconds = parse_duration(stretch)
    check_out(out)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        from kafka_partition_events.cli.demo.run import Demo, run_demo  # noqa: PLC0415

        balanced = run_demo(Demo(out=out, rate=rate, stretch=seconds, mock=mock), console)
    except ImportError as error:  # some parts are imported when their turn comes
        raise CliError(
            f'the demo needs more: pip install "kafka-partition-events[all]" ({one_line(error)})'
        ) from error
    if not balanced:
        raise typer.Exit(EXIT_DIFFERENT)


@contextlib.contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that everything that was opened is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a handler
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _reader_has_seen_enough() -> int:
    """End well, as in `kpe watch | head -1`."""
    abandon_stdout()
    return 0


def _complaint(error: Any) -> str:
    """Return what is wrong with a command line, and where to read what is right."""
    message = str(error.format_message())
    return message if error.ctx is None else f"{message.rstrip('.')}; see `{error.ctx.command_path} --help`"


# -- running -----------------------------------------------------------------------------------------------


def run(arguments: Sequence[str], services: Services | None = None) -> int:
    """Run one command line and return its exit code.

    Args:
        arguments: What follows ``kpe``.
        services: The world outside; by default the real one.
    """
    try:
        with sigterm_as_ctrl_c():
            code = app(
                args=list(arguments) or ["--help"],
                prog_name="kpe",
                standalone_mode=False,
                obj=services or Services(),
            )
            sys.stdout.flush()  # what goes wrong with the last lines is told, too
        if code != _INTERRUPTED:  # which newer versions of typer return and older ones raise
            return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _reader_has_seen_enough()
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):  # which typer's parser makes an exit code 1 of
            raise
        return _reader_has_seen_enough()
    except (KafkaPartitionEventsError, _UsageError) as error:
        message = _complaint(error) if isinstance(error, _UsageError) else str(error)
        tell(one_line(message))
        return EXIT_UNKNOWN if arguments[:1] == ["check"] else EXIT_ERROR  # 2 would be Nagios' CRITICAL
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        abandon_stdout()
        tell(one_line(error.strerror))
        return EXIT_ERROR
    except (KeyboardInterrupt, typer.Abort):
        pass
    tell("interrupted")
    return _INTERRUPTED
