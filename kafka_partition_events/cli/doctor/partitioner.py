"""``kpe doctor partitioner``: which key hash a topic's writers use, and whether they disagree."""

from collections.abc import Iterator
from typing import Annotated, Any, get_args

import typer

from kafka_partition_events.cli.common.completing import topic_names
from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, EXIT_UNKNOWN, CliError
from kafka_partition_events.cli.common.event_text import counted
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import (
    Output,
    OutputChoice,
    choose_output,
    write_json_line,
    write_line,
)
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import KeySample, SampledRecord, Services
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.diagnose.fingerprint import Agreement, Fingerprint, HashFinding, fingerprint
from kafka_partition_events.routing.hashing import HashName

EXIT_CODES = {
    Agreement.ONE_HASH: 0,
    Agreement.DISAGREE: EXIT_DIFFERENT,
    Agreement.UNKNOWN: EXIT_UNKNOWN,
    Agreement.TOO_FEW: EXIT_UNKNOWN,
}

_CURES = {
    "murmur2": "murmur2: the default of the Java client and of kafka-python; confluent-kafka and other "
    "librdkafka clients need partitioner=murmur2_random; in this library "
    'hash_name="murmur2", or the client\'s own',
    "crc32": "crc32: the default of confluent-kafka and other librdkafka clients "
    "(partitioner=consistent_random); the Java client needs a partitioner class of your own; in this library "
    'hash_name="crc32", or the client\'s own',
    "fnv1a": "fnv1a: the default of Sarama; confluent-kafka and other librdkafka clients need "
    'partitioner=fnv1a_random; in this library hash_name="fnv1a", or the client\'s own',
} | {
    f"rendezvous-{name}": f"rendezvous-{name}: GrowthSafePartitioner("
    f'mapping="rendezvous", hash_name="{name}") of this library; no other client has it, but a Java program '
    "can compute it with Guava"
    for name in get_args(HashName)
}


@with_options
def partitioner_command(
    context: typer.Context,
    topic: Annotated[
        str, typer.Option("--topic", metavar="NAME", autocompletion=topic_names, help="The topic to check.")
    ],
    *,
    records: Annotated[
        int, typer.Option(min=1, metavar="N", help="Read about so many of the latest records.")
    ] = 10_000,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="Read no longer than this.")] = "30s",
    output: OutputChoice = None,
    where: ClusterOptions,
) -> None:
    """Find which key hash placed a topic's records, and whether its writers disagree.

    \b
    kpe doctor partitioner -b localhost:9092 --topic orders
    kpe doctor partitioner -b localhost:9092 --topic orders --records 100000 --timeout 2m
    kpe doctor partitioner -b localhost:9092 --topic orders | jq .verdict

    Clients differ: Java and kafka-python place keys by murmur2, librdkafka (confluent-kafka) by CRC32, Sarama
    by FNV-1a. Where two of them write one topic, one key's records are on two partitions, out of order.

    Reads the latest records, the same number from each partition, without joining a group or committing
    anything. No key is shown: an example is a partition and an offset. A key that is not where the hash says
    was placed by something else; a hash is named if chance explains its hits less than once in 1,000 topics.
    Records from before the topic has grown are recognized, and so are keys that key_partitions keeps there,
    as a hash of fewer partitions, and GrowthSafePartitioner(mapping="rendezvous").

    Exit codes: 0 one hash; 1 the writers disagree; 2 wrong address, no such topic, no right to read it,
    unknown option; 3 unknown: too few keys, one partition, or an unknown hash.
    """  # noqa: D301
    config, limit = where.config(), parse_duration(timeout)
    services: Services = context.obj
    try:
        sample = services.sample(config, topic, records, limit)
    except CliError as error:
        raise CliError(redacted(str(error), config)) from None
    keyed = [(record.key, record.partition) for record in sample.records if record.key]
    found = fingerprint(keyed, sample.partitions)
    diagnosis = _Diagnosis(topic, sample, found)
    if choose_output(output) is Output.TABLE:
        for line in diagnosis.lines():
            write_line(line)
    else:
        write_json_line(diagnosis.document())
    raise typer.Exit(EXIT_CODES[found.verdict])


