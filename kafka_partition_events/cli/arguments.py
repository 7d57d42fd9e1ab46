"""Options that several commands share."""

from typing import Annotated

import typer

from kafka_partition_events.cli.output import Output

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="KPE_BOOTSTRAP_SERVERS",
        help="Brokers to ask first.",
    ),
]
OptionalBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        "-b",
        metavar="HOST:PORT[,...]",
        envvar="KPE_BOOTSTRAP_SERVERS",
        help="Brokers to ask first.",
    ),
]
ClientOptions = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        help="An option of confluent-kafka (librdkafka), for TLS, SASL and the like; repeat it for more. "
        "KEY_file=PATH has its value in a file. Values are never shown or logged.",
    ),
]
Topics = Annotated[
    str | None,
    typer.Option(
        "--topic",
        metavar="REGEX",
        help="Only topics whose whole name matches: 'orders' is one topic, 'orders.*' a family.",
    ),
]
OutputChoice = Annotated[
    Output | None,
    typer.Option("--output", help="Default: table on a terminal, jsonl (one JSON object a line) in a pipe."),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log everything to stderr.")]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE.toml", envvar="KPE_CONFIG", help="The configuration of `kpe observe`."
    ),
]
