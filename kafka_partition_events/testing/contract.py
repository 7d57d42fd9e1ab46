"""The contract that every partitioner keeps, as tests that a team runs on its own partitioner.

Subclass `PartitionerContract` in a test module; pytest collects the tests that it inherits::

    from kafka_partition_events.testing import PartitionerContract


    class TestByTenant(PartitionerContract):
        def make(self) -> Partitioner:
            return ByTenant()

No broker, no client and no pytest is needed: the tests ask as the clients of this library ask. All of them
together take about a second.
"""

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.table import Route
from kafka_partition_events.testing.scripted import cluster_of

TOPIC = "orders"
KEYS = (b"", b"a", b"order-1", b"order-2", b"x" * 100, b"\x00\xff")
COUNTS = (1, 2, 3, 10_000)

FULL = b"v" * 65_536
"""Fills a batch by itself: a partitioner that counts bytes has none left for the next record."""

LEAST_RECORDS = 1_000
LEAST_S = 0.5
"""A partition counts as not reached after so many records per partition and so many seconds.

A partitioner that draws from n partitions leaves one out by chance with a probability below n * exp(-1,000).
"""

HAMMER_S = 0.15
THREADS = 4
JOIN_S = 10.0

Leaders = Sequence[int | None]


class PartitionerContract(ABC):
    """What holds for every partitioner of this library; override `make`.

    The rest is for partitioners that do otherwise on purpose.
    """

    keys_stay: ClassVar[bool] = True
    """Whether one key's records stay on one partition as long as nothing changes: not so if a key has several
    partitions (shuffle sharding). Taken as false for a partitioner that ignores keys."""

    @abstractmethod
    def make(self) -> Partitioner:
        """Return a new partitioner that follows no poller."""

    def reached(self, route: Route) -> Collection[int]:
        """Return the partitions that unkeyed records reach in time: by default all usable ones."""
        return route.usable

    # -- where records go ----------------------------------------------------------------------------

    def test_answers_with_ids_that_exist(self) -> None:
        """Of topics with 1, 2, 3 and 10,000 partitions, for unkeyed, keyed and empty-keyed records."""
        partitioner = self.make()
        partitioner.apply_snapshot(cluster_of({f"of-{count}": [1] * count for count in COUNTS}))
        for count in COUNTS:
            for key in (None, *KEYS) * 3:
                _exists(partitioner, _ask(partitioner, key, topic=f"of-{count}"), count)

    def test_unkeyed_records_reach_every_usable_partition(self) -> None:
        """Also where each opens a batch, so that kafka-python asks twice, and two topics are written in turn.

        A counter that steps at each call reaches every other partition then (KAFKA-9965).
        """
        for count in (1, 2, 3, 4, 12):
            partitioner = self.make()
            partitioner.apply_snapshot(cluster_of({"one": [1] * count, "other": [1] * count}))
            self._reaches_all(partitioner, "one", "other")

    def test_a_key_stays_on_its_partition(self) -> None:
        """While nothing changes, whatever else is sent, and for every instance: producers must agree."""
        one, other = self.make(), self.make()
        if not self.keys_stay or one.ignores_keys:
            return
        for partitioner in (one, other):
            _adopt(partitioner, [1] * 12)
        for key in KEYS:
            if not key and one.keying.empty_is_no_key:
                continue
            home = _ask(one, key)
            for _ in range(20):
                _place(one)
                _adopt(one, [1] * 12)
                _demand(_ask(one, key) == home, f"key {key!r} left partition {home} though nothing changed")
            _demand(_ask(other, key) == home, f"two instances disagree about key {key!r}")

    def test_a_record_that_is_asked_about_twice_is_placed_once(self) -> None:
        """kafka-python asks again about an unkeyed record that opens a batch (KAFKA-9965)."""
        partitioner = self._with([1] * 4)
        for _ in range(100):
            first = _ask(partitioner)
            partitioner.on_new_batch(TOPIC, None, first)
            _repeated(partitioner, first, _ask(partitioner))

    # -- what they avoid -----------------------------------------------------------------------------

    def test_unkeyed_records_avoid_offline_partitions(self) -> None:
        """As long as an online one is there."""
        partitioner = self._with([1, None, 3, None])
        for _ in range(200):
            _usable(partitioner, _ask(partitioner))
            _usable(partitioner, _place(partitioner))

    def test_an_offline_partition_is_left_at_once(self) -> None:
        """With the next record after the table is adopted: in mid-turn, and between the two questions."""
        for asked_twice in (False, True):
            partitioner = self.make()
            for _ in range(20):
                _adopt(partitioner, [1] * 6)
                last = _ask(partitioner, value=b"v")
                if asked_twice:
                    partitioner.on_new_batch(TOPIC, None, last)
                _adopt(partitioner, [None if partition == last else 1 for partition in range(6)])
                _usable(partitioner, _ask(partitioner, value=b"v"))

    def test_unkeyed_records_respect_the_cap(self) -> None:
        """Of a `BufferBudget`, with a stand-in for an admitted partition that is offline."""
        partitioner = self.make()
        partitioner.routing.budget = BufferBudget(max_partitions={TOPIC: 3}, instance_id="contract")
        _adopt(partitioner, [1] * 12)
        admitted = _route(partitioner).admitted
        for offline in (None, *admitted):
            _adopt(partitioner, [None if partition == offline else 1 for partition in range(12)])
            for _ in range(50):
                _usable(partitioner, _ask(partitioner))
                _usable(partitioner, _place(partitioner))

    def test_unkeyed_records_avoid_suspect_brokers(self) -> None:
        """At once, but for single records that probe whether the broker answers again."""
        partitioner = self._with([1, 2, 3] * 2)
        _place(partitioner)
        partitioner.deliveries.unreachable(2)
        placed = [_place(partitioner) for _ in range(100)]
        strays = sum(_route(partitioner).leader(partition) == 2 for partition in placed)
        probes = partitioner.deliveries.stats.probes
        _demand(strays <= probes, f"{strays} records went to a suspect broker, only {probes} as probes")

    def test_with_all_partitions_offline_records_are_still_taken(self) -> None:
        """The client holds them back until a partition is online again."""
        partitioner = self._with([1, 2, 3])
        _place(partitioner)
        _adopt(partitioner, [None, None, None])
        for key in (None, *KEYS):
            _exists(partitioner, _ask(partitioner, key), 3)

    # -- what changes under it -----------------------------------------------------------------------

    def test_growth_is_used_at_once(self) -> None:
        """In mid-turn too, without an answer that is not there."""
        partitioner = self._with([1] * 3)
        for key in (None, *KEYS):
            _ask(partitioner, key)
        _adopt(partitioner, [1] * 6)
        for key in (None, *KEYS):
            _exists(partitioner, _ask(partitioner, key), 6)
        self._reaches_all(partitioner, TOPIC)

    def test_a_topic_may_vanish_and_come_back_smaller(self) -> None:
        """While it is gone, the choice is left to the client."""
        partitioner = self._with([1] * 12)
        for key in (None, *KEYS) * 3:
            _ask(partitioner, key)
        partitioner.apply_snapshot(cluster_of({"another": [1]}))
        for key in (None, *KEYS):
            chosen = _ask(partitioner, key)
            _demand(chosen == UNASSIGNED, f"{_name(partitioner)} answered {chosen} for a topic that is gone")
        _adopt(partitioner, [1, 1])
        for key in (None, *KEYS):
            _exists(partitioner, _ask(partitioner, key), 2)
        self._reaches_all(partitioner, TOPIC)

    def test_without_a_table_it_reads_the_clients_metadata(self) -> None:
        """As on a kafka-python producer without a poller."""
        partitioner, cluster = self.make(), cluster_of({TOPIC: [1, None, 3]})
        for _ in range(50):
            chosen = _place(partitioner, cluster=cluster)
            _demand(chosen in {0, 2}, f"{_name(partitioner)} answered {chosen}, and online are 0 and 2")
        for key in KEYS:
            _exists(partitioner, _ask(partitioner, key, cluster=cluster), 3)

    # -- threads -------------------------------------------------------------------------------------

    def test_threads_do_not_disturb_each_other(self) -> None:
        """Each of several producing threads gets answers of its own."""
        partitioner = self._with([1] * 8)

        def produce() -> None:
            first = _exists(partitioner, _ask(partitioner), 8)
            partitioner.on_new_batch(TOPIC, None, first)
            _repeated(partitioner, first, _exists(partitioner, _ask(partitioner), 8))
            _exists(partitioner, _ask(partitioner, b"key"), 8)

        _hammer(produce)

    def test_threads_may_produce_while_tables_change(self) -> None:
        """Between two tables that share no usable partition; the last one holds."""
        halves = ([1] * 4 + [None] * 4, [None] * 4 + [1] * 4)
        partitioner = self._with(halves[0])

        def produce() -> None:
            _exists(partitioner, _place(partitioner), 8)
            _exists(partitioner, _ask(partitioner, b"key"), 8)

        def change() -> None:
            for half in halves:
                _adopt(partitioner, half)

        _hammer(produce, meanwhile=change)
        for _ in range(20):
            _usable(partitioner, _place(partitioner))

    # ------------------------------------------------------------------------------------------------

    def _with(self, leaders: Leaders) -> Partitioner:
        partitioner = self.make()
        _adopt(partitioner, leaders)
        return partitioner

    def _reaches_all(self, partitioner: Partitioner, *topics: str) -> None:
        missing = {topic: set(self.reached(_route(partitioner, topic))) for topic in topics}
        least = LEAST_RECORDS * max(map(len, missing.values()))
        records, deadline = 0, time.monotonic() + LEAST_S
        while any(missing.values()) and (records < least or time.monotonic() < deadline):
            records += 1
            for topic in topics:
                missing[topic].discard(_place(partitioner, topic))
        for topic, partitions in missing.items():
            _demand(
                not partitions, f"{_name(partitioner)} reached none of {partitions} in {records} records"
                f" for topic {topic} of {_route(partitioner, topic).count} partitions",
            )  # fmt: skip


