"""``kpe profile``: clusters by name, so that nobody types brokers and logins again and again."""

import os
from typing import Annotated, Any

import typer
from attrs import frozen

from kafka_partition_events.cli.common import profiles
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import read_config
from kafka_partition_events.observe.config import ConfigError, load_config

profile_app = typer.Typer(rich_markup_mode=None)


@profile_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe profile COMMAND --help` has examples."
)
def profile() -> None:
    """Call clusters by names.

    A profile is a file NAME.toml in ~/.config/kpe, of the form that `kpe observe` has; `kpe assets export`
    has an example, and two sections are enough:

    \b
    [kafka]
    bootstrap_servers = "broker-1:9093,broker-2:9093"
    [kafka.properties]
    "security.protocol" = "SASL_SSL"
    "sasl.password_file" = "/run/secrets/kafka"
    [control]
    bootstrap_servers = "audit:9093"           if the control topics are on another cluster

    Every command takes --profile NAME, or KPE_PROFILE, and else the one in use. Where -b names the brokers,
    the one in use is not read: its login is not for them.

    \b
    kpe profile ls
    kpe profile use prod
    kpe change ls
    kpe change ls --profile test
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@frozen
class _Profile:
    name: str
    used: bool
    bootstrap_servers: str | None = None
    trouble: str | None = None


@profile_app.command("ls", short_help="List profiles.")
@with_options
def ls_command(
    listing: Listing,
) -> None:
    """List profiles: name, whether it is in use, brokers.

    \b
    kpe profile ls

    Exit codes: 0 listed, even if there are none; 1 one of them can't be read, and why; 2 unknown option.
    """  # noqa: D301
    used = profiles.in_use()
    found = [_looked_into(name, used=name == used) for name in profiles.names()]
    listing.write(found, _document, ("NAME", "IN USE", "BROKERS"), _cells)
    if not found:
        tell(f"note: there are no profiles in {profiles.directory()}")
    for each in found:
        if each.trouble is not None:
            tell(each.trouble)
    if any(each.trouble for each in found):
        raise typer.Exit(1)


@profile_app.command("use", short_help="Use a profile from now on.")
def use_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="As `kpe profile ls` shows it.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use none from now on.")] = False,
) -> None:
    """Use a profile from now on, wherever neither -b nor --config nor --profile is given.

    \b
    kpe profile use prod
    kpe profile use --none

    Exit codes: 0 done; 2 there is no such profile, or it can't be written which one is in use.
    """  # noqa: D301
    if (name is None) != none:
        raise CliError("say which profile: a NAME, or --none")
    profiles.use(name)
    tell(
        "no profile is in use"
        if name is None
        else f"profile {name} is in use: {_brokers(name) or 'no brokers'}"
    )


def _looked_into(name: str, *, used: bool) -> _Profile:
    try:
        found = load_config(profiles.path_of(name), os.environ)
    except ConfigError as error:
        return _Profile(name, used, trouble="; ".join(error.problems))
    return _Profile(name, used, found.settings.kafka.bootstrap_servers)


def _brokers(name: str) -> str | None:
    return read_config(profiles.path_of(name)).settings.kafka.bootstrap_servers


def _document(found: _Profile) -> dict[str, Any]:
    return {
        "kind": "profile",
        "name": found.name,
        "in_use": found.used,
        "bootstrap_servers": found.bootstrap_servers,
        "trouble": found.trouble,
    }


def _cells(found: _Profile) -> tuple[str, ...]:
    return found.name, "*" if found.used else "", found.bootstrap_servers or "-"
