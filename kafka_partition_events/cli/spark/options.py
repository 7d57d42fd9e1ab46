"""Options that several of the commands on the fleet's tables have, and what was typed made into values."""

import math
import os
import re
from decimal import Decimal
from typing import Annotated, Final

import typer

from kafka_partition_events.cli.common.errors import CliError

EXTRAS: Final = "cli,spark"
"""What the pipeline needs."""

CORES: Final = os.cpu_count() or 2
"""Threads, if Spark runs here."""

_PERCENT: Final = re.compile(r"(\d+(?:\.\d+)?)%")

Out = Annotated[
    str,
    typer.Option(
        metavar="DIR",
        help="Where the tables are, as Spark names it: /data/kpe, hdfs:///kpe. With --work a schema of a "
        "catalog: CATALOG.SCHEMA.",
    ),
]
Work = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where checkpoints are kept, if --out is a schema of a catalog."),
]
Target = Annotated[
    str, typer.Option(metavar="PERCENT", help="How much of the time partitions are to be online.")
]
JavaOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="An option of Kafka's Java client (security.protocol=SSL); repeat it for more. "
        "Values are never shown or logged.",
    ),
]


def parse_target(text: str) -> float:
    """Return the part that ``99.9%`` means.

    Raises:
        CliError: it means none between 0% and 100%, both excluded.
    """
    found = _PERCENT.fullmatch(text.strip())
    # Not by floats, where 99.9 / 100 is a little more than 0.999.
    target = float(Decimal(found[1]) / 100) if found else math.nan
    if not 0 < target < 1:
        raise CliError(f"{text!r} is no availability; write a percentage below 100, such as 99.9%")
    return target
