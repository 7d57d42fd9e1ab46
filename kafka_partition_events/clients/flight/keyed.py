"""Sends keyed records so that no record of a key overtakes an earlier one: what has to wait is held here.

Who is held is decided by `KeyOrder`. Held records go as soon as nothing of their key is outstanding, from the
calls that serve a producer's reports; they count as queued until then.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from kafka_partition_events.clients.flight import spans
from kafka_partition_events.clients.flight.client import HandleClosedError, HeldTooLongError, PurgedError
from kafka_partition_events.clients.flight.copies import Stuck
from kafka_partition_events.clients.flight.key_episodes import KeyEpisodes
from kafka_partition_events.clients.flight.key_log import as_bytes
from kafka_partition_events.clients.flight.key_order import FIRST, KeyOrder
from kafka_partition_events.clients.flight.predecessors import AFTER_HEADER
from kafka_partition_events.clients.flight.record import Attempt, Record, RescuableRecord, as_list
from kafka_partition_events.partitioners.base import UNASSIGNED
from kafka_partition_events.routing.table import Route

if TYPE_CHECKING:
    from kafka_partition_events.clients.flight.engine import Flight

RECALLED_WITHIN_S: Final = 2.0
"""Records of one key are sent again together only if the application sent them within less than so many
seconds. The originals stay with the client, and the time of the first one ends first: should the broker come
back then, a later one is written where it was, and may be read before the first one's copy."""
_NEWS_EVERY_S: Final = 0.25
_RECALL_S: Final = 0.02  # how long the application's poll may take for that


@define(eq=False)
class _KeyedRecord:
    """A record that is placed, or waits for that."""

    record: Record
    home: int  # its key's partition
    since: float  # monotonic seconds
    rescuable: RescuableRecord | None = None  # what is known of it, if it may be recalled
    purged: bool = False  # the application has dropped it
    is_gone: bool = False  # it is with the client; or an exception says that it was not taken

    def to_send(self, after: bytes) -> Record:
        """Return the record as it is sent, with what it comes after."""
        record = self.record if self.rescuable is None else self.rescuable.to_send()
        if not after:
            return record
        return record._replace(headers=[*as_list(record.headers), (AFTER_HEADER, after)])


