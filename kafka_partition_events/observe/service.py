"""The service: the observers of one cluster or of several, with one HTTP server for metrics and health."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, Self

from attrs import frozen
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.cluster_observer import ClusterObserver, OpenSource
from kafka_partition_events.observe.http import HttpServer, Request, Response
from kafka_partition_events.observe.login import guard, warn_if_open
from kafka_partition_events.observe.settings import Settings
from kafka_partition_events.observe.sources import open_source


class Service:
    """Observes what the configuration names. Use as a context manager, or call `start` and `close`."""

    def __init__(
        self, settings: Settings, open_source: OpenSource = open_source, *, clock: Clock | None = None
    ) -> None:
        """Open everything; nothing is asked of a cluster before `start`.

        Args:
            settings: The configuration; it must say where the brokers are.
            open_source: Makes the metadata source of a cluster.
            clock: For tests.

        Raises:
            ConfigurationError: a setting is of no use, the address is taken, or an outbox is.
            OutboxError: an outbox can't be opened.
            ImportError: an extra is not installed.
        """
        with contextlib.ExitStack() as parts:  # closed from the last to the first
            certificates, login = guard(settings.http)
            self._scheme = "http" if certificates is None else "https"
            self._http = HttpServer(
                settings.http.listen,
                {"/metrics": self._metrics, "/livez": self._livez, "/readyz": self._readyz},
                hosts=settings.http.hosts,
                certificates=certificates,
                login=login,
            )
            parts.callback(self._http.close)
            warn_if_open(self._http.address[0], certificates, login)
            self._observers: dict[str, ClusterObserver] = {}
            for name, own in settings.by_cluster().items():
                observer = ClusterObserver(own, open_source, clock=clock)
                parts.callback(observer.close)
                self._observers[name] = observer
            self._registry = _Registries([each.registry for each in self._observers.values()])
            self._parts = parts.pop_all()

    def start(self) -> None:
        """Begin to look, to journal and to serve; and to deliver, unless there is an election."""
        self._http.start()
        for observer in self._observers.values():
            observer.start()

    def close(self) -> None:
        """Stop looking, write what is left, deliver what can be within seconds, stop. Idempotent."""
        self._parts.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def note(self, action: str, **facts: Any) -> None:
        """Write into the audit trail of each cluster what has happened. Never raises."""
        for observer in self._observers.values():
            observer.trail.note(action, **facts)

    # -- what it says of itself ----------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """Where it serves HTTP."""
        return self._http.address

    def describe(self) -> Iterator[str]:
        """Yield lines that say what it does, and where. No secrets."""
        for name, observer in self._observers.items():
            yield from (_of(name, line) for line in observer.describe())
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        yield f"{self._scheme}://{shown}:{port} has /metrics, /livez, /readyz"

    # -- HTTP ----------------------------------------------------------------------------------------

    def _metrics(self, request: Request) -> Response:
        encode, content_type = choose_encoder(request.accept)
        names = request.query.get("name[]")
        registry = self._registry.restricted_registry(names) if names else self._registry
        return Response(content_type=content_type, body=encode(registry))

    def _livez(self, _request: Request) -> Response:
        return _probe({name: (each.why_not_live(), "ok") for name, each in self._observers.items()})

    def _readyz(self, _request: Request) -> Response:
        return _probe({name: (each.why_not_ready(), each.part) for name, each in self._observers.items()})


def _probe(found: dict[str, tuple[str | None, str]]) -> Response:
    lines = [_of(name, trouble or well) for name, (trouble, well) in found.items()]
    ill = any(trouble is not None for trouble, _ in found.values())
    status = HTTPStatus.SERVICE_UNAVAILABLE if ill else HTTPStatus.OK
    return Response(status=status, body="".join(f"{line}\n" for line in lines).encode())


def _of(name: str, line: str) -> str:
    """Return a line about one of several clusters; the only one of a process has no name."""
    return f"{name}: {line}" if name else line


@frozen
class _Registries:
    """Several registries as one: of metrics of one name, whose labels tell the clusters apart."""

    registries: Sequence[Any]

    def restricted_registry(self, names: Iterable[str]) -> "_Registries":
        names = list(names)
        return _Registries([registry.restricted_registry(names) for registry in self.registries])

    def collect(self) -> Iterable[Metric]:
        if len(self.registries) == 1:
            return self.registries[0].collect()  # type: ignore[no-any-return]
        merged: dict[str, Metric] = {}
        told: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        for family in (family for registry in self.registries for family in registry.collect()):
            into = merged.setdefault(family.name, _empty(family))
            for sample in family.samples:
                # Two clusters that nobody has seen yet have one name, and a page has each sample once.
                key = sample.name, tuple(sorted(sample.labels.items()))
                if key not in told:
                    told.add(key)
                    into.samples.append(sample)
        return merged.values()


def _empty(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type, family.unit)
