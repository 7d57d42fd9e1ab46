"""Celery: ``KAFKA=localhost:9092 celery -A celery_app worker``: a producer for each process of the pool."""

import os
from typing import Any

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown

from kafka_partition_events.clients.confluent import PartitioningProducer

app = Celery("orders", broker=os.environ.get("BROKER", "memory://"))
producer: Any = None


@worker_process_init.connect
def make(**_: Any) -> None:
    global producer  # noqa: PLW0603 - one for the process, made after its fork
    producer = PartitioningProducer({"bootstrap.servers": os.environ["KAFKA"]}, rescue="hedge")


@worker_process_shutdown.connect
def close(**_: Any) -> None:
    producer.close()


@app.task(acks_late=True, autoretry_for=(Exception,), retry_backoff=True, max_retries=None)
def order(text: str) -> None:
    outcomes: list[Any] = []
    producer.produce("orders", text, on_delivery=lambda error, _message: outcomes.append(error))
    producer.flush(30)
    error = outcomes[0] if outcomes else "no outcome within 30 s"
    if error is not None:  # the task is done when Kafka has the record; until then Celery runs it again
        raise RuntimeError(f"not delivered: {error}")
