"""The line by which spark-submit runs on a cluster what ``kpe spark`` was told to do."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.common.errors import needing

SCRIPT: Final = Path(__file__).parents[2] / "spark" / "submit" / "kpe_spark.py"
"""What spark-submit runs: ``kpe spark ...`` on the Spark that it gives."""

_PRINT_SUBMIT: Final = "--print-submit"
_SECRETS: Final = "-X"

PrintSubmit = Annotated[
    bool, typer.Option(_PRINT_SUBMIT, help="Print the line for spark-submit, and do nothing else.")
]


def submit_line(context: typer.Context, *, kafka: bool, tables: bool = True) -> str:
    """Return the line. It has the options that were given; of Kafka's (-X) the names, not the values.

    Args:
        context: The command's.
        kafka: Whether the job needs Spark's Kafka connector.
        tables: Whether it needs Delta.

    Raises:
        CliError: PySpark is missing, whose version the line must name.
    """
    with needing("spark"):
        from kafka_partition_events.spark.kafka import CONNECTOR, DELTA  # noqa: PLC0415 - needs PySpark
        from kafka_partition_events.spark.session import DELTAS  # noqa: PLC0415
    packages = [*([CONNECTOR] if kafka else []), *([DELTA] if tables else [])]
    options = ["--packages", ",".join(packages)] if packages else []
    for name, value in DELTAS.items() if tables else ():
        options += ["--conf", f"{name}={value}"]
    command = context.info_name or ""
    return shlex.join(["spark-submit", *options, str(SCRIPT), command, *_given(context)])


def _given(context: typer.Context) -> Iterator[str]:
    for parameter in context.command.params:
        name, option = str(parameter.name), parameter.opts[0]
        source = context.get_parameter_source(name)
        if option == _PRINT_SUBMIT or source is None or source.name in {"DEFAULT", "DEFAULT_MAP"}:
            continue
        value = context.params[name]
        if value is True:
            yield option
        else:
            for each in value if isinstance(value, list) else [value]:
                yield option
                yield f"{str(each).partition('=')[0]}=..." if option == _SECRETS else str(each)