# -- asking ------------------------------------------------------------------------------------------


def _ask(
    partitioner: Partitioner,
    key: bytes | None = None,
    *,
    topic: str = TOPIC,
    value: bytes = FULL,
    cluster: Cluster | None = None,
) -> int:
    return partitioner.partition(topic, key, key, value, value, cluster)


def _place(partitioner: Partitioner, topic: str = TOPIC, cluster: Cluster | None = None) -> int:
    """Ask as kafka-python does about an unkeyed record that opens a batch."""
    first = _ask(partitioner, topic=topic, cluster=cluster)
    partitioner.on_new_batch(topic, cluster, first)
    return _ask(partitioner, topic=topic, cluster=cluster)


def _adopt(partitioner: Partitioner, leaders: Leaders) -> None:
    partitioner.apply_snapshot(cluster_of({TOPIC: leaders}, brokers=[1, 2, 3]))


def _route(partitioner: Partitioner, topic: str = TOPIC) -> Route:
    route = partitioner.route(topic)
    if route is None:
        raise AssertionError(f"{_name(partitioner)} has adopted a table and has no route for topic {topic}")
    return route


# -- judging -----------------------------------------------------------------------------------------


def _demand(kept: bool, complaint: str) -> None:
    if not kept:
        raise AssertionError(complaint)


