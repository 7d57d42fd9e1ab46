"""``kpe doctor``: what is wrong, and the cure."""

import typer

from kafka_partition_events.cli.doctor.command import doctor_group
from kafka_partition_events.cli.doctor.partitioner import partitioner_command
from kafka_partition_events.cli.doctor.replicas import replicas_command

doctor_app = typer.Typer(rich_markup_mode=None)
doctor_app.callback(invoke_without_command=True)(doctor_group)
doctor_app.command(
    "partitioner", short_help="Which key hash a topic's writers use, and whether they disagree."
)(partitioner_command)
doctor_app.command("replicas", short_help="What of each topic can be written if a broker hangs.")(
    replicas_command
)
