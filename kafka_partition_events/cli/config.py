"""``kpe config``: which settings are in force, and who has set them."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import asdict

from kafka_partition_events.cli.arguments import ConfigFile, OutputChoice
from kafka_partition_events.cli.errors import EXIT_ERROR, CliError
from kafka_partition_events.cli.options import parse_pairs
from kafka_partition_events.cli.output import Output, choose_output, tell, write_json_line, write_line
from kafka_partition_events.observe.config import Config, ConfigError, load_config
from kafka_partition_events.observe.settings import Settings

config_app = typer.Typer(rich_markup_mode=None)


@config_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, told in one line on stderr. "
    "`kpe config COMMAND --help` has examples."
)
def config() -> None:
    """See the configuration of `kpe observe`.

    \b
    kpe config show --config /etc/kpe/kpe.toml
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@config_app.command("show", short_help="Show each setting and who has set it.")
def show_command(
    file: ConfigFile = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what somebody has set; no defaults.")
    ] = False,
    output: OutputChoice = None,
) -> None:
    """Show each setting of `kpe observe` and who has set it. Secrets are masked.

    Options of `kpe observe` win over the environment, that over the file, that over the defaults. The
    environment names a setting by its path, in capitals and with two underscores between the parts. A
    secret may stand in a file of its own: `url_file = "/run/secrets/url"` instead of `url = "..."`.

    \b
    kpe config show --config /etc/kpe/kpe.toml
    kpe config show --config kpe.toml --changed
    KPE_OBSERVER__INTERVAL=5s KPE_SINKS__PAGER__URL_FILE=/run/secrets/url kpe config show --config kpe.toml
    kpe config show --config kpe.toml | jq -r 'select(.key == "outbox.path") | .value'

    Exit codes: 0 shown; 2 something is wrong in it: each error in a line, with the nearest setting for one
    that does not exist.
    """  # noqa: D301
    values = [v for v in read_config(file).values if not changed or v.origin != "default"]
    if choose_output(output) is Output.JSONL:
        for value in values:
            write_json_line({**asdict(value), "value": _plain(value.value)})
        return
    key_width = max((len(value.key) for value in values), default=0)
    text_width = max((len(value.value) for value in values), default=0)
    for value in values:
        text = value.value or "-"
        write_line(f"{value.key:<{key_width}}  {text:<{text_width}}  {value.origin}")


def _plain(text: str) -> Any:
    """Return what a TOML value says; the mask of a secret is no TOML, and an empty text is no value."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if text else None
    except tomllib.TOMLDecodeError:
        return text


def read_config(file: str | None, overrides: Mapping[str, str] | None = None) -> Config:
    """Return the configuration in force; if it is wrong, tell everything that is, a line each, and exit.

    Args:
        file: The TOML file, if one is named.
        overrides: What the command line says, by the settings' paths.
    """
    try:
        return load_config(None if file is None else Path(file), os.environ, overrides)
    except ConfigError as error:
        for problem in error.problems:
            tell(problem)
        raise typer.Exit(EXIT_ERROR) from error


def read_connection(
    file: str | None,
    bootstrap: str | None,
    client_options: Sequence[str] | None,
    more: Mapping[str, str] | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Return the settings, and how confluent-kafka connects by them.

    Args:
        file: The TOML file, if one is named.
        bootstrap: What ``-b`` says.
        client_options: What ``-X`` says.
        more: What other options say, by the settings' paths.

    Raises:
        CliError: nobody says where the brokers are.
    """
    typed = parse_pairs(client_options or ())
    overrides = {f"kafka.properties.{name}": value for name, value in typed.items()}
    if bootstrap is not None:
        overrides["kafka.bootstrap_servers"] = bootstrap
    settings = read_config(file, {**overrides, **(more or {})}).settings
    if settings.kafka.bootstrap_servers is None:
        raise CliError(
            "nobody says where the brokers are: give -b HOST:PORT, or set bootstrap_servers in [kafka] of "
            "--config FILE, or KPE_KAFKA__BOOTSTRAP_SERVERS"
        )
    return settings, {"bootstrap.servers": settings.kafka.bootstrap_servers, **settings.kafka.properties}
