"""A process with a producer in it, and as much of the pipeline as it was told to have. See `hot_path`."""

import json
import logging
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from threading import Timer
from typing import Any

import structlog
from attrs import frozen
from confluent_kafka import Producer
from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.events.dispatching import Prepared
from benchmarks.produce import CONFIG, PARTITIONS, PRODUCERS, VALUE, send_unkeyed
from kafka_partition_events import MetadataPoller
from kafka_partition_events.clients.confluent import PartitioningProducer
from kafka_partition_events.outbox import MemoryOutbox
from kafka_partition_events.testing import MockCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events_listeners.journal import JournalListener
from kafka_partition_events_listeners.prometheus_listener import PrometheusListener
from kafka_partition_events_listeners.webhook import WebhookListener

TOPIC = "produce"
SENDS = 4
_LIMIT_S = 60.0
_LOSS_AFTER_S, _SCRAPE_AFTER_S = 0.1, 0.5


@frozen(kw_only=True)
class Mode:
    """What there is beside the producer; a poller that knows 200,000 partitions always is.

    Attributes:
        listeners: `JournalListener` in memory, `WebhookListener` on a port where nobody listens, and
            `PrometheusListener`.
        scraped: Metrics are read once in each run.
        losing: A broker goes, or comes back, once in each run.
    """

    listeners: bool = False
    scraped: bool = False
    losing: bool = False


MODES = {
    "bare": Mode(),
    "idle": Mode(listeners=True),
    "scraped": Mode(listeners=True, scraped=True),
    "losing": Mode(losing=True),
    "busy": Mode(listeners=True, scraped=True, losing=True),
}


class Pipeline:
    """A poller of the large cluster, and what listens to it."""

    def __init__(self, mode: Mode) -> None:
        self._mode = mode
        self._source = Prepared()
        self._poller = MetadataPoller(self._source)
        self._poller.poll_once()
        self._registry = CollectorRegistry()
        listeners = self._make_listeners() if mode.listeners else []
        self._registrations = [self._poller.register(listener) for listener in listeners]

    def _make_listeners(self) -> list[Any]:
        [port] = free_ports(1)
        return [
            JournalListener(MemoryOutbox()),
            WebhookListener(f"http://{HOST}:{port}/", allow_private=True, drain_timeout=0),
            PrometheusListener(self._poller, registry=self._registry),
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let happen what the mode says while the block runs; what is not over at its end is waited for."""
        timers = []
        if self._mode.losing:
            self._source.prepare()
            timers.append(Timer(_LOSS_AFTER_S, self._poller.poll_once))
        if self._mode.scraped:
            timers.append(Timer(_SCRAPE_AFTER_S, generate_latest, [self._registry]))
        for timer in timers:
            timer.start()
        yield
        for timer in timers:
            timer.join(_LIMIT_S)
        self._drain()

    def _drain(self) -> None:
        for registration in self._registrations:
            registration.wait_synced(_LIMIT_S)

    def close(self) -> None:
        self._poller.close(_LIMIT_S)


def cost(pipeline: Pipeline, producer: Producer, count: int) -> dict[str, float]:
    """Return the microseconds that a record took, each `flush` included."""
    with pipeline.running():
        began = time.perf_counter()
        for _ in range(SENDS):
            send_unkeyed(producer, TOPIC, count)
            producer.flush()
        took = time.perf_counter() - began
    return {"us": took / (SENDS * count) * 1e6}


def pauses(pipeline: Pipeline, producer: Producer, count: int) -> dict[str, float]:
    """Return the longest call of `produce`, and how long all calls above a millisecond took together."""
    produce, clock, value = producer.produce, time.perf_counter_ns, VALUE
    took = array("q", bytes(8 * count))
    with pipeline.running():
        before = clock()
        for number in range(count):
            produce(TOPIC, value)
            now = clock()
            took[number] = now - before
            before = now
    producer.flush()
    return {"worst_ms": max(took) / 1e6, "above_ms": sum(ns for ns in took if ns > 1_000_000) / 1e6}


COMMANDS = {"cost": cost, "pauses": pauses}


def main(mode: str, count: int) -> None:
    """Obey commands, one a line; answer each with a JSON object."""
    # Answers go to stdout, and so would what structlog has to say about the dead target.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with ExitStack() as opened:
        cluster = opened.enter_context(MockCluster(3))
        cluster.create_topic(TOPIC, PARTITIONS)
        config = {**CONFIG, "bootstrap.servers": cluster.bootstrap_servers}
        producers = [opened.enter_context(PartitioningProducer(config)) for _ in range(PRODUCERS)]
        for producer in producers:
            producer.produce(TOPIC, VALUE)
            producer.poller.refresh("warm-up", wait=10.0)
        pipeline = opened.enter_context(closing(Pipeline(MODES[mode])))
        turns = cycle(producers)
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(COMMANDS[line.strip()](pipeline, next(turns), count)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
