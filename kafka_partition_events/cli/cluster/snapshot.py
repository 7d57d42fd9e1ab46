"""``kpe snapshot`` and ``kpe diff``: keep what the cluster is, compare what it was."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from attrs import evolve

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError
from kafka_partition_events.cli.common.options import TopicFilter, Topics, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    Printer,
    choose_output,
    tell,
    write_json,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import Services, look_once
from kafka_partition_events.events.codec import CodecError
from kafka_partition_events.events.snapshot_json import Snapshot, decode_snapshot, encode_snapshot
from kafka_partition_events.json_text import json_in
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo
from kafka_partition_events.metadata.diff import diff

_STDOUT = "-"


@with_options
def snapshot_command(
    context: typer.Context,
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write; - is standard output.")],
    *,
    topics: Topics = None,
    where: ClusterOptions,
) -> None:
    """Write the cluster's brokers, topics and partitions to a file, as JSON.

    \b
    kpe snapshot -b localhost:9092 --out before.json
    kpe snapshot -b localhost:9092 --out - | jq '.topics | length'

    The file appears at once when it is complete. Its format has a version; `kpe diff` reads it.

    Exit codes: 0 written; 2 no such topic, wrong address, refused login, unknown option, file can't be
    written.
    """  # noqa: D301
    services: Services = context.obj
    cluster = look_once(services, where.config(), TopicFilter(topics))
    text = json.dumps(encode_snapshot(Snapshot(cluster, services.clock.now())), indent=1, ensure_ascii=False)
    if out == _STDOUT:
        write_json(text)
    else:
        _write_whole(Path(out), f"{text}\n")


def diff_command(
    old: Annotated[str, typer.Argument(metavar="A", help="The earlier snapshot.")],
    new: Annotated[str, typer.Argument(metavar="B", help="The later snapshot; one of the two may be -.")],
    output: OutputChoice = None,
) -> None:
    """Show what happened between two snapshots, in the words of `kpe watch`. Needs no cluster.

    \b
    kpe diff before.json after.json
    kpe snapshot -b localhost:9092 --out - | kpe diff before.json -

    Exit codes: 0 the same; 1 different; 2 a file can't be read or is no snapshot.
    """  # noqa: D301
    if show_difference(old, new, choose_output(output)):
        raise typer.Exit(EXIT_DIFFERENT)


def show_difference(first: str, second: str, output: Output) -> bool:
    """Write what happened between two snapshot files; return whether anything did.

    Raises:
        CliError: a file can't be read or is no snapshot.
    """
    old, new = _read(first), _read(second)
    if None not in {old.cluster.cluster_id, new.cluster.cluster_id} and (
        old.cluster.cluster_id != new.cluster.cluster_id
    ):
        tell(f"note: {first} and {second} are snapshots of different clusters")
    before, after = _comparable(old.cluster, new.cluster)
    events = diff(before, after, wall_time=new.taken_at, previous_at=old.taken_at)
    printer = Printer(output, timed=False)
    for event in events:
        printer.event(event)
    return bool(events)


def _write_whole(path: Path, text: str) -> None:
    """Write the file at once or not at all: nobody ever reads half a snapshot.

    What is no file, a pipe or a device, is written to: root could replace it by one.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        path = path.resolve()  # of a symbolic link, what it leads to
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as beside:
            # Inside a directory of our own the file gets the usual permissions, not mkstemp's 0600.
            draft = Path(beside) / path.name
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
    except OSError as error:
        raise CliError(f"{path}: can't write the snapshot: {error.strerror or error}") from error


def _read(name: str) -> Snapshot:
    try:
        text = sys.stdin.read() if name == _STDOUT else Path(name).read_text(encoding="utf-8")
        return decode_snapshot(json_in(text))
    except OSError as error:
        raise CliError(f"{name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{name}: not a text file in UTF-8") from error
    except CodecError as error:
        raise CliError(f"{name}: {error}") from error
    except ValueError as error:
        raise CliError(f"{name}: not JSON: {error}") from error


def _comparable(old: Cluster, new: Cluster) -> tuple[Cluster, Cluster]:
    """Leave out of both what only one of them knows.

    Snapshots may come from clients that see more or less (topic ids, leader epochs). What one of them could
    not know is no change, and must not look like a topic that was created anew.
    """
    common = old.by_topic.keys() & new.by_topic.keys()
    ids = all(_has_id(old, name) == _has_id(new, name) for name in common)
    epochs = all(_has_epochs(old, name) == _has_epochs(new, name) for name in common)
    return _reduced(old, ids=ids, epochs=epochs), _reduced(new, ids=ids, epochs=epochs)


def _has_id(cluster: Cluster, topic: str) -> bool:
    return cluster.by_topic[topic].topic_id is not None


def _has_epochs(cluster: Cluster, topic: str) -> bool:
    return any(p.leader_epoch is not None for p in cluster.by_topic[topic].partitions)


def _reduced(cluster: Cluster, *, ids: bool, epochs: bool) -> Cluster:
    def partition(info: PartitionInfo) -> PartitionInfo:
        return info if epochs else evolve(info, leader_epoch=None)

    def topic(info: TopicInfo) -> TopicInfo:
        return TopicInfo(info.name, tuple(map(partition, info.partitions)), info.topic_id if ids else None)

    return Cluster(
        nodes=cluster.nodes,
        by_topic=map(topic, cluster.by_topic.values()),
        cluster_id=cluster.cluster_id,
        generation=cluster.generation,
    )
