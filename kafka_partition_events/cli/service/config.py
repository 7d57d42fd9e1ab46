"""``kpe config``: which settings are in force, and who has set them."""

import os

import typer
from attrs import asdict

from kafka_partition_events.cli.common.options import ConfigFile, with_options
from kafka_partition_events.cli.common.output import OutputChoice, write_list
from kafka_partition_events.cli.common.settings import read_config
from kafka_partition_events.observe.setting_kinds import shown

config_app = typer.Typer(rich_markup_mode=None)


@config_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe config COMMAND --help` has examples."
)
def config() -> None:
    """See the configuration of `kpe observe`.

    \b
    kpe config show --config /etc/kpe/kpe.toml
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@config_app.command("show", short_help="Show what is set, and where it comes from.")
@with_options
def show_command(*, file: ConfigFile = None, output: OutputChoice = None) -> None:
    """Show each setting of `kpe observe` that is set, and where. Secrets are masked.

    \b
    kpe config show --config /etc/kpe/kpe.toml
    KPE_OBSERVER__INTERVAL=5s kpe config show --config kpe.toml
    kpe config show --config kpe.toml | jq -r 'select(.key == "outbox.path") | .value'

    -b and -X of `kpe observe` win over the environment, that over the file, that over the defaults. The
    environment names a setting by its path, in capitals and with two underscores between the parts. A
    secret may stand in a file of its own: `url_file = "/run/secrets/url"` instead of `url = "..."`.

    Exit codes: 0 shown; 2 something is wrong in it: each error in a line.
    """  # noqa: D301
    write_list(
        read_config(file or os.environ.get("KPE_CONFIG")).values,
        output,
        asdict,
        ("SETTING", "VALUE", "SET BY"),
        lambda setting: (setting.key, shown(setting.value), setting.origin),
    )
