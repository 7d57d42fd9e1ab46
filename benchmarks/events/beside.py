"""What there is beside a producer in its process: the pipeline, a broker that is lost, a Prometheus."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from threading import Timer

from attrs import frozen
from prometheus_client import CollectorRegistry, start_http_server

from benchmarks.errors import BenchError
from benchmarks.events.dispatching import Prepared
from kafka_partition_events import MetadataPoller, PartitionChangeListener, Registration
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener
from kafka_partition_events_listeners.sink_listener import SinkListener
from kafka_partition_events_listeners.webhook.sink import WebhookSink

_LIMIT_S = 60.0
_PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}
"""What Prometheus 2 says when it scrapes."""


@frozen(kw_only=True)
class Mode:
    """What there is, and what happens in a run.

    Attributes:
        listeners: `SinkListener` on a port where nobody listens, and `PrometheusListener`, served over
            HTTP.
        scraped_before: Metrics were scraped before the run, too, so not all of them are made in it.
        scraped_at: When metrics are scraped, in seconds from the run's beginning.
        loss_at: When a broker goes, or comes back; None: it does not.
    """

    listeners: bool = False
    scraped_before: bool = False
    scraped_at: tuple[float, ...] = ()
    loss_at: float | None = None


BARE = Mode()
IDLE = Mode(listeners=True)
SCRAPED = Mode(listeners=True, scraped_at=(0.5,))
LOSING = Mode(loss_at=0.1)
BUSY = Mode(listeners=True, scraped_at=(0.5,), loss_at=0.1)


def minute(seconds: float, *, listeners: bool) -> Mode:
    """Return what happens in a minute; all of it sooner, if it is to pass in fewer seconds."""
    scrapes = tuple(seconds * (1 + 3 * number) / 12 for number in range(4))
    return Mode(
        listeners=listeners,
        scraped_before=listeners,
        scraped_at=scrapes if listeners else (),
        loss_at=seconds / 6,
    )


class Scraper:
    """Serves metrics as an application does, and asks for them as Prometheus does."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.scraped = 0
        [self._port] = free_ports(1)
        self._server, self._thread = start_http_server(self._port, HOST, registry)

    def scrape(self) -> None:
        """Ask once."""
        with closing(HTTPConnection(HOST, self._port, timeout=_LIMIT_S)) as connection:
            connection.request("GET", "/metrics", headers=_PROMETHEUS)
            answer = connection.getresponse()
            if answer.status != 200 or not answer.read():
                raise BenchError(f"asked for metrics, but the answer was {answer.status}")
        self.scraped += 1

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_LIMIT_S)


class Pipeline:
    """A poller of the large cluster, and what listens to it for a while."""

    def __init__(self) -> None:
        self._source = Prepared()
        self._poller = MetadataPoller(self._source)
        self._poller.poll_once()

    @contextmanager
    def running(self, mode: Mode) -> Iterator[None]:
        """Let happen what the mode says while the block runs; what is not over at its end is waited for."""
        registry = CollectorRegistry()
        listeners = self._make_listeners(registry) if mode.listeners else []
        registrations = [self._poller.register(listener) for listener in listeners]
        _await_all(registrations)
        with self._scraping(registry, mode) as timers:
            if mode.loss_at is not None:
                self._source.prepare()
                timers.append(Timer(mode.loss_at, self._poller.poll_once))
            gc.collect()  # what the preparation left is not the run's
            for timer in timers:
                timer.start()
            yield
            for timer in timers:
                timer.join(_LIMIT_S)
        _await_all(registrations)
        for registration in registrations:
            registration.close(wait=_LIMIT_S)

    @contextmanager
    def _scraping(self, registry: CollectorRegistry, mode: Mode) -> Iterator[list[Timer]]:
        """Serve the metrics, if there are any; yield what will scrape them."""
        with ExitStack() as opened:
            if not mode.listeners:
                yield []
                return
            scraper = opened.enter_context(closing(Scraper(registry)))
            if mode.scraped_before:
                scraper.scrape()
            yield [Timer(moment, scraper.scrape) for moment in mode.scraped_at]
            if scraper.scraped != mode.scraped_before + len(mode.scraped_at):
                raise BenchError("metrics could not be scraped; see above why")

    def _make_listeners(self, registry: CollectorRegistry) -> list[PartitionChangeListener]:
        [port] = free_ports(1)
        return [
            SinkListener(WebhookSink(f"http://{HOST}:{port}/")),
            PrometheusListener(self._poller, registry=registry),
        ]

    def close(self) -> None:
        self._poller.close(_LIMIT_S)


def _await_all(registrations: Sequence[Registration]) -> None:
    for registration in registrations:
        registration.wait_synced(_LIMIT_S)
