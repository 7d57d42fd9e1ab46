"""The commands: their options, help and exit codes. What they do stands in the modules they call."""

import errno
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import kafka_partition_events
from kafka_partition_events.cli.change.acks import acks_app
from kafka_partition_events.cli.change.app import change_app
from kafka_partition_events.cli.change.group import group_app
from kafka_partition_events.cli.change.instances import instances_app
from kafka_partition_events.cli.change.topics import topics_app
from kafka_partition_events.cli.change.tracker import tracker_app
from kafka_partition_events.cli.cluster.check import check_command
from kafka_partition_events.cli.cluster.pins import mapping_app
from kafka_partition_events.cli.cluster.snapshot import diff_command, snapshot_command
from kafka_partition_events.cli.cluster.watch import watch_command
from kafka_partition_events.cli.common.errors import (
    EXIT_ERROR,
    EXIT_UNKNOWN,
    one_line,
)
from kafka_partition_events.cli.common.output import abandon_stdout, tell, write_line
from kafka_partition_events.cli.common.stopping import sigterm_as_ctrl_c
from kafka_partition_events.cli.common.unreachable import plainly
from kafka_partition_events.cli.demo import demo_app
from kafka_partition_events.cli.doctor.command import doctor_group
from kafka_partition_events.cli.doctor.control import control_command
from kafka_partition_events.cli.doctor.partitioner import partitioner_command
from kafka_partition_events.cli.doctor.replicas import replicas_command
from kafka_partition_events.cli.observe.assets import assets_app
from kafka_partition_events.cli.observe.config import config_app
from kafka_partition_events.cli.observe.events import events_app
from kafka_partition_events.cli.observe.incident import incident_app
from kafka_partition_events.cli.observe.outbox import outbox_app
from kafka_partition_events.cli.observe.service import observe_command
from kafka_partition_events.cli.observe.silence import silence_app
from kafka_partition_events.cli.observe.sink import sink_app
from kafka_partition_events.cli.profile import profile_app
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.cli.spark.app import spark_app
from kafka_partition_events.cli.version import version_command
from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.links import DOCUMENTATION

_VERBOSE: Final = {"-v", "--verbose"}
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C has ended

_PANELS: Final = {
    "See a cluster": ("watch", "snapshot", "diff", "check", "doctor"),
    "Run the service": ("observe", "events", "incident", "silence", "sink", "outbox", "config", "assets"),
    "Change a topic": ("change", "tracker", "ack", "instances", "group", "topics", "mapping"),
    "Spark": ("spark",),
    "Try it, set it up": ("demo", "profile", "version"),
}


class _Panels(TyperGroup):
    """Lists commands by what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in _PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(80)) for name in names])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        super().format_epilog(ctx, formatter)
        formatter.write(f"\n  Documentation: {DOCUMENTATION}\n")  # one line, so that it can be clicked


app = typer.Typer(
    name="kpe",
    cls=_Panels,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it reads the same in a terminal, a pipe and a bug report
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
doctor = typer.Typer(rich_markup_mode=None)
doctor.callback(invoke_without_command=True)(doctor_group)
doctor.command("partitioner", short_help="Which key hash a topic's writers use, and whether they disagree.")(
    partitioner_command
)
doctor.command("replicas", short_help="What of each topic can be written if a broker hangs.")(
    replicas_command
)
doctor.command("control", short_help="Which records of change control every reader skips.")(control_command)

app.command("watch", short_help="Show changes as they happen.")(watch_command)
app.command("snapshot", short_help="Write the current state of the cluster to a file.")(snapshot_command)
app.command("diff", short_help="Show what happened between two snapshots.")(diff_command)
app.command("check", short_help="Check the cluster's state, as a Nagios plugin.")(check_command)
app.add_typer(doctor, name="doctor", short_help="Find what is wrong, and the cure.")
app.add_typer(group_app, name="group", short_help="Show how far consumer groups are with partitions.")
app.add_typer(change_app, name="change", short_help="Plan, request and follow a change of partitions.")
app.add_typer(acks_app, name="ack", short_help="List what instances and groups report of a change.")
app.add_typer(instances_app, name="instances", short_help="List the processes that run the library.")
app.add_typer(topics_app, name="topics", short_help="Create the topics that change control needs.")
app.add_typer(mapping_app, name="mapping", short_help="Show what keys are pinned to; cut them over.")
app.add_typer(tracker_app, name="tracker", short_help="Run the change controller (one per cluster).")
app.command("observe", short_help="Run the service: journal, incidents, sinks, metrics.")(observe_command)
app.add_typer(events_app, name="events", short_help="List, follow, show and replay recorded events.")
app.add_typer(incident_app, name="incident", short_help="List, acknowledge and close incidents.")
app.add_typer(silence_app, name="silence", short_help="Mute notifications of planned work.")
app.add_typer(sink_app, name="sink", short_help="List the sinks; send a test incident.")
app.add_typer(outbox_app, name="outbox", short_help="Check the file in which events wait; replace it.")
app.add_typer(config_app, name="config", short_help="Show the configuration and where it comes from.")
app.add_typer(assets_app, name="assets", short_help="Write alert rules, dashboards, schemas, manifests.")
app.add_typer(
    spark_app, name="spark", short_help="Compute from the events, by Spark, what happened to a fleet."
)
app.add_typer(profile_app, name="profile", short_help="Call clusters by names.")
app.add_typer(demo_app, name="demo", short_help="See a broker fail under four producers, side by side.")
app.command("version", short_help="Show all versions that a bug report needs.")(version_command)

# The base of what typer's parser raises about a command line; typer exports this one child of it only.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(f"kpe {kafka_partition_events.__version__}")
        raise typer.Exit


@app.callback(
    epilog="Exit codes: 0 all is well; 1 it is not: something is wrong, different or refused; 2 error, in "
    "one line on stderr; 3 unknown, or no answer; 4 `kpe change plan`: blocked. `kpe check` has those of "
    "Nagios. `kpe COMMAND --help` has examples."
)
def top(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """See what happens to the partitions of a Kafka cluster.

    \b
    kpe demo                                     a broker fails, four producers side by side
    kpe watch -b localhost:9092                  partition and broker changes, as they happen
    kpe doctor partitioner -b localhost:9092 --topic orders    do its writers agree on a key hash?
    kpe observe --config kpe.toml                the service: incidents, notifications, metrics
    kpe change plan -b localhost:9092 --topic orders --to 24   would anything be lost?
    kpe spark whatif -b localhost:9092 --topic orders --to 24 --out whatif.html    which keys would move?
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


def _reader_has_seen_enough() -> int:
    """End well, as in `kpe watch | head -1`."""
    abandon_stdout()
    return 0


def _complaint(error: Any) -> str:
    """Return what is wrong with a command line, and where to read what is right."""
    # Its own words begin so where a value is out of range, or not one of several.
    message = str(error.format_message()).replace("Value error, ", "").replace("Input should", "it should")
    if error.ctx is None:
        return message
    message = message.rstrip(".")
    return f"{message}{'' if message.endswith('?') else ';'} see `{error.ctx.command_path} --help`"


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
        if not _VERBOSE & {*arguments}:
            message = plainly(message)
        tell(one_line(message), error=True)
        return EXIT_UNKNOWN if arguments[:1] == ["check"] else EXIT_ERROR  # 2 would be Nagios' CRITICAL
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        abandon_stdout()
        tell(one_line(error.strerror), error=True)
        return EXIT_ERROR
    except (KeyboardInterrupt, typer.Abort):
        pass
    tell("interrupted")
    return _INTERRUPTED