class _Diagnosis:
    """A fingerprint in words, and as JSON."""

    def __init__(self, topic: str, sample: KeySample, found: Fingerprint) -> None:
        self._topic = topic
        self._sample = sample
        self._found = found
        self._keyed = sum(record.key is not None for record in sample.records)
        self._empty = sum(record.key == b"" for record in sample.records)

    def document(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        found, sample = self._found, self._sample
        return {
            "kind": "partitioner_diagnosis",
            "topic": self._topic,
            "verdict": found.verdict.value,
            "partitions": found.partitions,
            "offline_partitions": sample.offline,
            "timed_out": sample.timed_out,
            "records": len(sample.records),
            "keyed": self._keyed,
            "empty_keys": self._empty,
            "keys": found.keys,
            "keys_needed": found.needed,
            "split_keys": found.split_keys,
            "overlooked": round(found.overlooked, 6),
            "hashes": [
                {"hash": name, "explained": round(explained, 6)} for name, explained in found.fits.items()
            ],
            "findings": [self._finding(finding) for finding in found.findings],
        }

    def _finding(self, finding: HashFinding) -> dict[str, Any]:
        record = self._example(finding)
        return {
            "hash": finding.rule and finding.rule.hash_name,
            "partitions": finding.rule and finding.rule.partitions,
            "share": round(finding.share, 6),
            "explained": finding.explained,
            "example": record and {"partition": record.partition, "offset": record.offset},
        }

    def lines(self) -> Iterator[str]:
        """Yield everything as text."""
        found, sample = self._found, self._sample
        yield (
            f"topic {self._topic}: {counted(found.partitions, 'partition')}; "
            f"{counted(len(sample.records), 'record')} read, {self._keyed:,} with a key, "
            f"{counted(found.keys, 'different key')}"
        )
        if sample.offline:
            yield f"{counted(sample.offline, 'partition')} without a leader could not be read"
        if sample.timed_out:
            yield "there was no time to read more; --timeout gives it more"
        if self._empty:
            yield f"{counted(self._empty, 'record')} with an empty key left out: clients differ about them"
        if found.keys:
            yield ""
            yield f"{'hash':<20}{'explains':>10}"
            for name, explained in found.fits.items():
                yield f"{name:<20}{explained:>10.2%}"
        yield ""
        yield from self._verdict()
        yield from map(self._finding_line, found.findings)
        if found.split_keys:
            yield f"  {counted(found.split_keys, 'key')} on more than one partition"
        yield ""
        yield from self._advice()

    def _verdict(self) -> Iterator[str]:
        found = self._found
        match found.verdict:
            case Agreement.ONE_HASH:
                yield f"one hash: {found.hash_names[0]}"
                yield f"  (another one, with {found.overlooked:.2%} of the keys or more, would have shown)"
            case Agreement.DISAGREE:
                yield "the writers disagree"
            case Agreement.UNKNOWN:
                yield "unknown: no hash explains more than chance"
            case _:
                yield f"no verdict: {self._why_not()}"

    def _why_not(self) -> str:
        found = self._found
        if not self._sample.records:
            return "there are no records to read"
        if not found.keys:
            return "no record has a key"
        if found.needed is None:
            return "with one partition all hashes agree"
        return f"{counted(found.keys, 'key')} are too few, {found.needed:,} are enough"

    def _finding_line(self, finding: HashFinding) -> str:
        record = self._example(finding)
        line = f"  {finding.share:>7.2%}  {self._name(finding):<36}"
        if record is None:
            return line.rstrip()
        return f"{line}  e.g. partition {record.partition}, offset {record.offset:,}"

    def _name(self, finding: HashFinding) -> str:
        if finding.rule is None:
            return "no known rule"
        if not self._of_fewer(finding):
            return finding.rule.hash_name
        return f"{finding.rule.hash_name} of {finding.rule.partitions} partitions"

    def _of_fewer(self, finding: HashFinding) -> bool:
        """Return whether it was with fewer partitions than the topic has now."""
        rule = finding.rule
        return rule is not None and rule.partitions < self._found.partitions

    def _example(self, finding: HashFinding) -> SampledRecord | None:
        """Return the latest record of the example's key on the example's partition."""
        if finding.example is None:
            return None
        key, partition = finding.example
        records = (r for r in self._sample.records if r.partition == partition and r.key == key)
        return max(records, key=lambda record: record.offset)

    def _advice(self) -> Iterator[str]:
        found = self._found
        names = found.hash_names
        if any(map(self._of_fewer, found.findings)):
            yield (
                "Fewer partitions: written before the topic grew, or by writers that have not noticed it or "
                "keep their keys where they were, by key_partitions."
            )
        if found.verdict is Agreement.DISAGREE:
            yield "Records of one key may be on several partitions then, without order among them."
            if len(names) > 1:
                yield f"Let all writers use one hash; with {names[0]} the fewest keys move."
            if any(finding.rule is None for finding in found.findings):
                yield "No known rule: writers that name partitions or ignore keys, another hash or mapping."
        elif found.verdict is Agreement.UNKNOWN:
            yield (
                "The writers name partitions themselves, ignore keys (round robin, sticky, random), or use "
                "another hash or mapping."
            )
        yield from (_CURES[name] for name in names if name in _CURES)
