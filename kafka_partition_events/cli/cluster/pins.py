"""``kpe mapping``: what keys are pinned to, and when they go over to more partitions."""

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.logs import SHOWN_AS_EVENTS, configure_logs
from kafka_partition_events.cli.common.options import parse_duration, with_options
from kafka_partition_events.cli.common.output import Listing, confirm, tell
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import Services, check_options, first_look
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import (
    INTERVAL_S,
    History,
    Pin,
    PinStore,
    check_delay,
    next_change,
    pin_at,
    with_cut_over,
)

_KAFKA = "kafka:"

mapping_app = typer.Typer(rich_markup_mode=None)

Store = Annotated[
    str,
    typer.Option(
        metavar="PATH|kafka:TOPIC", help="Where the pins are: a file, or a compacted topic (then give -b)."
    ),
]


@mapping_app.callback(
    epilog="Exit codes: 0 all is well; 2 error, in one line on stderr. "
    "`kpe mapping COMMAND --help` has examples."
)
def mapping() -> None:
    """See and change what keys are pinned to.

    A GrowthSafePartitioner with mapping="pinned" keeps keys where they are when a topic grows: they go to
    their hash modulo the number of partitions that the topic is pinned to, in a store that all instances
    read. A cut-over pins them to more partitions, for all instances at the same moment.

    \b
    kpe mapping show --store pins.json
    kpe mapping cut-over --store pins.json --topic orders --count 12 --dry-run
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@mapping_app.command("show", short_help="Show what keys are pinned to.")
@with_options
def show_command(
    context: typer.Context,
    store: Store,
    where: ClusterOptions,
    listing: Listing,
) -> None:
    """Show the pin of every topic: its generation, its number of partitions, and what is pending.

    Generation 1 is how many partitions a topic had when its first keyed record was placed; each cut-over
    adds one. Times are UTC.

    \b
    kpe mapping show --store /var/lib/checkout/pins.json
    kpe mapping show --store kafka:kpe.mappings -b localhost:9092
    kpe mapping show --store pins.json | jq -r 'select(.pending != null) | .topic'

    Exit codes: 0 shown; 2 the store, or a topic in it, can't be read, wrong address, refused login,
    unknown option.
    """  # noqa: D301
    services: Services = context.obj
    with _opened(store, _config(store, where)) as opened:
        histories, unreadable = opened.read(), opened.unreadable
    if not histories and not unreadable:
        tell(f"note: nothing is pinned in {store}")
    now = services.clock.now().timestamp()
    _show(histories, now, listing)
    if unreadable:
        raise CliError("; ".join(unreadable.values()))


@mapping_app.command("cut-over", short_help="Let a topic's keys go over to more partitions.")
@with_options
def cut_over_command(
    context: typer.Context,
    store: Store,
    topic: Annotated[str, typer.Option(metavar="NAME", help="Whose keys.")],
    count: Annotated[int, typer.Option(metavar="N", help="How many partitions keys are spread over then.")],
    *,
    delay: Annotated[str, typer.Option("--in", metavar="DURATION", help="How far ahead it lies.")] = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be; write nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether it is meant.")] = False,
    where: ClusterOptions,
    listing: Listing,
) -> None:
    """Pin a topic's keys to more partitions, for all instances at the same moment.

    Until then nothing changes. By then every instance must have read the store (each second, by default) and
    seen that the topic has grown (each 30 s); one that has not seen it follows when it has. At that moment
    most keys move: 12 to 13 moves 92%, 6 to 12 moves half. The order of a key's records is not kept over it.
    It can't be undone, so it asks first.

    With -b, the cluster is asked whether the topic has so many partitions. Without, a number that is too
    large waits until the topic has grown to it, and no smaller one can be chosen any more.

    \b
    1. Let the topic grow:    kafka-topics.sh --alter --topic orders --partitions 12 ...
    2. See what would be:     ... --topic orders --count 12 --dry-run
    3. Cut over:              ... --topic orders --count 12 --in 2m
    4. See it pending:        kpe mapping show --store pins.json

    \b
    kpe mapping cut-over --store pins.json -b localhost:9092 --topic orders --count 12
    kpe mapping cut-over --store kafka:kpe.mappings -b localhost:9092 --topic orders --count 12 --yes

    Exit codes: 0 it is in the store; 1 you said no; 2 a cut-over is pending, or the topic is not pinned or
    pinned to as many partitions already, or does not have so many; the store can't be read or written; no
    terminal to ask on and no --yes; unknown option.
    """  # noqa: D301
    services: Services = context.obj
    config = _config(store, where)
    with _opened(store, config) as opened:
        if config:
            _check_partitions(topic, count, config, services)
        else:
            tell(f"note: without -b it is not checked that {topic} has {count} partitions")
        before, after = _planned(opened, store, topic, count, parse_duration(delay), services)
        confirm(f"move the keys of {topic} to {count} partitions in {delay}, for good", yes=yes or dry_run)
        if not dry_run and not opened.replace(topic, before, after):
            raise CliError(f"the pin of {topic} was changed meanwhile; see `kpe mapping show`")
    if dry_run:
        tell("note: nothing was written; it would be")
    _show({topic: after}, services.clock.now().timestamp(), listing)


def _planned(
    opened: PinStore, store: str, topic: str, count: int, delay: float, services: Services
) -> tuple[History, History]:
    """Return what is in the store, and what would be."""
    before = opened.read().get(topic)
    if (cause := opened.unreadable.get(topic)) is not None:
        raise CliError(cause)
    if before is None:
        raise CliError(f"topic {topic} is not pinned in {store}; its first keyed record pins it")
    check_delay(delay, INTERVAL_S)
    now = services.clock.now().timestamp()
    return before, with_cut_over(before, count, at=now + delay, now=now)


def _check_partitions(topic: str, count: int, config: Mapping[str, str], services: Services) -> None:
    poller, _ = first_look(services, config)
    with contextlib.closing(poller):
        found = None if poller.cluster is None else poller.cluster.by_topic.get(topic)
    if found is None:
        raise CliError(f"there is no topic {topic}")
    if count > len(found.partitions):
        raise CliError(f"topic {topic} has {len(found.partitions)} partitions, not {count}; grow it first")


# -- the store ---------------------------------------------------------------------------------------------


def _config(store: str, where: ClusterOptions) -> dict[str, str]:
    """Return how the cluster is reached; nothing if none is named and the store is a file."""
    if store.startswith(_KAFKA) or where.bootstrap or where.file or where.profile:
        return where.config(told_elsewhere=SHOWN_AS_EVENTS)
    configure_logs(verbose=where.verbose, told_elsewhere=SHOWN_AS_EVENTS)
    return {}


@contextlib.contextmanager
def _opened(store: str, config: Mapping[str, str]) -> Iterator[PinStore]:
    """Open a store, and tell its troubles without the values of options."""
    try:
        with contextlib.closing(_open(store, config)) as opened:
            yield opened
    except (ConfigurationError, PinStoreError) as error:
        raise CliError(redacted(one_line(error), config)) from error


def _open(store: str, config: Mapping[str, str]) -> PinStore:
    if not store:
        raise CliError("no store is given; write --store PATH or --store kafka:TOPIC")
    if not store.startswith(_KAFKA):
        return FilePinStore(store)
    topic = store.removeprefix(_KAFKA)
    if not topic:
        raise CliError("a store in Kafka needs its topic: --store kafka:TOPIC")
    try:
        from kafka_partition_events.clients.confluent import KafkaPinStore  # noqa: PLC0415
    except ImportError as error:
        raise CliError(one_line(error)) from error
    check_options(config)
    return KafkaPinStore(config, topic)


# -- output ------------------------------------------------------------------------------------------------


def _show(histories: Mapping[str, History], now: float, listing: Listing) -> None:
    def document(topic: str) -> dict[str, Any]:
        pin, pending = _pins(histories[topic], now)
        return {"topic": topic, **_document(pin), "pending": None if pending is None else _document(pending)}

    def cells(topic: str) -> tuple[str, ...]:
        pin, pending = _pins(histories[topic], now)
        then = "-" if pending is None else f"{_told(pending)}, in {pending.effective_at - now:.0f} s"
        return topic, _told(pin), then

    listing.write(sorted(histories), document, ("TOPIC", "PINNED TO", "PENDING"), cells)


def _pins(history: History, now: float) -> tuple[Pin, Pin | None]:
    """Return what holds now, and what is to come."""
    return pin_at(history, now), None if next_change(history, now) is None else history[-1]


def _told(pin: Pin) -> str:
    return f"{pin.count} partitions from {_moment(pin):%Y-%m-%d %H:%M:%SZ}, generation {pin.generation}"


def _document(pin: Pin) -> dict[str, Any]:
    return asdict(pin) | {"effective_at": encode_time(_moment(pin))}


def _moment(pin: Pin) -> datetime:
    return datetime.fromtimestamp(pin.effective_at, UTC)