def _exists(partitioner: Partitioner, chosen: int, count: int) -> int:
    exists = chosen in range(count)
    _demand(exists, f"{_name(partitioner)} answered {chosen!r} for a topic of {count} partitions")
    return chosen


def _usable(partitioner: Partitioner, chosen: int) -> None:
    usable = _route(partitioner).usable
    _demand(chosen in usable, f"{_name(partitioner)} answered {chosen}, and usable are {usable}")


def _repeated(partitioner: Partitioner, first: int, again: int) -> None:
    _demand(
        partitioner.sticky or again == first,
        f"asked twice about one record, {_name(partitioner)} answered {first}, then {again}",
    )


def _name(partitioner: Partitioner) -> str:
    return type(partitioner).__name__


# -- threads -----------------------------------------------------------------------------------------


def _hammer(work: Callable[[], None], meanwhile: Callable[[], None] | None = None) -> None:
    """Repeat the work in several threads that are switched as often as can be, and raise its first error."""
    errors: list[BaseException] = []
    deadline = time.monotonic() + HAMMER_S

    def repeat() -> None:
        try:
            while time.monotonic() < deadline and not errors:
                work()
        except BaseException as error:  # noqa: BLE001 - raised below, on the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(THREADS)]
    with _switching_often():
        for thread in threads:
            thread.start()
        while meanwhile is not None and time.monotonic() < deadline and not errors:
            meanwhile()
        _join(threads)
    if errors:
        raise errors[0]


def _join(threads: Iterable[threading.Thread]) -> None:
    for thread in threads:
        thread.join(HAMMER_S + JOIN_S)
        _demand(not thread.is_alive(), f"a thread that asks the partitioner hangs for {JOIN_S} s")


@contextmanager
def _switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
