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
from typing import Any, Final

from attrs import Factory, define, field

from kafka_partition_events.clients.flight import spans
from kafka_partition_events.clients.flight.client import Client, HandleClosedError, PurgedError
from kafka_partition_events.clients.flight.copies import SEARCH_EVERY_S, Copies
from kafka_partition_events.clients.flight.key_order import FIRST, KeyOrder
from kafka_partition_events.clients.flight.keyed import KeyedRecords
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord, as_list
from kafka_partition_events.clients.flight.reports import ProducerReports
from kafka_partition_events.clients.flight.rescue import RescueMode
from kafka_partition_events.metadata.events import RecordsRescued
from kafka_partition_events.partitioners.base import UNASSIGNED, Partitioner
from kafka_partition_events.routing.table import Route

SAMPLE_S: Final = 0.001
"""One record in so much time is tracked, of all topics together: that costs the same at any rate, and misses
nothing, as a broker is suspected after 25 ms at the soonest. `Copies.overdue` has what it leaves out."""


@define(eq=False, slots=False)
class Flight:
    """The records of one producer, to which it holds no reference. Thread-safe."""

    _partitioner: Partitioner  # chooses partitions, and has the routes
    client: Client
    reports: ProducerReports  # the failure detector's door
    rescue: RescueMode | None = None  # whether records get copies, and when
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)  # monotonic seconds
    # Empty without a rescue:
    copies: Copies = field(default=Factory(lambda it: Copies(it.clock), takes_self=True), init=False)
    keyed: KeyedRecords | None = field(default=None, init=False)  # see `keep_order`
    next_sample: float = field(default=-math.inf, init=False)  # when the next record is to be tracked
    _has_answers: bool = field(default=False, init=False)
    _next_search: float = field(default=-math.inf, init=False)
    _producer_id: str = field(factory=lambda: secrets.token_hex(8), init=False)
    _numbers: Iterator[int] = field(factory=lambda: count(1), init=False)

    def keep_order(self, order: KeyOrder) -> None:
        """Keep the order of keys over several places, from before the first record on; else all go home."""
        self.keyed = KeyedRecords(order, self)

    # -- sending -------------------------------------------------------------------------------------

    def send(self, record: Record, partition: int | None = None) -> Any:
        """Send a record whose partition the application has not given; return what the client returns.

        Of one that may be rescued the value is serialized. ``partition``: where it goes, if that was chosen
        already. Whatever the partitioner or the client raises: the record was not taken then.
        """
        rescuable = self.rescuable(record) if self.rescue is not None and record.key is None else None
        try:
            rescuable = rescuable and self.copies.admit(rescuable)
            if partition is None:
                partition = self.client.choose(record)
            sent = record if rescuable is None else rescuable.to_send()
            return self.launch(sent, partition, rescuable)
        except BaseException as error:
            if rescuable is None:
                raise
            if partition is None or not self.client.is_too_large(error):
                self.copies.finish(rescuable)
                raise
        self.copies.finish(rescuable, unheld=True)  # our header is never why a record can't be sent
        return self.launch(record, partition)

    def rescuable(self, record: Record) -> RescuableRecord:
        """Return a record that may get a copy, if there is room for that."""
        # A copy is to have the time of the original, which librdkafka does not report of a failed record.
        timestamp_ms = record.timestamp_ms or int(time.time() * 1000)
        topic, value, key, outcome, _, headers = record
        given = Record(topic, value, key, outcome, timestamp_ms, as_list(headers))  # quicker than `_replace`
        name = f"{self._producer_id}-{next(self._numbers)}"
        return RescuableRecord(given, name, self.clock(), spans.origin())

    def launch(self, record: Record, partition: int, rescuable: RescuableRecord | None = None) -> Any:
        """Track an attempt by a handle that is not blocked, and hand it over; take it back if it is refused.

        Where the client does not know the partition yet, it may choose. What it raises was not taken.
        """
        is_key, ignores_keys = self._partitioner.keying.is_key, self._partitioner.ignores_keys
        keyed = self.keyed if is_key(record.key) and not ignores_keys else None
        while True:
            if keyed is not None and partition == UNASSIGNED:  # nothing is known of the topic any more
                partition = keyed.order.home(record.topic, record.key, UNASSIGNED)
            route = self.route(record.topic, partition)
            if keyed is not None and partition != UNASSIGNED and self._must_place(keyed.order, record, route):
                return keyed.send(record, partition)
            attempt = Attempt(record.topic, partition, FIRST, rescuable=rescuable)
            if not is_key(record.key) and self.reports.deliveries.handle != FIRST:
                attempt.handle = self.handle(record.topic, route, partition)
            try:
                taken = self.hand_over(record, attempt, route, None if keyed is None else keyed.order)
            except HandleClosedError:  # it was idle until a moment ago
                continue
            except BaseException as error:
                is_known = partition == UNASSIGNED or not self.client.knows_no_such_partition(error)
                if is_known or not self.client.may_choose(record):
                    raise
                # A shared poller is ahead of this handle.
                partition = UNASSIGNED
            else:
                if keyed is not None and attempt.mark is None:
                    keyed.order.log(record.topic, record.key)
                return taken

    def hand_over(
        self, record: Record, attempt: Attempt, route: Route | None, log: KeyOrder | None = None
    ) -> Any:
        """Track an attempt, have it marked in a log of keys, and hand it over; take it back if refused."""
        linked = None
        try:  # from the first line on: a signal handler may raise anywhere in here
            self._report_sent(attempt, route, log)
            if log is not None and attempt.tracked:
                log.mark(attempt, record.key)
            if attempt.rescuable is not None:
                self.copies.launched(attempt.rescuable, attempt)
                linked = attempt.rescuable.origin if attempt.is_copy else None
            if linked is None:
                taken = self.client.hand_over(record, attempt)
            else:
                taken = spans.copied(self.client.hand_over, record, attempt, linked)
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

    def route(self, topic: str, partition: int) -> Route | None:
        """Return a topic's route, if the partition is one of it."""
        route = self._partitioner.route(topic)
        return route if route is not None and 0 <= partition < route.count else None

    def further(self, topic: str) -> int:
        """Return the handle for a topic's records that need no suspect."""
        number = self.reports.deliveries.handle
        detour = self.client.detours.get(number)  # there is none for the first one
        handle = None if detour is None else detour.handle()
        return FIRST if handle is None or not self.client.may_take(handle, topic) else number

    def handle(self, topic: str, route: Route | None, partition: int) -> int:
        """Return the handle for a record without a key."""
        return FIRST if route is None or not route.is_safe(partition) else self.further(topic)

    def _report_sent(self, attempt: Attempt, route: Route | None, log: KeyOrder | None = None) -> None:
        """Track a probe, one in `SAMPLE_S`, and the first at its place of what is placed or may be copied."""
        if route is None or not 0 <= attempt.partition < route.count:
            return
        if is_due := (now := self.clock()) >= self.next_sample:
            self.next_sample = now + SAMPLE_S
        may_be_stuck = attempt.key is not None or attempt.rescuable is not None
        is_first = may_be_stuck and not self.reports.deliveries.tracks(*attempt.place)
        if is_due or is_first or route.avoids(attempt.partition):
            attempt.tracked = True
            sampled = log is not None and log.has_untracked(attempt.topic)
            self.reports.sent(attempt, route, sampled=sampled)

    def placed(self, attempt: Attempt, partition: int) -> None:
        """Note which partition the client has chosen for an attempt that was `UNASSIGNED`.

        Only from now on does the failure detector know of it. A client calls `reported` after this.
        """
        if attempt.rescuable is not None:
            self.copies.placed(attempt.rescuable, attempt, partition)
        attempt.partition = partition
        self._report_sent(attempt, self._partitioner.route(attempt.topic))

    def take_back(self, attempt: Attempt) -> None:
        """Note that the client did not take an attempt."""
        if self.keyed is not None:
            self.keyed.order.reported(attempt, None)
        if attempt.rescuable is not None:
            self.copies.taken_back(attempt.rescuable, attempt)
        if attempt.tracked:  # from here on that changes no more, see `_track_overdue`
            self.reports.withdrawn(attempt)

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
            self._landed(attempt, offset, error, worth_a_copy)
            if attempt.tracked and answered:  # from here on that changes no more, see `_track_overdue`
                self.reports.answered(attempt, latency_s)
            elif attempt.tracked:
                self.reports.failed(attempt)
        except BaseException:  # maybe a signal's, before all was noted
            self._landed(attempt, offset, error, worth_a_copy)
            raise
        finally:
            if attempt.ends and attempt.rescuable is not None:
                self._finish(attempt.rescuable, arrived)

    def _landed(self, attempt: Attempt, offset: int, error: BaseException | None, worth: bool) -> None:
        """Note a report; a second time what an interrupt has left out."""
        if self.keyed is not None and (attempt.mark is not None or attempt.key is not None):
            self.keyed.order.reported(attempt, None if error is not None else offset)
        if (rescuable := attempt.rescuable) is not None:
            worth = error is not None and self._is_worth_a_copy(rescuable, error, worth)
            self.copies.landed(rescuable, attempt, error, worth_a_copy=worth)

    def _is_worth_a_copy(self, rescuable: RescuableRecord, error: BaseException, said: bool) -> bool:
        if not rescuable.bare and self.client.is_too_large(error):
            rescuable.bare = True  # a broker's limit: the record alone may be within it
            return True
        # Where no broker has ever answered a copy would wait for just the same.
        return said and (self._has_answers or self._partitioner.route(rescuable.given.topic) is not None)

    def _finish(self, rescuable: RescuableRecord, arrived: Any = None) -> None:
        try:
            self.client.finish(rescuable, arrived)
        finally:
            self.copies.finish(rescuable)

    # -- copies --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many copies, and records that are held, are to be sent."""
        return self.copies.waiting + (0 if self.keyed is None else self.keyed.order.waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing has to be judged, or sent, or found stuck soon."""
        return not (self.waiting or self.copies.has_open or self.reports.deliveries.avoiding)

    def end(self) -> None:
        """Give what waits its outcome, as nothing can be sent any more."""
        self.copies.close()
        self.purge()
        raised, before = None, math.inf
        while (waiting := self.waiting) < before:
            before = waiting
            try:
                self.served(hedges=False)
            except Exception as error:  # noqa: BLE001 - of a callback: the others are called, too
                raised = raised or error
        if raised is not None:
            raise raised

    def purge(self) -> None:
        """Let nothing be sent that waits now."""
        self.copies.purge()
        if self.keyed is not None:
            self.keyed.purge()

    def served(self, *, hedges: bool = True) -> None:
        """Judge the brokers after reports were served, and send the copies that follow from it.

        ``hedges``: whether to search for records that are stuck, too; not where there is no time for copies.
        """
        self.reports.polled()
        if is_due := (now := self.clock()) >= self._next_search:
            self._next_search = now + SEARCH_EVERY_S
        if self.keyed is not None:
            self.keyed.served(ask_again=is_due)
        if is_due and hedges and self.rescue == "hedge":
            self._hedge()
        self.drain()

    def _track_overdue(self) -> None:
        """Track a record wherever some wait, and none is tracked.

        It may be reported at any time, by another thread. If that is before `Copies.track`, it finds a record
        that is not tracked, and reports nothing of it; then this does. If it is after, it reports as usual.
        """
        for attempt in self.copies.overdue():
            if (route := self.route(attempt.topic, attempt.partition)) is not None:
                self.reports.sent(attempt, route)
                if not self.copies.track(attempt):
                    self.reports.withdrawn(attempt)

    def _hedge(self) -> None:
        """Queue copies of the records that are stuck, of topics where a copy would not be stuck as well."""
        self._track_overdue()
        detour = self.client.detours.get(self.reports.deliveries.handle)
        if detour is not None and detour.handle() is None and detour.is_coming:
            return  # a moment later copies have a handle that is not blocked
        if (stuck := self.reports.stuck()) or self.copies.is_short:
            routes = {topic: self._partitioner.route(topic) for _, topic, _ in stuck}
            safe = {
                topic for topic, route in routes.items() if route is not None and route.safe != frozenset()
            }
            stuck = {place: broker for place, broker in stuck.items() if place[1] in safe}
            self.copies.copy_stuck(stuck)
            if self.keyed is not None and self.keyed.order.recalls:
                self.keyed.recall(stuck)

    def drain(self) -> None:
        """Send the copies that are queued; what finds no room stays for the next time.

        One that can't be sent (a partitioner of the application's raises, the producer was closed) leaves its
        record with the outcome that it had, unless another attempt is in flight.
        """
        copies = self.copies
        while copies.queue:
            taken: list[RescuableRecord] = []
            try:
                copies.take(taken)
                for rescuable in taken:
                    try:
                        self._send_copy(rescuable)
                    except self.client.no_room:
                        raise
                    except Exception as error:  # noqa: BLE001 - see above
                        if copies.refused(rescuable, error):
                            self._finish(rescuable)
            except self.client.no_room:
                copies.put_back(taken)
                break
            except BaseException:  # a signal's
                copies.put_back(taken, interrupted=True)
                raise
        for broker, (queued, withheld) in copies.take_news().items():
            self.reports.emit([RecordsRescued(broker=broker, copies=queued, withheld=withheld)])

    def _send_copy(self, rescuable: RescuableRecord) -> None:
        if rescuable.purged:
            raise PurgedError
        record, tried = rescuable.to_send(), rescuable.tried
        partition = self.client.choose(record, tried)
        route = self._partitioner.route(record.topic)
        if route is not None and route.avoids(partition):  # a copy is no probe
            partition = self.client.choose(record, tried)
        self.launch(record, partition, rescuable)
