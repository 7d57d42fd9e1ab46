"""``kpe snapshot``: what the cluster is, to be kept."""

import json

import typer

from kafka_partition_events.cli.common.options import Topics, with_options
from kafka_partition_events.cli.common.output import write_json
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import Services, read_cluster
from kafka_partition_events.events.snapshot_json import Snapshot, encode_snapshot


@with_options
def snapshot_command(context: typer.Context, *, topics: Topics = None, where: ClusterOptions) -> None:
    """Write the cluster's brokers, topics and partitions to standard output, as JSON.

    \b
    kpe snapshot -b localhost:9092 > before.json
    kpe snapshot -b localhost:9092 | jq '.topics | length'

    Nothing is written before all is known. The format has a version; `kpe diff` reads it.

    Exit codes: 0 written; 2 no such topic, wrong address, refused login, unknown option.
    """  # noqa: D301
    services: Services = context.obj
    cluster = read_cluster(services, where.config(), topics)
    document = encode_snapshot(Snapshot(cluster, services.clock.now()))
    write_json(json.dumps(document, indent=1, ensure_ascii=False))
