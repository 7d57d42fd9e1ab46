"""Where clusters are, and how to log in there: by options, the environment, a file or a profile."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from attrs import evolve, field, frozen

from kafka_partition_events.cli.common import profiles
from kafka_partition_events.cli.common.errors import EXIT_ERROR, CliError
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import (
    Bootstrap,
    ClientOptions,
    ConfigFile,
    Verbose,
    parse_pairs,
)
from kafka_partition_events.cli.common.output import tell
from kafka_partition_events.log import get_logger
from kafka_partition_events.observe.config import Config, ConfigError, load_config
from kafka_partition_events.observe.setting_kinds import runs_code
from kafka_partition_events.observe.settings import Settings

_log = get_logger(__name__)

ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        envvar="KPE_PROFILE",
        help="Such a file, by its name; see `kpe profile`. Default: the one in use.",
    ),
]


ClusterName = Annotated[
    str | None,
    typer.Option("--cluster-name", metavar="NAME", help="Which one, of a configuration with [[clusters]]."),
]


def of_cluster(settings: Settings, name: str | None) -> Settings:
    """Return the settings of one cluster.

    Raises:
        CliError: there are several, and none or another one is named.
    """
    found = settings.by_cluster()
    if name is None and len(found) == 1:
        (only,) = found.values()
        return only
    if name is None or name not in found:
        names = ", ".join(found) if settings.clusters else "no [[clusters]]"
        asked = "say which cluster" if name is None else f"there is no cluster {name}: say which"
        raise CliError(f"{asked} by --cluster-name; the configuration has {names}")
    return found[name]


def read_config(file: Path | None, overrides: Mapping[str, str] | None = None) -> Config:
    """Return the configuration in force; if it is wrong, tell everything that is, a line each, and exit.

    Args:
        file: The TOML file, if there is one.
        overrides: What the command line says, by the settings' paths.
    """
    try:
        return load_config(file, os.environ, overrides)
    except ConfigError as error:
        for problem in error.problems:
            tell(problem)
        raise typer.Exit(EXIT_ERROR) from error


def connecting_by(settings: Settings) -> dict[str, str]:
    """Return how confluent-kafka connects by settings that tell where the brokers are."""
    return {"bootstrap.servers": str(settings.kafka.bootstrap_servers), **settings.kafka.properties}


def log_as_service(config: Config, *, verbose: bool) -> None:
    """Log as ``[log]`` says, without secrets, and tell of files that have secrets for everybody."""
    configure_logs(verbose=verbose, log=config.settings.log, secrets=config.secrets)
    for path in config.exposed:
        _log.warning("secrets_for_everybody", file=path, cure="let its owner alone read it, by chmod")


@frozen(kw_only=True)
class FileOptions:
    """Which configuration is in force: a group of options."""

    file: ConfigFile = None
    profile: ProfileName = None

    def read(self, overrides: Mapping[str, str] | None = None) -> Config:
        """Return the configuration in force, as `read_config`.

        Raises:
            CliError: there is no such profile, or both a file and a profile are named.
        """
        return read_config(profiles.chosen(self.file, self.profile), overrides)


@frozen(kw_only=True)
class ClusterOptions:
    """The cluster in question, and how to log in there: a group of options."""

    bootstrap: Bootstrap = None
    file: ConfigFile = None
    profile: ProfileName = None
    client_options: ClientOptions = None
    cluster_name: ClusterName = None
    verbose: Verbose = False

    def config(self, *, told_elsewhere: Collection[str] = ()) -> dict[str, str]:
        """Let the log be as is asked for, and return how confluent-kafka connects; as `read`."""
        return self.read(told_elsewhere=told_elsewhere)[1]

    def read(
        self, overrides: Mapping[str, str] | None = None, *, told_elsewhere: Collection[str] = ()
    ) -> tuple[Settings, dict[str, str]]:
        """Let the log be as is asked for, and return the settings, and how confluent-kafka connects by them.

        Brokers that are named are not asked with the login of the profile in use: it may be another
        cluster's. One that is named, too, is meant.

        Args:
            overrides: What other options say, by the settings' paths.
            told_elsewhere: As `configure_logs` has it.

        Raises:
            CliError: no brokers are named; or as `FileOptions.read`.
        """
        settings = self.load(overrides, told_elsewhere=told_elsewhere).settings
        return settings, connecting_by(settings)

    def load(
        self,
        overrides: Mapping[str, str] | None = None,
        *,
        told_elsewhere: Collection[str] = (),
        each: bool = False,
    ) -> Config:
        """Let the log be as is asked for, and return the configuration; as `read`.

        Args:
            overrides: As `read` has them.
            told_elsewhere: As `configure_logs` has it.
            each: Whether to leave it at all clusters where the configuration has several and none is named.
        """
        configure_logs(verbose=self.verbose, told_elsewhere=told_elsewhere)
        typed = {
            f"kafka.properties.{name}": value
            for name, value in parse_pairs(self.client_options or ()).items()
        }
        if self.bootstrap is not None:
            if not self.bootstrap.strip(", "):
                raise CliError("no broker is given; write -b HOST:PORT")
            typed["kafka.bootstrap_servers"] = self.bootstrap
        file = profiles.chosen(self.file, self.profile, implied=self.bootstrap is None)
        config = read_config(file, {**typed, **(overrides or {})})
        if each and config.settings.clusters and self.cluster_name is None:
            return config
        settings = of_cluster(config.settings, self.cluster_name)
        if settings.kafka.bootstrap_servers is None:
            raise CliError(
                "no brokers are named: give -b HOST:PORT, or choose a profile (kpe profile use "
                "NAME), or set bootstrap_servers in [kafka] of --config FILE, or KPE_BOOTSTRAP_SERVERS"
            )
        return evolve(config, settings=settings)


@frozen(kw_only=True)
class ControlTopics:
    """Where the control topics are.

    Attributes:
        config: How confluent-kafka connects to the cluster in question,
        control: and to the one with the control topics.
        prefix: What their names begin with.
        settings: All settings.
        loaded: The same with where they come from.
    """

    config: dict[str, str] = field(repr=False)
    control: dict[str, str] = field(repr=False)
    prefix: str
    settings: Settings
    loaded: Config


@frozen(kw_only=True)
class ControlOptions(ClusterOptions):
    """A cluster, and where its control topics are: a group of options."""

    control_bootstrap: Annotated[
        str | None,
        typer.Option(
            "--control-bootstrap",
            metavar="HOST:PORT[,...]",
            help="Brokers of the control topics, if they are elsewhere.",
        ),
    ] = None
    control_options: Annotated[
        list[str] | None,
        typer.Option(
            "--control-option",
            metavar="KEY=VALUE",
            help="As -X, for --control-bootstrap; wins over -X there.",
        ),
    ] = None
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="TEXT", help="What the control topics begin with. Default: kpe."),
    ] = None

    def find(
        self, overrides: Mapping[str, str] | None = None, *, told_elsewhere: Collection[str] = ()
    ) -> ControlTopics:
        """Return where the control topics are: by options, by the file, or on the cluster in question.

        Args:
            overrides: What other options say, by the settings' paths.
            told_elsewhere: As `configure_logs` has it.

        Raises:
            CliError: as `ClusterOptions.read`; or something is said of a cluster that is not named.
        """
        loaded = self.load(overrides, told_elsewhere=told_elsewhere)
        settings, config = loaded.settings, connecting_by(loaded.settings)
        return ControlTopics(
            config=config,
            control=self._control(settings, config),
            prefix=settings.control.prefix if self.prefix is None else self.prefix,
            settings=settings,
            loaded=loaded,
        )

    def _control(self, settings: Settings, config: dict[str, str]) -> dict[str, str]:
        options: Sequence[str] = self.control_options or ()
        if (there := self.control_bootstrap) is not None:
            if not there.strip(", "):
                raise CliError("no broker is given; write --control-bootstrap HOST:PORT")
            typed = parse_pairs(options)
            for name, value in typed.items():
                if runs_code(name, value) and not settings.kafka.allow_code:
                    raise CliError(
                        f"--control-option {name}: this setting runs code; "
                        "set kafka.allow_code = true in --config if that is meant"
                    )
            return {**config, **typed, "bootstrap.servers": there}
        if options:
            raise CliError("--control-option is for the cluster of --control-bootstrap; write -X")
        if settings.control.bootstrap_servers is None:
            return config
        return {**settings.control.properties, "bootstrap.servers": settings.control.bootstrap_servers}
