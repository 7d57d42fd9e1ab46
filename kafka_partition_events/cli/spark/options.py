"""Options that several of the commands on the fleet's tables have."""

from typing import Annotated

import typer

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
Cores = Annotated[int, typer.Option(min=1, metavar="N", help="Threads, if Spark runs here.")]
