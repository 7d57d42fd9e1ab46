"""gunicorn (sync, gthread), ``--preload`` or not: ``gunicorn -c gunicorn_conf.py wsgi_orders:app``."""

import os
import threading
from typing import Any

import wsgi_orders

from kafka_partition_events.clients.confluent import PartitioningProducer


def post_worker_init(worker: Any) -> None:
    """Make the producer in the worker: one that was made before the fork would raise ForkedError."""
    wsgi_orders.producer = PartitioningProducer({"bootstrap.servers": os.environ["KAFKA"]}, rescue="hedge")
    threading.Thread(target=_serve, args=(worker,), daemon=True).start()


def _serve(worker: Any) -> None:
    while worker.alive:
        wsgi_orders.producer.poll(0.05)  # delivery reports arrive here, and show who answers


def worker_exit(server: Any, worker: Any) -> None:
    wsgi_orders.producer.close()  # sends what is queued
