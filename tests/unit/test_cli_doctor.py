import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_partition_events.cli.app import run
from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.cli.services.services import KeySample, SampledRecord, Services
from kafka_partition_events.diagnose.fingerprint import HASHES
from tests.login_kit import login_options

Captured = pytest.CaptureFixture[str]
COMMAND = ["doctor", "partitioner", "-b", "x:1", "--topic", "orders"]


class Topic:
    """A topic that is read: remembers what it was asked, and answers with a sample or an error."""

    def __init__(self, answer: KeySample | CliError) -> None:
        self._answer = answer
        self.asked: list[tuple[Mapping[str, str], str, int, float]] = []

    def sample(self, config: Mapping[str, str], topic: str, records: int, timeout: float) -> KeySample:
        self.asked.append((config, topic, records, timeout))
        if isinstance(self._answer, CliError):
            raise self._answer
        return self._answer

    def services(self) -> Services:
        return Services(sample=self.sample)


def sample(*hash_names: str, keys: int = 1_000, partitions: int = 12, **more: Any) -> KeySample:
    """Return a sample in which every key was placed by each of the hashes in turn."""
    rng = random.Random(7)
    records = []
    for number in range(keys):
        key = b"customer-%d" % number
        name = hash_names[number % len(hash_names)]
        partition = HASHES[name](key, partitions) if name in HASHES else rng.randrange(partitions)
        records += [SampledRecord(partition, 10_000 + 2 * number + again, key) for again in (0, 1)]
    return KeySample(partitions=partitions, records=records, **more)


def diagnosed(answer: KeySample, capsys: Captured, *options: str) -> tuple[int, dict[str, Any]]:
    code = run([*COMMAND, *options], Topic(answer).services())
    (line,) = capsys.readouterr().out.splitlines()
    return code, json.loads(line)


@pytest.mark.parametrize(
    ("answer", "code", "verdict"),
    [
        (sample("murmur2"), 0, "one_hash"),
        (sample("murmur2", "crc32"), 1, "disagree"),
        (sample("elsewhere"), 3, "unknown"),
        (sample("murmur2", keys=3), 3, "too_few"),
        (sample("murmur2", partitions=1), 3, "too_few"),
        (KeySample(partitions=3, records=[]), 3, "too_few"),
    ],
)
def test_the_exit_code_is_the_verdict(answer: KeySample, code: int, verdict: str, capsys: Captured) -> None:
    told, document = diagnosed(answer, capsys)
    assert (told, document["verdict"]) == (code, verdict)


def test_the_document_says_everything(capsys: Captured) -> None:
    answer = sample("murmur2", "crc32")
    extra = [SampledRecord(0, 1, None), SampledRecord(0, 2, b"")]
    read = KeySample(partitions=12, records=[*answer.records, *extra], offline=1, timed_out=True)
    _, document = diagnosed(read, capsys)
    findings = document.pop("findings")
    hashes = document.pop("hashes")
    of_topic = {"topic": "orders", "partitions": 12, "offline_partitions": 1, "timed_out": True}
    counts = {"records": 2_002, "keyed": 2_001, "empty_keys": 1, "keys": 1_000, "split_keys": 0}
    computed = {name: document[name] for name in ("keys_needed", "overlooked")}
    told = {"kind": "partitioner_diagnosis", "verdict": "disagree"}
    assert document == {**told, **of_topic, **counts, **computed}
    assert [each["hash"] for each in hashes] == list(HASHES)
    assert {(each["hash"], each["partitions"]) for each in findings} == {("murmur2", 12), ("crc32", 12)}
    assert sum(each["share"] for each in findings) == pytest.approx(1.0, abs=0.001)


def test_an_example_is_a_record_that_can_be_looked_up(capsys: Captured) -> None:
    answer = sample("murmur2", "crc32")
    _, document = diagnosed(answer, capsys)
    for finding in document["findings"]:
        example = finding["example"]
        (record,) = [r for r in answer.records if r.offset == example["offset"]]
        assert record.partition == example["partition"] == HASHES[finding["hash"]](record.key or b"", 12)
        assert record.offset % 2 == 1  # the key's latest record


