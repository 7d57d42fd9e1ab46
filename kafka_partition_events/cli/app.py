"""The commands: their options, help and exit codes. What they do stands in the modules they call."""

import contextlib
import errno
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Final

import typer

import kafka_partition_events
from kafka_partition_events.cli.common.errors import EXIT_ERROR, EXIT_UNKNOWN, one_line, plainly
from kafka_partition_events.cli.common.lazy_group import LazyGroup
from kafka_partition_events.cli.common.output import abandon_stdout, escape_unwritable, report, write_line
from kafka_partition_events.cli.common.stopping import sigterm_as_ctrl_c
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.errors import KafkaPartitionEventsError

_VERBOSE: Final = {"-v", "--verbose"}
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C has ended

_GROUPS: Final = {
    "cluster": {
        "watch": ("cluster.watch:watch_command", "Show changes as they happen."),
        "top": ("cluster.top:top_command", "See what is wrong now, in a full screen."),
        "check": ("cluster.check:check_command", "Check the cluster's state, as a Nagios plugin."),
        "snapshot": ("cluster.snapshot:snapshot_command", "Write the state of the cluster, as JSON."),
        "diff": ("cluster.diff:diff_command", "Show what happened between two snapshots."),
        "doctor": ("doctor.command:doctor_app", "Find what is wrong, and the cure."),
    },
    "events": {"events": ("events.app:events_app", "List, follow and replay recorded events.")},
    "service": {
        "observe": ("service.observe:observe_command", "Run the service: journal, alerts, sinks, metrics."),
        "config": ("service.config:config_app", "Show the configuration and where it comes from."),
        "assets": ("service.assets:assets_app", "Write alert rules, dashboards, schemas, manifests."),
    },
    "change": {
        "change": ("change.app:change_app", "Plan, request and follow a change of partitions."),
        "tracker": ("change.tracker:tracker_app", "Run the change controller (one per cluster)."),
    },
    "spark": {
        "spark": ("spark.app:spark_app", "Compute from the events, by Spark, what happened to a fleet.")
    },
    "try it": {"demo": ("demo:demo_command", "See a broker fail under four producers, side by side.")},
}
"""By who asks: each command, the function or the group that it is, and what it is for."""


class _Groups(LazyGroup):
    """Shows a page that fits a terminal: examples first, then the commands by who asks."""

    table: ClassVar = {name: it for commands in _GROUPS.values() for name, it in commands.items()}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_usage(ctx, formatter)
        lines = ["", *_EXAMPLES, ""]
        for title, commands in _GROUPS.items():
            for number, (name, (_, about)) in enumerate(commands.items()):
                lines.append(f"{'' if number else title:<9}{name:<10}{about}")
        formatter.write("\n".join([*lines, "", *_ENDING, ""]))


_EXAMPLES: Final = (
    "  kpe demo                       a broker fails: four producers, side by side",
    "  kpe watch -b localhost:9092    partitions and brokers, as they change",
)
_ENDING: Final = (
    "Exit codes: 0 all is well; 1 it is not; 2 error; 3 unknown. KPE_CONFIG=FILE.toml",
    "kpe COMMAND --help has examples and options; --version; --install-completion",
)

app = typer.Typer(
    name="kpe",
    cls=_Groups,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: it reads the same in a terminal, a pipe and a bug report
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
# The base of what typer's parser raises about a command line; typer exports this one child of it only.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


def _show_version(wanted: bool) -> None:
    if wanted:
        for name, number in _versions():
            write_line(f"{name} {number}")
        raise typer.Exit


def _versions() -> Iterator[tuple[str, str]]:
    """Yield the name and the version of each thing that may matter for a bug."""
    from importlib.metadata import PackageNotFoundError, version

    yield "kpe", kafka_partition_events.__version__
    for name in ("confluent-kafka", "kafka-python", "pyspark", "prometheus-client", "attrs", "structlog"):
        with contextlib.suppress(PackageNotFoundError):
            yield name, version(name)
    with contextlib.suppress(ImportError):
        from confluent_kafka import libversion

        yield "librdkafka", libversion()[0]
    yield "Python", f"{platform.python_implementation()} {sys.version.split()[0]}"
    yield "system", platform.platform()


@app.callback(
    epilog="Exit codes: 0 all is well; 1 it is not: something is wrong, different or refused; 2 error, in "
    "one line on stderr; 3 unknown, or no answer; 4 `kpe change plan`: blocked. `kpe check` has those of "
    "Nagios. `kpe COMMAND --help` has examples."
)
def top(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show what a bug report needs."
        ),
    ] = False,
) -> None:
    """See what happens to the partitions of a Kafka cluster.

    \b
    kpe demo
    kpe watch -b localhost:9092
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
    escape_unwritable()
    try:
        with sigterm_as_ctrl_c():
            code = app(
                args=list(arguments) or ["--help"],
                prog_name="kpe",
                standalone_mode=False,
                obj=services or Services(),
            )
            sys.stdout.flush()  # an error in writing the last lines is reported, too
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
        report(one_line(message), error=True)
        return EXIT_UNKNOWN if arguments[:1] == ["check"] else EXIT_ERROR  # 2 would be Nagios' CRITICAL
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        abandon_stdout()
        report(one_line(error.strerror), error=True)
        return EXIT_ERROR
    except (KeyboardInterrupt, typer.Abort):
        pass
    report("interrupted")
    return _INTERRUPTED
