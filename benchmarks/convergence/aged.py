"""``python -m benchmarks.convergence.aged``: how long commands and a take-over take beside a fleet's leases.

What a fleet says of itself lies in ``kpe.leases`` until Kafka compacts it. ``--minutes`` lets one live for
so long; ``--hour`` writes at once what an hour of it would have written, and lets nothing be compacted: the
most that there could be with segments of an hour.
"""

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve
from confluent_kafka import Producer

from benchmarks.command import say
from benchmarks.convergence.fleet import Fleet
from benchmarks.convergence.one_run import tracker, watched
from benchmarks.errors import BenchError
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Lease, TopicUse
from kafka_partition_events.control.protocol.topics import control_topics, differences
from kafka_partition_events.testing import KafkaCluster

_TOPIC: Final = "orders"
_LIMIT_S: Final = 180.0
_PREFIX: Final = "kpe."


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence.aged", description=__doc__)
    parser.add_argument("--size", type=int, default=10_000, metavar="N", help="instances (default: 10,000)")
    parser.add_argument("--minutes", type=float, default=12.0, metavar="N", help="how long they live")
    parser.add_argument("--hour", action="store_true", help="write the leases of an hour, at once")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="how often each command is timed")
    arguments = parser.parse_args(words)
    with KafkaCluster(1, progress=say) as cluster:
        config = dict(cluster.confluent_options)
        cluster.create_topic(_TOPIC, 6)
        with contextlib.closing(ControlTopicAdmin(config)) as admin:
            admin.carry_out(differences(control_topics(_PREFIX), {}))
        if arguments.hour:
            _write_an_hour(cluster, arguments.size)
            _time_commands(config, arguments.rounds)
            _time_a_take_over(config)
            return
        with tracker(config, _PREFIX), watched(config, _TOPIC) as poller:
            link = ControlLink(config, prefix=_PREFIX)
            with contextlib.closing(link):
                fleet = Fleet(arguments.size, link, lambda: poller.cluster)
                over = time.monotonic() + 60 * arguments.minutes
                fleet.run_until(lambda: time.monotonic() >= over, 60 * arguments.minutes + _LIMIT_S)
                say(f"{fleet.records_of['leases']:,} leases in {arguments.minutes:g} minutes")
            _time_commands(config, arguments.rounds)
        _time_a_take_over(config)


def _write_an_hour(cluster: KafkaCluster, size: int) -> None:
    producer = Producer({
        **cluster.confluent_options, "linger.ms": 50, "partitioner": "murmur2_random", "log_level": 2,
    })  # fmt: skip
    use = TopicUse(topic=_TOPIC, seen=6, used=6)
    written = 0
    for lease in _leases(size, use, 120):
        while True:
            try:
                producer.produce(f"{_PREFIX}leases", encode(lease), key_of(lease))
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
    if producer.flush(_LIMIT_S):
        raise BenchError("the leases were not taken in time")
    say(f"{written:,} leases at once")


def _leases(size: int, use: TopicUse, each: int) -> Iterator[Lease]:
    first = [
        Lease(
            instance_id=f"orders-api-{index:05}",
            incarnation=f"{index:032x}",
            lease_seq=0,
            view=(use,),
        )
        for index in range(size)
    ]
    for number in range(each):
        yield from (evolve(lease, lease_seq=number) for lease in first)


def _kpe(config: dict[str, str], *words: str) -> tuple[float, int, str]:
    command = [sys.executable, "-m", "kafka_partition_events.cli", *words, "-b", config["bootstrap.servers"]]
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own program
        command, capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    return time.monotonic() - began, done.returncode, done.stderr.strip()[-200:]


def _time_commands(config: dict[str, str], rounds: int) -> None:
    plan = ("change", "plan", "--topic", _TOPIC, "--to", "12", "--gate")
    for words in (("--version",), ("change", "ls"), plan):
        found = [_kpe(config, *words) for _ in range(rounds)] if words != ("--version",) else []
        if found:
            times = sorted(seconds for seconds, _, _ in found)
            say(f"kpe {' '.join(words)}: {times[0]:.1f} / {times[len(times) // 2]:.1f} / {times[-1]:.1f} s")
            say(f"  exit codes {[code for _, code, _ in found]} {found[-1][2]}")


def _time_a_take_over(config: dict[str, str]) -> None:
    """Ask for something right after the tracker was killed, with another one standing by."""
    with tracker(config, _PREFIX) as second:
        time.sleep(20.0)  # the first one's session is over: it was killed when its block ended
        say(f"a tracker that begins: {_answered(config, 'begins'):.1f} s until a request is answered")
        with tracker(config, _PREFIX):
            time.sleep(10.0)
            second.kill()
            say(f"one that stands by: {_answered(config, 'stands-by'):.1f} s from kill -9 to an answer")


def _answered(config: dict[str, str], name: str) -> float:
    asked = ("change", "request", "--topic", _TOPIC, "--to", "12", "--id", name)
    seconds, code, told = _kpe(config, *asked)
    if code:
        raise BenchError(f"the request ended with {code}: {told}")
    _kpe(config, "change", "cancel", name)
    return seconds


if __name__ == "__main__":
    main()