@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_no_key_is_shown(output: str, capsys: Captured) -> None:
    run([*COMMAND, "--output", output], Topic(sample("murmur2", "crc32")).services())
    assert "customer" not in "".join(capsys.readouterr())


def table(answer: KeySample, capsys: Captured) -> tuple[int, str]:
    code = run([*COMMAND, "--output", "table"], Topic(answer).services())
    return code, capsys.readouterr().out


def test_the_table_of_one_hash(capsys: Captured) -> None:
    code, told = table(sample("crc32"), capsys)
    assert code == 0
    assert told.startswith(
        "topic orders: 12 partitions; 2,000 records read, 2,000 with a key, 1,000 different keys\n"
    )
    assert "\ncrc32                  100.00%\n" in told
    assert "\none hash: crc32\n" in told
    assert 'hash_name="crc32"' in told
    assert "murmur2_random" not in told


def test_the_table_of_writers_that_disagree_tells_the_cure(capsys: Captured) -> None:
    code, told = table(sample("murmur2", "murmur2", "crc32"), capsys)
    assert (code, "\nthe writers disagree\n" in told) == (1, True)
    for words in ("with murmur2 the fewest keys move", "partitioner=murmur2_random", 'hash_name="crc32"'):
        assert words in told


def test_the_table_tells_of_growth_and_split_keys(capsys: Captured) -> None:
    keys = [b"customer-%d" % number for number in range(1_000)]
    records = [SampledRecord(HASHES["murmur2"](key, n), n, key) for key in keys for n in (6, 12)]
    code, told = table(KeySample(partitions=12, records=records), capsys)
    assert (code, " murmur2 of 6 partitions " in told) == (0, True)
    for words in ("keys on more than one partition", "before the topic grew", "by key_partitions"):
        assert words in told


def grown(*counts: int) -> KeySample:
    """Return a sample that `GrowthSafePartitioner(mapping="rendezvous")` has placed while a topic grew."""
    place = HASHES["rendezvous-murmur2"]
    numbers = range(1_000 * len(counts))
    records = [(number, b"customer-%d" % number, counts[number // 1_000]) for number in numbers]
    sampled = [SampledRecord(place(key, count), number, key) for number, key, count in records]
    return KeySample(partitions=counts[-1], records=sampled)


@pytest.mark.parametrize(
    ("counts", "told"), [((12,), " rendezvous-murmur2 "), ((6, 12), " rendezvous-murmur2 of 6 partitions ")]
)
def test_the_table_of_rendezvous(counts: tuple[int, ...], told: str, capsys: Captured) -> None:
    code, shown = table(grown(*counts), capsys)
    assert code == 0
    assert "\none hash: rendezvous-murmur2\n" in shown
    assert told in shown
    assert 'GrowthSafePartitioner(mapping="rendezvous", hash_name="murmur2")' in shown
    assert ("before the topic grew" in shown) == (len(counts) > 1)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (KeySample(partitions=3, records=[]), "no verdict: there are no records to read"),
        (KeySample(partitions=3, records=[SampledRecord(0, 0, None)]), "no verdict: no record has a key"),
        (sample("murmur2", partitions=1), "no verdict: with one partition all hashes agree"),
        (sample("murmur2", keys=3), "no verdict: 3 keys are too few, "),
        (sample("murmur2", timed_out=True), "there was no time to read more"),
        (sample("murmur2", offline=2), "2 partitions without a leader could not be read"),
    ],
)
def test_the_table_says_why(answer: KeySample, reason: str, capsys: Captured) -> None:
    assert reason in table(answer, capsys)[1]


def test_options_reach_the_reader() -> None:
    topic = Topic(sample("murmur2"))
    options = ["--records", "500", "--timeout", "2m", "-X", "client.id=me"]
    assert run([*COMMAND, *options], topic.services()) == 0
    assert topic.asked == [({"bootstrap.servers": "x:1", "client.id": "me"}, "orders", 500, 120.0)]


def test_an_error_is_one_line_without_secrets(capsys: Captured) -> None:
    topic = Topic(CliError("topic orders: hunter2 may not"))
    assert run([*COMMAND, *login_options({"sasl.password": "hunter2"})], topic.services()) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[-1] == "kpe: topic orders: *** may not"
