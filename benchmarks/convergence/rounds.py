"""``python -m benchmarks.convergence.rounds``: what a round of the tracker costs, without Kafka.

Every producer uses every topic, every topic has an open change that waits for one producer, and in each
round a thirtieth of them renews its lease, as it is with a lease every 30 s and a round every second.
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import evolve

from kafka_partition_events.control.changes.controller import ClusterSnapshotForControl, Controller
from kafka_partition_events.control.protocol.ledger import Ledger
from kafka_partition_events.control.protocol.records import Ack, Command, Given, Lease, TopicUse
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.vocabulary import Status, Verb
from kafka_partition_events.control.tracker.status import TrackerStatus
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo, TopicInfo

_BEGAN_MS: Final = 1_700_000_000_000
_FROM, _TO = 6, 12
_LEASE_EVERY = 30
_SIZES: Final = ((1_000, 1), (1_000, 10), (10_000, 0), (10_000, 1), (10_000, 10))
_CLUSTER = "cluster"


class World:
    """Producers whose leases are renewed, and changes of the topics that all of them use."""

    def __init__(self, instances: int, changes: int) -> None:
        self._topics = [f"orders-{index}" for index in range(max(1, changes))]
        self._now_ms = _BEGAN_MS
        self._round = 0
        self._ledger = Ledger()
        self._rounds = Controller(self._ledger, epoch=1)
        self._status = TrackerStatus()
        self._leases = [self._lease(index) for index in range(instances)]
        for lease in self._leases:
            self._ledger.take_lease(lease, self._now_ms)
        self._carry_out([self._request(topic) for topic in self._topics[:changes]], _FROM)
        for lease in self._leases[1:]:
            for change_id in self._ledger.changes:
                self._ledger.take_ack(_held(lease, change_id), self._now_ms)

    def seconds(self) -> Iterator[float]:
        """Yield the CPU seconds of one round after the other."""
        while True:
            self._renew_leases()
            began = time.process_time()
            self._carry_out([], _FROM)
            yield time.process_time() - began

    def _carry_out(self, commands: Sequence[Command], count: int) -> None:
        self._now_ms += 1_000
        topics = [_topic(name, count) for name in self._topics]
        cluster = Cluster(by_topic=topics, cluster_id=_CLUSTER, generation=1)
        sight = ClusterSnapshotForControl(cluster=cluster)
        decision = self._rounds.decide(
            [Given(one, offset, self._now_ms) for offset, one in enumerate(commands)], sight, self._now_ms
        )
        self._rounds.wrote(decision)
        self._status = self._status.after(decision, self._ledger, _CLUSTER)

    def _renew_leases(self) -> None:
        self._round += 1
        for index in range(self._round % _LEASE_EVERY, len(self._leases), _LEASE_EVERY):
            lease = self._leases[index] = evolve(
                self._leases[index], lease_seq=self._round, born_ms=_BEGAN_MS
            )
            self._ledger.take_lease(lease, self._now_ms)

    def _lease(self, index: int) -> Lease:
        return Lease(
            instance_id=f"orders-api-{index:05}",
            incarnation=f"{random.Random(index).getrandbits(128):032x}",
            lease_seq=0,
            view=tuple(
                TopicUse(topic=topic, topic_id=f"id-{topic}", seen=_FROM, used=_FROM)
                for topic in self._topics
            ),
        )

    @staticmethod
    def _request(topic: str) -> Command:
        spec = Spec(
            cluster_id=_CLUSTER,
            topic=topic,
            topic_id=f"id-{topic}",
            from_count=_FROM,
            to_count=_TO,
            gate=True,
            required_groups=("billing",),
        )
        return Command(change_id=topic, verb=Verb.REQUEST, actor="alice", spec=spec)


def _topic(name: str, count: int) -> TopicInfo:
    return TopicInfo(name, tuple(PartitionInfo(name, n, 1, (1,), (1,)) for n in range(count)), f"id-{name}")


def _held(lease: Lease, change_id: str) -> Ack:
    return Ack(
        change_id=change_id,
        instance_id=lease.instance_id,
        incarnation=lease.incarnation,
        ack_seq=1,
        status=Status.HELD,
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence.rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="rounds of each size")
    wanted = parser.parse_args(words).rounds
    for instances, changes in _SIZES:
        rounds = World(instances, changes).seconds()
        next(rounds)  # whatever is made once
        found = sorted(next(rounds) for _ in range(wanted))
        told = f"{1e3 * statistics.median(found):8.1f} ms, at most {1e3 * found[-1]:.1f}"
        sys.stdout.write(f"{instances:6} instances, {changes:2} changes: {told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
