"""``kpe events``: what the outbox of `kpe observe` holds; to be listed, followed, and delivered again."""

from typing import ClassVar

import typer

from kafka_partition_events.cli.common.lazy_group import LazyGroup


class _EventsGroup(LazyGroup):
    table: ClassVar = {
        "ls": ("events.ls:ls_command", "List events."),
        "follow": ("events.follow:follow_command", "Show events as they are recorded."),
        "replay": ("events.replay:replay_command", "Deliver events again."),
    }


events_app = typer.Typer(cls=_EventsGroup, rich_markup_mode=None)


@events_app.callback(
    epilog="Exit codes: 0 all is well; 1 a sink refused some; 2 error, in one line on stderr. "
    "`kpe events COMMAND --help` has examples."
)
def events() -> None:
    """List what `kpe observe` has recorded, and deliver it again. The service may be running.

    \b
    kpe events ls --outbox /var/lib/kpe/outbox.db --since 2h --type 'partition.*'
    kpe events follow --config /etc/kpe/kpe.toml
    kpe events replay --config /etc/kpe/kpe.toml --since 2h --sink pager
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
