"""``kpe outbox``: whether the file of an observer is sound, and a new one in place of one that is not."""

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import tell, write_line
from kafka_partition_events.cli.observe.config import OutboxOptions
from kafka_partition_events.cli.services.services import Services
from kafka_partition_events.observe.outbox_lock import locked
from kafka_partition_events.outbox.sqlite_file import damage_of, set_aside

outbox_app = typer.Typer(rich_markup_mode=None)


@outbox_app.callback(
    epilog="Exit codes: 0 all is well; 1 it is damaged; 2 error, in one line on stderr. "
    "`kpe outbox COMMAND --help` has examples."
)
def outbox() -> None:
    """Check the outbox of `kpe observe`, and put a damaged one aside.

    \b
    kpe outbox check --config kpe.toml
    kpe outbox set-aside --config kpe.toml
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@outbox_app.command("check", short_help="Check whether the file is sound.")
@with_options
def check_command(*, where: OutboxOptions) -> None:
    """Read the whole outbox, and check whether the file is sound. An observer may be using it.

    \b
    kpe outbox check --config /etc/kpe/kpe.toml
    kpe outbox check --outbox /var/lib/kpe/outbox.db && echo sound

    Exit codes: 0 it is sound; 1 it is damaged; 2 there is none, or it can't be read.
    """  # noqa: D301
    path = where.path()
    if (damage := damage_of(path)) is not None:
        tell(f"{path} is damaged ({one_line(damage)}): stop the observer, then run kpe outbox set-aside")
        raise typer.Exit(EXIT_DIFFERENT)
    write_line(f"{path} is sound")


@outbox_app.command("set-aside", short_help="Rename a damaged file; a new one is begun.")
@with_options
def set_aside_command(context: typer.Context, *, where: OutboxOptions) -> None:
    """Rename an outbox that is damaged to NAME.corrupt-TIME, so that the observer begins a new one.

    The observer must have been stopped. With the old file go what was not delivered yet, silences, and how
    far each sink was: the new one begins with what happens from then on. A sound outbox is left alone.

    \b
    kpe outbox set-aside --config /etc/kpe/kpe.toml
    kpe outbox set-aside --outbox /var/lib/kpe/outbox.db && systemctl start kpe

    Exit codes: 0 it was renamed, and its new name was written; 2 it is sound, or an observer works on it.
    """  # noqa: D301
    services: Services = context.obj
    path = where.path()
    with locked(str(path)), where.trail(services).act("outbox.set_aside", outbox=str(path)) as told:
        aside = set_aside(path, services.clock.now())
        told["renamed_to"] = aside and str(aside)
    if aside is None:
        raise CliError(f"{path} is sound, and was left alone; rename it yourself if you want a new one")
    write_line(str(aside))
