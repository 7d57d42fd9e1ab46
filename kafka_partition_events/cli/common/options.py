"""Options that several commands share, and what was typed made into values: durations, settings."""

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import NOTHING, fields, has

from kafka_partition_events.cli.common.completing import topic_names
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.clients.librdkafka import FromFile
from kafka_partition_events.observe import quantities
from kafka_partition_events.observe.setting_kinds import Address, read, secret_property

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="KPE_BOOTSTRAP_SERVERS",
        help="Brokers to connect to first.",
    ),
]
ClientOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="An option of confluent-kafka (librdkafka), for TLS, SASL and the like; repeat it for more. "
        "KEY_file=PATH has its value in a file, as a secret must. Values are never shown or logged.",
    ),
]
Topics = Annotated[
    str | None,
    typer.Option(
        "--topics",
        metavar="REGEX",
        autocompletion=topic_names,
        help="Only topics whose whole name matches: 'orders' is one topic, 'orders.*' a family.",
    ),
]
StopAfter = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Stop after this time.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log everything to stderr.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE.toml",
        help="The configuration, as `kpe observe` has it: [kafka] names the brokers. Default: KPE_CONFIG.",
    ),
]

_FILE = "_file"
_OPTION_NAME = re.compile(r"[A-Za-z0-9._-]+")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command have groups of options.

    A parameter that is annotated with an attrs class stands for a group: its fields are options of the
    command, and what was typed arrives as one object.
    """
    parameters = inspect.signature(command).parameters
    groups = {name: each.annotation for name, each in parameters.items() if has(each.annotation)}
    expanded: list[inspect.Parameter] = []
    for name, each in parameters.items():
        if name not in groups:
            expanded.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        expanded += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if field.default is NOTHING else field.default,
                annotation=field.type,
            )
            for field in fields(groups[name])
        ]

    @functools.wraps(command)
    def grouped(**typed: Any) -> None:
        for name, group in groups.items():
            typed[name] = group(**{field.name: typed.pop(field.name) for field in fields(group)})
        command(**typed)

    grouped.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    grouped.__annotations__ = {each.name: each.annotation for each in expanded}
    return grouped


def behind_subcommand(context: typer.Context) -> bool:
    """Return whether a command of this group was typed, whose options are its own.

    Raises:
        CliError: options stand before it, where they would be lost.
    """
    if (name := context.invoked_subcommand) is None:
        return False
    sources = map(context.get_parameter_source, context.params)
    if any(source is not None and source.name == "COMMANDLINE" for source in sources):
        raise CliError(f"write `{context.command_path} {name} ...` and its options behind that")
    return True


def parse_duration(text: str) -> float:
    """Return the seconds that a text such as ``500ms``, ``5s``, ``10m``, ``1h`` or ``7d`` means.

    Raises:
        CliError: it means none, or no time at all.
    """
    try:
        return quantities.parse_duration(text)
    except ValueError as error:
        raise CliError(str(error)) from None


def parse_address(text: str, option: str) -> tuple[str, int]:
    """Return the host and the port that an option names.

    Raises:
        CliError: it names none.
    """
    try:
        host, port = read(Address, text)
    except ValueError as error:
        raise CliError(f"{option}: {error}") from None
    return str(host), int(port)


def parse_pairs(pairs: Iterable[str]) -> dict[str, str]:
    """Return the properties that ``-X key=value ...`` names; ``key_file=path`` has the value in a file.

    Raises:
        CliError: a pair has no ``=``; the message does not repeat it, because it may be a password. Or it is
            a secret without a file, or about the brokers, or the file can't be read.
    """
    config: dict[str, str] = {}
    for place, pair in enumerate(pairs, start=1):
        name, equals, value = pair.partition("=")
        if not equals or not _OPTION_NAME.fullmatch(name):
            raise CliError(f"-X number {place} is not of the form key=value")
        if name == "bootstrap.servers":
            raise CliError("give the brokers with -b, not with -X bootstrap.servers")
        if name.endswith(_FILE):
            name, value = name.removesuffix(_FILE), _in_file(name, value)
        elif secret_property(name):
            raise CliError(
                f"-X {name}: every user of this machine can see a command line; write its value into a file "
                f"and give -X {name}{_FILE}=PATH"
            )
        config[name] = value
    return config


def _in_file(name: str, path: str) -> str:
    try:
        return FromFile.read(path)
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "not a text file"
        raise CliError(f"-X {name}: {path}: {cause}") from None


def check_out(file: Path) -> None:
    """Check that a file can be written, before the work that goes into it.

    Raises:
        CliError: it can't be.
    """
    directory = file.resolve().parent
    if not directory.is_dir():
        raise CliError(f"{file}: there is no such directory to write to")
    if file.is_dir():
        raise CliError(f"{file} is a directory; name a file")
    if not os.access(file if file.exists() else directory, os.W_OK):
        raise CliError(f"{file}: no right to write there")
