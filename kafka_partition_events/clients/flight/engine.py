"""One way for a record, whichever client sends it: place, track, hand over, and take back where that fails.

::

    send ──► place ──────► track ─────────► hand over ─────────► reported ──► outcome
             partitioner:  the failure      the client's         the failure detector; a record that may be
             partition;    detector, and    adapter: bytes to    rescued has one outcome, whatever becomes
             handle        `Copies`         a handle             of its copies
                              ▲                 │ refused
                              └── take back ◄───┘ then fall back: the client chooses the partition

Copies of records that are stuck, or timed out, take the same way: `served` sends what `Copies` has queued.
What differs between the clients is in `Client`, a handful of functions.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Final, TypeVar

from attrs import define, field

from kafka_partition_events.clients.flight import spans
from kafka_partition_events.clients.flight.client import Client, HandleClosedError, PurgedError
from kafka_partition_events.clients.flight.copies import SEARCH_EVERY_S, Copies
from kafka_partition_events.clients.flight.key_order import FIRST, KeyOrder
from kafka_partition_events.clients.flight.keyed import KeyedRecords
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord, as_list
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import RescueLimits, RescueMode
from kafka_partition_events.metadata.events import RecordsRescued
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.table import Route

T = TypeVar("T")

SAMPLE_S: Final = 0.001
"""One record in so much time is tracked, of all topics together: that costs the same at any rate, and misses
nothing, as a broker is suspected after 25 ms at the soonest."""


@define(eq=False, slots=False)
class Flight:
    """The records of one producer, to which it holds no reference. Thread-safe."""

    _partitioner: Partitioner  # chooses partitions, and has the routes
    _client: Client
    reports: ProducerReports  # the failure detector's door
    _rescue: RescueMode | None = None  # whether records get copies, and when
    _limits: RescueLimits = field(factory=RescueLimits)  # of copies
    _tracks: bool = field(default=True, kw_only=True)  # every delivery is reported; else nothing is tracked
    _clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)  # monotonic seconds
    copies: Copies | None = field(default=None, init=False)  # None without a rescue
    keyed: KeyedRecords | None = field(default=None, init=False)  # see `keep_order`
    next_sample: float = field(default=-math.inf, init=False)  # when the next record is to be tracked
    _copies: Copies = field(init=False)  # always there, and empty without a rescue
    _has_answers: bool = field(default=False, init=False)
    _next_search: float = field(default=-math.inf, init=False)
    _producer_id: str = field(factory=lambda: secrets.token_hex(8), init=False)
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)

    def __attrs_post_init__(self) -> None:
        """Have room for copies."""
        self._copies = Copies(self._limits, self._clock)
        self.copies = None if self._rescue is None else self._copies

    @property
    def hedges(self) -> bool:
        """Whether records that are stuck get copies."""
        return self._rescue == "hedge"

    def keep_order(self, order: KeyOrder) -> None:
        """Keep the order of keys over several places, from before the first record on; else all go home."""
        self.keyed = KeyedRecords(
            order, self._client, self.reports, self._route, self._hand_over, self._copies, self._admitted,
            clock=self._clock,
        )  # fmt: skip

    # -- sending -------------------------------------------------------------------------------------

    def send(self, record: Record, partition: int | None = None) -> Any:
        """Send a record whose partition the application has not given; return what the client returns.

        Of one that may be rescued the value is serialized. ``partition``: where it goes, if that was chosen
        already. Whatever the partitioner or the client raises: the record was not taken then.
        """
        rescuable = self._admitted(record) if self.copies is not None and record.key is None else None
        try:
            if partition is None:
                partition = self._client.choose(record)
            sent = record if rescuable is None else rescuable.to_send()
            return self.launch(sent, partition, self._client.hand_over, rescuable)
        except BaseException as error:
            if rescuable is None:
                raise
            if partition is None or not self._client.is_too_large(error):
                self._copies.finish(rescuable)
                raise
        self._copies.finish(rescuable, unheld=True)  # our header is never why a record can't be sent
        return self.launch(record, partition, self._client.hand_over)

    def _admitted(self, record: Record) -> RescuableRecord | None:
        """Return a record that may get a copy; None if too much is kept already."""
        # A copy is to have the time of the original, which librdkafka does not report of a failed record.
        timestamp_ms = record.timestamp_ms or int(time.time() * 1000)
        topic, value, key, outcome, _, headers = record
        given = Record(topic, value, key, outcome, timestamp_ms, as_list(headers))  # quicker than `_replace`
        name = f"{self._producer_id}-{next(self._numbers)}"
        rescuable = RescuableRecord(given, name, self._clock(), spans.origin())
        return rescuable if self._copies.admit(rescuable) else None

    def launch(
        self,
        record: Record,
        partition: int,
        hand_over: Callable[[Record, Attempt], T],
        rescuable: RescuableRecord | None = None,
        *,
        alone: Callable[[], T] | None = None,
    ) -> T:
        """Track an attempt by a handle that is not blocked, and hand it over; take it back if it is refused.

        Where the client does not know the partition yet, it may choose. Of a batch for one partition the
        first record is tracked; ``alone`` sends each of them by itself, where keys are placed one by one.
        What ``hand_over`` raises was not taken.
        """
        is_key, ignores_keys = self._partitioner.keying.is_key, self._partitioner.ignores_keys
        keyed = self.keyed if is_key(record.key) and not ignores_keys else None
        while True:
            route = self._route(record.topic, partition)
            if keyed is not None and partition != UNASSIGNED and self._must_place(keyed.order, record, route):
                return keyed.send(record, partition) if alone is None else alone()
            attempt = Attempt(record.topic, partition, FIRST, rescuable=rescuable)
            if route is not None and not is_key(record.key):
                attempt.handle = self._handle(record.topic, partition, route)
            try:
                order = None if keyed is None else keyed.order
                taken = self._hand_over(record, attempt, route, hand_over, order)
            except HandleClosedError:  # it was idle until a moment ago
                continue
            except BaseException as error:
                if partition == UNASSIGNED or not self._client.knows_no_such_partition(error):
                    raise
                if not self._client.may_choose(record):  # a shared poller may be ahead of this handle
                    raise
                partition = UNASSIGNED
            else:
                if keyed is not None and attempt.mark is None and alone is None:  # a batch's are logged by it
                    keyed.order.log(record.topic, record.key)
                return taken

    def _hand_over(
        self,
        record: Record,
        attempt: Attempt,
        route: Route | None,
        hand_over: Callable[[Record, Attempt], T],
        log: KeyOrder | None = None,
    ) -> T:
        """Track an attempt, have it marked in a log of keys, and hand it over; take it back if refused."""
        self._report_sent(attempt, route)
        if log is not None and attempt.tracked:
            attempt.mark = log.mark(attempt.topic, record.key, attempt.partition)
        linked = None
        if attempt.rescuable is not None:
            self._copies.launched(attempt.rescuable, attempt)
            linked = attempt.rescuable.origin if attempt.is_copy else None
        try:
            if linked is None:
                taken = hand_over(record, attempt)
            else:
                taken = spans.copied(hand_over, record, attempt, linked)
        except BaseException:
            self.take_back(attempt)
            raise
        attempt.taken = True
        return taken

    def _must_place(self, order: KeyOrder, record: Record, route: Route | None) -> bool:
        return self.reports.deliveries.avoiding or order.must_place(record.topic, record.key, route)

    def places_keys(self, topic: str) -> bool:
        """Return whether some keyed records of a topic must be placed one by one."""
        if self.keyed is None:
            return False
        order, route = self.keyed.order, self._partitioner.route(topic)
        return self.reports.deliveries.avoiding or order.counts_some(topic) or order.places_all(route)

    def _route(self, topic: str, partition: int) -> Route | None:
        """Return a topic's route, if the partition is one of it."""
        route = self._partitioner.route(topic)
        return route if route is not None and 0 <= partition < route.count else None

    def _handle(self, topic: str, partition: int, route: Route) -> int:
        """Return a further handle for a record that needs no suspect."""
        handle = self.reports.deliveries.handle
        return self._client.pick(handle, topic) if handle != FIRST and route.is_safe(partition) else FIRST

    def _report_sent(self, attempt: Attempt, route: Route | None) -> None:
        """Track an attempt: of a record that may get a copy, a probe, or one in `SAMPLE_S`."""
        if route is None or not self._tracks or not 0 <= attempt.partition < route.count:
            return
        is_tracked = attempt.rescuable is not None
        if not is_tracked and (now := self._clock()) >= self.next_sample:
            self.next_sample = now + SAMPLE_S
            is_tracked = True
        if is_tracked or route.avoids(attempt.partition):
            self.reports.sent(attempt, route)

    def placed(self, attempt: Attempt, partition: int) -> None:
        """Note which partition the client has chosen for an attempt that was `UNASSIGNED`.

        Only from now on does the failure detector know of it. A client calls `reported` after this.
        """
        if attempt.rescuable is not None:
            self._copies.placed(attempt.rescuable, attempt, partition)
        attempt.partition = partition
        self._report_sent(attempt, self._partitioner.route(attempt.topic))

    def take_back(self, attempt: Attempt) -> None:
        """Note that the client did not take an attempt."""
        if attempt.tracked:
            self.reports.withdrawn(attempt)
        if self.keyed is not None:
            self.keyed.order.reported(attempt, None)
        if attempt.rescuable is not None:
            self._copies.taken_back(attempt.rescuable, attempt)

    # -- reports -------------------------------------------------------------------------------------

    def reported(
        self,
        attempt: Attempt,
        *,
        arrived: Any = None,
        offset: int = -1,
        error: BaseException | None = None,
        answered: bool = True,
        latency_s: float = 0.0,
        worth_a_copy: bool = False,
    ) -> None:
        """Take the client's report of an attempt.

        It has ``arrived``, which is what the client says of it, at an ``offset`` (negative: not known). Or
        there is an ``error``, and another attempt might do better, or not. ``answered``: whether a broker
        has, be it with an error, so many seconds after it was sent.
        """
        self._has_answers = self._has_answers or answered
        try:
            if attempt.tracked and answered:
                self.reports.answered(attempt, latency_s)
            elif attempt.tracked:
                self.reports.failed(attempt)
        finally:
            if self.keyed is not None and (attempt.mark is not None or attempt.key is not None):
                self.keyed.order.reported(attempt, None if error is not None else offset)
            if (rescuable := attempt.rescuable) is not None:
                if error is None:
                    is_outcome = self._copies.arrived(rescuable, attempt)
                else:
                    is_outcome = self._has_failed(attempt, rescuable, error, worth_a_copy)
                if is_outcome:
                    self._finish(rescuable, arrived)

    def _has_failed(
        self, attempt: Attempt, rescuable: RescuableRecord, error: BaseException, worth_a_copy: bool
    ) -> bool:
        if not self._has_answers and self._partitioner.route(attempt.topic) is None:
            worth_a_copy = False  # no broker has ever answered: a copy would wait for just the same
        if not rescuable.bare and self._client.is_too_large(error):
            rescuable.bare = worth_a_copy = True  # a broker's limit: the record alone may be within it
        return self._copies.failed(rescuable, attempt, error, worth_a_copy=worth_a_copy)

    def _finish(self, rescuable: RescuableRecord, arrived: Any = None) -> None:
        try:
            self._client.finish(rescuable, arrived)
        finally:
            self._copies.finish(rescuable)

    # -- copies --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many copies, and records that are held, are to be sent."""
        return self._copies.waiting + (0 if self.keyed is None else self.keyed.order.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be judged or sent soon."""
        return self.copies is None and not self.waiting and not self.reports.deliveries.avoiding

    def purge(self) -> None:
        """Let nothing be sent that waits now."""
        self._copies.purge()
        if self.keyed is not None:
            self.keyed.purge()

    def served(self, *, hedges: bool = True) -> None:
        """Judge the brokers after reports were served, and send the copies that follow from it.

        ``hedges``: whether to search for records that are stuck, too; not where there is no time for copies.
        """
        self.reports.polled()
        if is_due := (now := self._clock()) >= self._next_search:
            self._next_search = now + SEARCH_EVERY_S
        if self.keyed is not None:
            self.keyed.served(ask_again=is_due)
        if is_due and hedges and self.hedges:
            self._hedge()
        if self.copies is not None:
            self.drain()

    def _hedge(self) -> None:
        """Queue copies of the records that are stuck, of topics where a copy would not be stuck as well."""
        if self._client.is_coming(self.reports.deliveries.handle):
            return  # a moment later copies have a handle that is not blocked
        if (stuck := self.reports.stuck()) or self._copies.is_short:
            routes = {topic: self._partitioner.route(topic) for _, topic, _ in stuck}
            safe = {
                topic for topic, route in routes.items() if route is not None and route.safe != frozenset()
            }
            stuck = {place: broker for place, broker in stuck.items() if place[1] in safe}
            self._copies.copy_stuck(stuck)
            if self.keyed is not None and self.keyed.order.recalls:
                self.keyed.recall(stuck)

    def drain(self) -> None:
        """Send the copies that are queued; what finds no room stays for the next time.

        One that can't be sent (a partitioner of the application's raises, the producer was closed) leaves its
        record with the outcome that it had, unless another attempt is in flight.
        """
        copies = self._copies
        while copies.queue and (rescuable := copies.take()) is not None:
            try:
                self._send_copy(rescuable)
            except self._client.no_room:
                copies.put_back(rescuable)
                break
            except Exception as error:  # noqa: BLE001 - see above
                if copies.refused(rescuable, error):
                    self._finish(rescuable)
            except BaseException:  # a signal's
                copies.put_back(rescuable, interrupted=True)
                raise
        for broker, (queued, withheld) in copies.take_news().items():
            self.reports.emit([RecordsRescued(broker=broker, copies=queued, withheld=withheld)])

    def _send_copy(self, rescuable: RescuableRecord) -> None:
        if rescuable.purged:
            raise PurgedError
        record, tried = rescuable.to_send(), rescuable.tried
        partition = self._client.choose(record, tried)
        route = self._partitioner.route(record.topic)
        if route is not None and route.avoids(partition):  # a copy is no probe
            partition = self._client.choose(record, tried)
        self.launch(record, partition, self._client.hand_over, rescuable)
