"""Keeps an idempotent ``KafkaProducer`` sending after it has given up its producer id.

kafka-python 3.0 gives its id up when a batch expires that was sent before: it is unknown whether the brokers
have it, so the sequence numbers that follow might never fit. But it asks for a new id only where it never had
one (`TransactionManager.init_producer_id`). From then on it sends nothing and expires nothing: what is
outstanding, and all that is sent later, never has an outcome. And what it was about to send at that moment
stays behind, drained and not handed over, until it expires.

So we put it back to where it asks, and what was not handed over back into its queue. One that waits for an
answer keeps the old id, by which brokers know a retry from a double; it fails if it would have to be sent
again. And as it asks once, and takes a time-out of the broker that was asked for a fatal error, it hears of a
lost connection instead, after which it asks again.
"""

# ruff: noqa: SLF001 - see `private`

from collections.abc import Mapping
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaConnectionError, RetriableError
from kafka.producer.transaction_manager import TransactionState
from kafka.record import MemoryRecords, MemoryRecordsBuilder


def keep_sending(producer: KafkaProducer) -> None:
    """Let a producer ask for a new producer id whenever it has given one up. On its I/O thread; idempotent.

    Nothing happens to one that is not idempotent, or transactional: there the application must abort.
    """
    manager = getattr(producer, "_transaction_manager", None)  # kafka-python offers nothing else
    if manager is None or manager.is_transactional() or "reset_producer_id" in vars(manager):
        return
    sender, accumulator = producer._sender, producer._accumulator
    enqueue = manager._enqueue_request
    give_up, hand_over = manager.reset_producer_id, sender._create_produce_requests
    handed_over = float("-inf")  # when what was handed over last was drained

    def create_produce_requests(batches: dict[Any, list[Any]]) -> Any:
        nonlocal handed_over
        drained = [batch.drained for of_node in batches.values() for batch in of_node]
        handed_over = max((handed_over, *drained))
        return hand_over(batches)

    def reset_producer_id() -> None:
        for queue in tuple(sender._in_flight_batches.values()):
            for _, batch in tuple(queue):
                if batch.final_state is None and batch.drained > handed_over:
                    _put_back(batch, sender, accumulator)
        give_up()
        with manager._lock:
            if manager._current_state == TransactionState.READY:  # else it is about to get one
                manager._current_state = TransactionState.UNINITIALIZED

    def enqueue_request(handler: Any) -> None:
        def on_complete(number: int, said: Any) -> None:
            lost = isinstance(said, RetriableError)  # not a response, which has a code
            type(handler).on_complete(handler, number, KafkaConnectionError(str(said)) if lost else said)

        handler.on_complete = on_complete
        enqueue(handler)

    manager.reset_producer_id = reset_producer_id
    manager._enqueue_request = enqueue_request
    sender._create_produce_requests = create_produce_requests


def _put_back(batch: Any, sender: Any, accumulator: Any) -> None:
    """Queue a batch that was drained and not handed over."""
    sender._maybe_remove_from_inflight_batches(batch)
    if not batch.in_retry():
        _write_again(batch, accumulator.config)
    tp = batch.topic_partition
    with accumulator._tp_lock(tp):
        accumulator._batches[tp].appendleft(batch)
    accumulator.muted.discard(tp)


def _write_again(batch: Any, config: Mapping[str, Any]) -> None:
    """Put the same records into a batch, without the producer id and the number that are closed in."""
    packed = batch.records.buffer()
    size = max(config["batch_size"], 2 * len(packed))
    builder = MemoryRecordsBuilder(config["message_version"], config["compression_attrs"], size)
    for of_batch in MemoryRecords(packed):
        for record in of_batch:
            builder.append(record.timestamp, record.key, record.value, record.headers)
    batch.records, batch.drained = builder, None
