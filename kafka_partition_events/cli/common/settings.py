"""The settings in force, for commands: options win over the environment, that over a file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from kafka_partition_events.cli.common.errors import EXIT_ERROR, CliError
from kafka_partition_events.cli.common.options import parse_pairs
from kafka_partition_events.cli.common.output import tell
from kafka_partition_events.observe.config import Config, ConfigError, load_config
from kafka_partition_events.observe.settings import Settings


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
