"""``kpe config``: which settings are in force, and who has set them; and the outbox that they name."""

import contextlib
import getpass
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import asdict, evolve, frozen

from kafka_partition_events.acls import Right
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import ConfigFile, with_options
from kafka_partition_events.cli.common.output import Listing, tell, write_line
from kafka_partition_events.cli.common.settings import ClusterName, FileOptions, ProfileName, of_cluster
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe.audit import AuditTrail
from kafka_partition_events.observe.passwords import hash_password
from kafka_partition_events.observe.settings import Settings
from kafka_partition_events.outbox import Write
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox

config_app = typer.Typer(rich_markup_mode=None)


@frozen(kw_only=True)
class OutboxOptions:
    """Where the outbox of an observer is: a group of options."""

    outbox: Annotated[
        str | None,
        typer.Option(
            "--outbox", metavar="PATH", help="The outbox of `kpe observe`; default: that of --config."
        ),
    ] = None
    file: ConfigFile = None
    profile: ProfileName = None
    cluster_name: ClusterName = None

    def settings(self) -> Settings:
        """Return the settings in force, those of one cluster."""
        read = FileOptions(file=self.file, profile=self.profile).read().settings
        if self.outbox is None:
            return of_cluster(read, self.cluster_name)
        # Whoever names an outbox need not name its cluster, too.
        settings = read if self.cluster_name is None else of_cluster(read, self.cluster_name)
        return evolve(settings, outbox=evolve(settings.outbox, path=self.outbox))

    def path(self) -> Path:
        """Return where the outbox is.

        Raises:
            CliError: there is none.
        """
        path = Path(self.settings().outbox.path)
        if not path.exists():
            raise CliError(
                f"{path}: there is no outbox; kpe observe makes one. Name it by --outbox or --config"
            )
        return path

    def trail(self, services: Services) -> AuditTrail:
        """Return where it is written down what is done to the outbox.

        Raises:
            CliError: there is none.
        """
        return AuditTrail(self.path(), clock=services.clock)

    @contextlib.contextmanager
    def opened(self) -> Iterator[SqliteOutbox]:
        """Open the outbox that is there; a service may be at work on it.

        Raises:
            CliError: there is none.
            OutboxError: it can't be opened.
        """
        path, settings = self.path(), self.settings().outbox
        outbox = SqliteOutbox(path, max_bytes=settings.max_bytes, max_age_s=settings.max_age)
        with contextlib.closing(outbox):
            yield outbox

    def share(self, key: str, value: bytes | None) -> None:
        """Write a value for all observers of the cluster, or without an election for the one of this outbox.

        Raises:
            CliError: there is no outbox, or Kafka does not take it.
        """
        settings = self.settings()
        alone = self.outbox is not None or not settings.election.enabled
        if alone or value is None:  # what is removed may have been for this one alone
            with self.opened() as opened:
                opened.write(Write(values={key: value}))
        if alone:
            return
        from confluent_kafka import KafkaException  # noqa: PLC0415 - an extra

        from kafka_partition_events.clients.confluent.answers import error_text  # noqa: PLC0415
        from kafka_partition_events.observe.shared import share  # noqa: PLC0415

        kafka, topic = settings.kafka, settings.election.shared_topic
        config = {"bootstrap.servers": str(kafka.bootstrap_servers), **kafka.properties}
        try:
            share(config, topic, {key: value})
        except (KafkaException, TimeoutError, ConfigurationError) as error:
            needed = Right(("Write", "Create"), "topic", topic)
            refused = isinstance(error, KafkaException)
            why = error_text(error.args[0], config, needed) if refused else str(error)
            raise CliError(
                f"topic {topic} of {kafka.bootstrap_servers} does not take it: {redacted(why, config)}. With "
                "--outbox PATH it is for the observer of that outbox alone"
            ) from None


@config_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe config COMMAND --help` has examples."
)
def config() -> None:
    """See the configuration of `kpe observe`.

    \b
    kpe config show --config /etc/kpe/kpe.toml
    kpe config hash-password > /etc/kpe/prometheus.hash
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@config_app.command("show", short_help="Show each setting and where it comes from.")
@with_options
def show_command(
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Leave out defaults.")] = False,
    configuration: FileOptions,
    listing: Listing,
) -> None:
    """Show each setting of `kpe observe` and where it comes from. Secrets are masked.

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
    found = configuration.read()
    values = [v for v in found.values if not changed or v.origin != "default"]
    listing.write(
        values,
        lambda value: {**asdict(value), "value": _plain(value.value)},
        ("SETTING", "VALUE", "SET BY"),
        lambda value: (value.key, value.value or "-", value.origin),
    )
    for path in found.exposed:
        tell(f"note: {path} holds secrets, and every user of this machine can read it; run chmod o= {path}")


@config_app.command("hash-password", short_help="Make the hash of a password for [http.users].")
def hash_password_command() -> None:
    """Write the hash of a password (scrypt, salted), for [http.users]: who may read metrics.

    The password is asked for twice on a terminal; elsewhere it is the first line of standard input. It is no
    option, since every user of the machine can see a command line.

    \b
    kpe config hash-password
    kpe config hash-password < /run/secrets/scrape-password > /etc/kpe/prometheus.hash
    echo 'users = { prometheus_file = "/etc/kpe/prometheus.hash" }'       what [http] has then

    Exit codes: 0 it was written; 2 there is no password, or the two differ.
    """  # noqa: D301
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ", sys.stderr)
        if password != getpass.getpass("Once more: ", sys.stderr):
            raise CliError("the two passwords differ; nothing was written")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CliError("there is no password; type one, or give it on standard input")
    write_line(hash_password(password).text)


def _plain(text: str) -> Any:
    """Return what a TOML value says; the mask of a secret is no TOML, and an empty text is no value."""
    try:
        return tomllib.loads(f"value = {text}")["value"] if text else None
    except tomllib.TOMLDecodeError:
        return text
