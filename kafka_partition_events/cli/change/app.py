"""``kpe change``: ask for more partitions of a topic, follow the change, and take it back."""

import typer

from kafka_partition_events.cli.change.cancel import cancel_command
from kafka_partition_events.cli.change.plan import plan_command
from kafka_partition_events.cli.change.request import apply_command, request_command
from kafka_partition_events.cli.change.show import ls_command, show_command
from kafka_partition_events.cli.change.wait import wait_command

change_app = typer.Typer(rich_markup_mode=None)
change_app.command("plan", short_help="Show what a change would do.")(plan_command)
change_app.command("request", short_help="Request a change.")(request_command)
change_app.command("apply", short_help="Request what a file says, in a pipeline.")(apply_command)
change_app.command("ls", short_help="List changes.")(ls_command)
change_app.command("show", short_help="Show one change: who has followed.")(show_command)
change_app.command("wait", short_help="Wait until producers are ready, or until it is over.")(wait_command)
change_app.command("cancel", short_help="Take back what has not happened, or end the waiting.")(
    cancel_command
)


@change_app.callback(
    epilog="Exit codes: 0 done; 1 refused, with the reason; 2 error, in one line on stderr; 3 no tracker has "
    "answered. Those of plan and wait are their own."
)
def change() -> None:
    """Grow a topic while producers wait for consumers, and see who has followed.

    \b
    kpe change plan -b localhost:9092 --topic orders --to 24
    kpe change request -b localhost:9092 --topic orders --to 24 --execute
    kpe change wait -b localhost:9092 01JD5V1ZJ8Q0000000000000AB

    `kpe tracker` carries it out; applications with the library follow.
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"