@define(eq=False)
class KeyedRecords:
    """The keyed records of one producer that have to be placed. Thread-safe."""

    order: KeyOrder  # where they go, and when
    _flight: "Flight"
    _episodes: KeyEpisodes = field(factory=KeyEpisodes, init=False)
    _next_news: float = field(default=-math.inf, init=False)
    _next_recall: float = field(default=-math.inf, init=False)

    def send(self, record: Record, home: int) -> Any:
        """Send a record to where it may go, or hold it; return what the application gets.

        Whatever the client raises: the record was not taken then.
        """
        key = as_bytes(record.key)
        it = _KeyedRecord(record, home, self._flight.clock())
        if self.order.recalls:
            it.rescuable = self._flight.rescuable(record if key is record.key else record._replace(key=key))
        try:
            if it.rescuable is not None:
                it.rescuable = self._flight.copies.admit(it.rescuable)
            result = self._send(it, key, held=False)
            if not it.is_gone:
                it.record, result = self._flight.client.hold(record, self.order.waiting)
                self.order.hold(record.topic, key, it)
        except BaseException:
            it.is_gone = True  # should a signal have come when it was held already
            self._let_go(it)
            raise
        return result

    def _send(self, it: _KeyedRecord, key: bytes, *, held: bool) -> Any:
        """Hand a record over, which `is_gone` then, unless it has to wait; return what the client returns."""
        topic, home, by_further = it.record.topic, it.home, True
        while True:
            route = self._flight.route(topic, home)
            handle = self._flight.further(topic) if by_further else FIRST
            was_sent = it.rescuable is not None and bool(it.rescuable.tried)
            attempt = Attempt(topic, home, handle, rescuable=it.rescuable)
            try:
                return self._place(it, attempt, key, route, held=held, recalled=was_sent)
            except HandleClosedError:  # it was idle until a moment ago
                # What is outstanding of the key may be there; then that has to be reported first.
                if attempt.handle not in {FIRST, handle}:
                    return None
            except Exception as error:
                if it.rescuable is not None and not was_sent and self._flight.client.is_too_large(error):
                    self._let_go(it, unheld=True)  # our header is never why a record can't be sent
                elif not self._flight.client.knows_no_such_partition(error):
                    raise
                elif attempt.handle == FIRST:
                    return self._no_partition(it, attempt, error, held=held)
                else:
                    by_further = False  # it learns that a topic has grown later than the first handle

    def _place(
        self,
        it: _KeyedRecord,
        attempt: Attempt,
        key: bytes,
        route: Route | None,
        *,
        held: bool,
        recalled: bool,
    ) -> Any:
        try:  # from the first line on: a signal handler may raise anywhere in here
            if not self.order.place(attempt, key, route, held=held, recalled=recalled):
                return None
            spans.placed(it.home, attempt.partition, held=held)
            taken = self._flight.hand_over(it.to_send(attempt.after), attempt, route)
            it.is_gone = True
        except BaseException:
            if not it.is_gone:
                self.order.reported(attempt, None)  # also what did not come to a hand-over counts no more
            raise
        else:
            return taken

    def _no_partition(self, it: _KeyedRecord, attempt: Attempt, error: Exception, *, held: bool) -> Any:
        """Hold a record whose partition no handle knows yet; one that is at home the client may place."""
        if not held and (attempt.partition != it.home or attempt.after):
            return None
        if held or not self._flight.client.may_choose(it.record):
            raise error
        self._let_go(it)
        # The client puts its key where it did until now: a shared poller is ahead of it.
        result = self._flight.client.hand_over(it.record, Attempt(it.record.topic, UNASSIGNED, FIRST))
        it.is_gone = True
        self.order.log(it.record.topic, it.record.key)
        return result

    def _let_go(self, it: _KeyedRecord, *, unheld: bool = False) -> None:
        if it.rescuable is not None:
            self._flight.copies.finish(it.rescuable, unheld=unheld)
            it.rescuable = None

    def served(self, *, ask_again: bool) -> None:
        """Send what may go by now, and publish which keys have moved.

        ``ask_again``: whether to ask the log again for what waits, which takes long.
        """
        self._release_ready(ask_again=ask_again)
        self.publish()

    def publish(self) -> None:
        """Publish which keys have moved; waits for nothing."""
        now = self._flight.clock()
        if self.order.moves is not None and now >= self._next_news:
            self._next_news = now + _NEWS_EVERY_S
            self._flight.reports.emit(
                self._episodes.news(self.order.counts, self._flight.reports.deliveries.suspects(), now)
            )

    def recall(self, stuck: Stuck) -> None:
        """Send again what waits for a suspect, key by key, from where no suspect is needed."""
        begun = self._flight.clock()
        if begun < self._next_recall or not self._flight.copies.has_budget:
            return
        if not self._recall_some(stuck, begun):  # to ask for each key takes long: a tenth of the time at most
            self._next_recall = begun + 10 * (self._flight.clock() - begun)

    def _recall_some(self, stuck: Stuck, begun: float) -> bool:
        is_any = False
        for (place, _), records in self._flight.copies.stuck_keys(stuck).items():
            handle, topic, partition = place
            attempts = [attempt for record in records for attempt in tuple(record.in_flight)]
            route = self._flight.route(topic, partition)
            if route is None or len(attempts) != len(records) or not all(it.taken for it in attempts):
                continue  # one was just reported, or is just handed over
            if records[-1].since - records[0].since >= RECALLED_WITHIN_S:
                continue
            if not self._flight.copies.has_budget or (is_any and self._flight.clock() - begun > _RECALL_S):
                break
            try:
                handle = self._flight.further(topic)
            except self._flight.client.no_room:
                break  # until there is some: a copy would find none
            again, withdraw = partial(self._again, records, stuck[place]), self._flight.copies.withdraw
            if self.order.recall(attempts, route, handle, again, withdraw):
                is_any = True
                self._release_ready(ask_again=False)  # before the next one asks for a place away from home
        return is_any

    def _again(self, records: Sequence[RescuableRecord], broker: int | None, home: int) -> list[_KeyedRecord]:
        """Return what is to be held, if the records may be sent again."""
        if not self._flight.copies.may_recall(records, broker):
            return []
        return [_KeyedRecord(it.given, home, self._flight.clock(), it) for it in records]

    def _release_ready(self, *, ask_again: bool) -> None:
        try:
            for topic, key in self.order.take_ready(ask_again=ask_again):
                self._release(topic, key)
        except BaseException:  # of the application's callback, or a signal's
            self.order.held(interrupted=True)  # so all are asked about again
            raise

    def _release(self, topic: str, key: bytes) -> None:
        while (held := self.order.begin_release(topic, key)) is not None:
            again = False
            refused: BaseException | None = None
            try:
                if held.rescuable is not None and held.rescuable.finished:
                    held.is_gone = True  # a signal has interrupted its recall, and its former attempt counted
                if not held.is_gone and (refused := self._refusal(held)) is None:
                    self._send(held, key, held=True)
            except self._flight.client.no_room:
                again = True
            except Exception as error:  # noqa: BLE001 - the application gets it
                again = self._flight.client.knows_no_such_partition(error)  # it will; see `most_held_s`
                refused = None if again else error
            except BaseException:
                again = True
                raise
            finally:
                self.order.end_release(topic, key, released=held.is_gone or refused is not None, again=again)
            if refused is not None:
                self._let_go(held)
                self._flight.client.reject(held.record, held.home, refused)
            elif not held.is_gone:
                return

    def _refusal(self, held: _KeyedRecord) -> BaseException | None:
        """Return why a record is not to be sent any more; None if it is."""
        if held.purged:
            return PurgedError()
        waited = self._flight.clock() - held.since
        return HeldTooLongError() if waited > self._flight.client.most_held_s else None

    def purge(self) -> None:
        """Let nothing that is held now be sent; the application gets its outcomes when it is served."""
        for held in self.order.held():
            held.purged = True
