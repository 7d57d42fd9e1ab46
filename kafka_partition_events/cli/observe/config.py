"""``kpe config``: which settings are in force, and who has set them; and the outbox that they name."""

import contextlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.common.options import ConfigFile, OutputChoice
from kafka_partition_events.cli.common.output import Output, choose_output, write_json_line, write_line
from kafka_partition_events.cli.common.settings import read_config
from kafka_partition_events.outbox.sqlite_outbox import SqliteOutbox

config_app = typer.Typer(rich_markup_mode=None)


OutboxFile = Annotated[
    str | None,
    typer.Option(
        "--outbox",
        metavar="PATH",
        help="The outbox of `kpe observe`; by default --config tells.",
    ),
]


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


@contextlib.contextmanager
def opened_outbox(path: str | None, config: str | None) -> Iterator[SqliteOutbox]:
    """Open the outbox that is there; a service may be at work on it.

    Raises:
        CliError: there is none.
        OutboxError: it can't be opened.
    """
    settings = read_config(config, None if path is None else {"outbox.path": path}).settings.outbox
    if not Path(settings.path).exists():
        raise CliError(
            f"{settings.path}: there is no outbox; kpe observe makes one. Name it with --outbox or --config"
        )
    outbox = SqliteOutbox(settings.path, max_bytes=settings.max_bytes, max_age_s=settings.max_age)
    with contextlib.closing(outbox):
        yield outbox
