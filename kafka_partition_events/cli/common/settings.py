"""Where clusters are, and how to log in there: by options, the environment or a file."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from attrs import field, frozen

from kafka_partition_events.cli.common.errors import EXIT_ERROR, CliError
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    ClientOptions,
    ConfigFile,
    Verbose,
    parse_pairs,
)
from kafka_partition_events.cli.common.output import report

if TYPE_CHECKING:
    from kafka_partition_events.observe.config import Config
    from kafka_partition_events.observe.settings import Settings

OF_A_CLUSTER: Final = frozenset({"kafka", "log"})
"""The sections that every command that asks a cluster uses."""
OF_CONTROL: Final = OF_A_CLUSTER | {"control"}
"""Those of commands of change control."""


def read_config(
    file: str | None, overrides: Mapping[str, str] | None = None, sections: Collection[str] | None = None
) -> "Config":
    """Return the configuration in force; if it is wrong, report every error, a line each, and exit.

    Args:
        file: The TOML file, if there is one.
        overrides: What the command line says, by the settings' paths.
        sections: Those that are used; None: all.
    """
    from kafka_partition_events.observe.config import ConfigError, load_config
    from kafka_partition_events.observe.settings import ALL

    used = ALL if sections is None else sections
    try:
        return load_config(Path(file) if file else None, os.environ, overrides, used)
    except ConfigError as error:
        for problem in error.problems:
            report(problem)
        raise typer.Exit(EXIT_ERROR) from error


def connecting_by(settings: "Settings") -> dict[str, str]:
    """Return how confluent-kafka connects to the brokers that settings name."""
    return {"bootstrap.servers": str(settings.kafka.bootstrap_servers), **settings.kafka.properties}


def log_as_service(config: "Config", *, verbose: bool) -> None:
    """Log as ``[log]`` says, without secrets."""
    from kafka_partition_events.cli.common.logs import configure_logs

    configure_logs(verbose=verbose, log=config.settings.log, secrets=config.secrets)


@frozen(kw_only=True)
class ClusterOptions:
    """The cluster in question, and how to log in there: a group of options."""

    bootstrap: Bootstrap = None
    file: ConfigFile = None
    client_options: ClientOptions = None
    verbose: Verbose = False

    def config(self) -> dict[str, str]:
        """Let the log be as is asked for, and return how confluent-kafka connects; as `load`."""
        return connecting_by(self.load().settings)

    def load(self, *, sections: Collection[str] | None = OF_A_CLUSTER) -> "Config":
        """Let the log be as is asked for, and return the configuration.

        Brokers that are typed are not asked with the login of the file that KPE_CONFIG names: it may be
        another cluster's. A file that is typed, too, is meant.

        Args:
            sections: Those that are used, None: all; what is wrong with others is passed over.

        Raises:
            CliError: no brokers are named.
        """
        from kafka_partition_events.cli.common.logs import configure_logs

        configure_logs(verbose=self.verbose)
        typed = {
            f"kafka.properties.{name}": value
            for name, value in parse_pairs(self.client_options or ()).items()
        }
        if self.bootstrap is not None:
            if not self.bootstrap.strip(", "):
                raise CliError("no broker is given; write -b HOST:PORT")
            typed["kafka.bootstrap_servers"] = self.bootstrap
        implied = os.environ if self.bootstrap in {None, os.environ.get("KPE_BOOTSTRAP_SERVERS")} else {}
        file = self.file or implied.get("KPE_CONFIG")
        config = read_config(file, typed, sections)
        if config.settings.kafka.bootstrap_servers is None:
            raise CliError(
                "no brokers are named: give -b HOST:PORT, or set bootstrap_servers in [kafka] of --config "
                "FILE, KPE_CONFIG or KPE_BOOTSTRAP_SERVERS"
            )
        return config


@frozen(kw_only=True)
class ControlTopics:
    """Where the control topics are.

    Attributes:
        config: How confluent-kafka connects to the cluster.
        prefix: What the names of the control topics begin with.
        loaded: All settings.
    """

    config: dict[str, str] = field(repr=False)
    prefix: str
    loaded: "Config"


@frozen(kw_only=True)
class ControlOptions(ClusterOptions):
    """A cluster, and where its control topics are: a group of options."""

    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="TEXT", help="What the control topics begin with. Default: kpe."),
    ] = None

    def find(self, *, sections: Collection[str] = OF_CONTROL) -> ControlTopics:
        """Return where the control topics are; as `load`.

        Raises:
            ConfigurationError: Kafka allows no topic of such a name.
        """
        from kafka_partition_events.control.protocol.topics import control_topics

        loaded = self.load(sections=sections)
        prefix = loaded.settings.control.prefix if self.prefix is None else self.prefix
        control_topics(prefix)
        return ControlTopics(config=connecting_by(loaded.settings), prefix=prefix, loaded=loaded)
