"""``kpe change``: ask for more partitions of a topic, follow the change, and take it back."""

from typing import ClassVar

import typer

from kafka_partition_events.cli.common.lazy_group import LazyGroup


class _ChangeCommands(LazyGroup):
    table: ClassVar = {
        "plan": ("change.plan:plan_command", "Show what a change would do."),
        "request": ("change.request:request_command", "Request a change."),
        "apply": ("change.request:apply_command", "Request what a file says, in a pipeline."),
        "ls": ("change.show:ls_command", "List changes."),
        "show": ("change.show:show_command", "Show one change: who has followed."),
        "wait": ("change.wait:wait_command", "Wait until it is over."),
        "cancel": ("change.cancel:cancel_command", "Take back what has not happened."),
    }


change_app = typer.Typer(cls=_ChangeCommands, rich_markup_mode=None)


@change_app.callback(
    epilog="Exit codes: 0 done; 1 refused, with the reason; 2 error, in one line on stderr; 3 no tracker has "
    "answered. Those of plan and wait are their own."
)
def change() -> None:
    """Grow a topic while producers wait for consumers, and see who has followed.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change request -b localhost:9092 --topic orders --to 24 --execute
    kpe change wait -b localhost:9092 orders-24-8f3c09d1

    `kpe tracker` carries it out; applications with the library follow.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
