"""``kpe tracker``: the one that carries out `kpe change`, and follows who has followed."""

import contextlib
import faulthandler
import threading
from typing import Annotated, Final

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import CliError, needing, one_line
from kafka_partition_events.cli.common.options import behind_subcommand, parse_address, with_options
from kafka_partition_events.cli.common.output import OutputChoice, report, write_list
from kafka_partition_events.cli.common.settings import (
    OF_CONTROL,
    ControlOptions,
    ControlTopics,
    log_as_service,
)
from kafka_partition_events.cli.common.stopping import wait_until_stopped
from kafka_partition_events.cli.services.services import check, refusals_in_one_line
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.topics import PREFIX, ControlTopic, control_topics, missing
from kafka_partition_events.errors import ConfigurationError, ControlTopicError

LEAVING_S: Final = 45.0
"""How many seconds it may take to end, once it is asked to."""

_STUCK_S: Final = 300.0
"""A round waits for brokers, with limits of its own; after so long it is stuck."""


tracker_app = typer.Typer(rich_markup_mode=None)


@tracker_app.callback(invoke_without_command=True)
@with_options
def tracker_group(
    context: typer.Context,
    *,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of metrics and health checks.")
    ] = "127.0.0.1:9405",
    where: ControlOptions,
) -> None:
    """Run the change controller (one per cluster), until stopped.

    \b
    kpe tracker init -b localhost:9092                                once, before
    kpe tracker -b localhost:9092
    kpe tracker --config /etc/kpe/kpe.toml                           brokers, control topics and policy
    kpe tracker -b localhost:9092 --prefix staging. --listen 127.0.0.1:9406
    curl -s localhost:9405/readyz                                    ok, or ok, standing by
    curl -s localhost:9405/metrics | grep kpe_change

    It carries out what `kpe change` requests, by what is in the control topics and what brokers say of
    topics and groups, and writes how far each change is to kpe.changes. It creates partitions where a
    change says so and [policy] of --config allows it (may_grow, max_partitions; the same for all trackers).

    Run a second one elsewhere: it stands by, and is elected at once if the first is stopped, after 10
    seconds if it is killed. It keeps nothing on disk. Without a tracker held gates open at their deadlines.

    Exit codes: 0 it was stopped (SIGTERM, Ctrl-C); 2 the control topics are missing or not as they
    should be, wrong address, refused login, unknown option, the address is taken.
    """  # noqa: D301
    if behind_subcommand(context):
        return
    found = where.find(sections=OF_CONTROL | {"policy", "http"})
    log_as_service(found.loaded, verbose=where.verbose)
    address = parse_address(listen, "--listen")
    try:
        with needing("confluent,cli,metrics"):
            check(found.config)
            _check_topics(found)
            service = _Service(found, address)
    except (ConfigurationError, ControlTopicError) as error:
        raise CliError(one_line(error)) from None
    faulthandler.enable(2)  # librdkafka aborts the process where it finds itself wrong
    with contextlib.closing(service), contextlib.suppress(KeyboardInterrupt):
        service.start()
        report(f"tracking {found.config['bootstrap.servers']}, control topics {found.prefix}*")
        report(f"{service.http.url} has /metrics, /livez, /readyz")
        wait_until_stopped()
    report("stopped")


@tracker_app.command("init", short_help="Create the control topics.")
@with_options
def init_command(*, where: ControlOptions, output: OutputChoice = None) -> None:
    """Create those of kpe.commands, kpe.changes and kpe.leases that are missing.

    \b
    kpe tracker init -b localhost:9092
    kpe tracker init -b localhost:9092 --prefix staging.

    Done twice, the second time does nothing. New topics get three replicas, or as many as there are brokers.
    Needs the rights to describe and create these topics.

    Exit codes: 0 they are as they must be; 2 one is not, and what to do; wrong address, refused, unknown
    option.
    """  # noqa: D301
    found = where.find()
    check(found.config)
    with refusals_in_one_line():
        created = _missing(found, create=True)
    write_list(created, output, asdict, (), lambda topic: (str(topic),))
    if not created:
        report("note: all topics are as they must be")


def _missing(found: ControlTopics, *, create: bool = False) -> tuple[ControlTopic, ...]:
    """Return the control topics that are not there; create them, if asked to."""
    from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin  # noqa: PLC0415 - an extra

    wanted = control_topics(found.prefix)
    with contextlib.closing(ControlTopicAdmin(found.config)) as admin:
        lacking = missing(wanted, admin.describe(wanted))
        if create:
            admin.create(lacking)
    return lacking


class _Service:
    """A tracker on a thread of its own, and its metrics and health checks by HTTP."""

    def __init__(self, found: ControlTopics, address: tuple[str, int]) -> None:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

        from kafka_partition_events.control.tracker.tracker import Tracker  # noqa: PLC0415
        from kafka_partition_events.observe.http import HttpServer  # noqa: PLC0415
        from kafka_partition_events_listeners.prometheus.changes import ChangeCollector  # noqa: PLC0415

        self._tracker = tracker = Tracker(
            found.config,
            prefix=found.prefix,
            policy=Policy(
                may_grow=found.loaded.settings.policy.may_grow,
                max_partitions=found.loaded.settings.policy.max_partitions,
            ),
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=tracker.run, args=(self._stop,), name="kpe-tracker")
        registry = CollectorRegistry()
        registry.register(ChangeCollector(lambda: tracker.status))

        def livez() -> tuple[str | None, str]:
            stuck = tracker.idle_s > _STUCK_S
            return (f"it has done nothing for {tracker.idle_s:.0f} s" if stuck else None), "ok"

        def readyz() -> tuple[str | None, str]:
            status = tracker.status
            return status.trouble, "ok" if status.elected else "ok, standing by"

        probes = {"/livez": livez, "/readyz": readyz}
        self.http = HttpServer(address, registry, probes, found.loaded.settings.http)

    def start(self) -> None:
        self.http.start()
        self._thread.start()

    def close(self) -> None:
        """Let it finish its round and leave the group."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(LEAVING_S)
        self.http.close()


def _check_topics(found: ControlTopics) -> None:
    if lacking := _missing(found):
        raise CliError(
            f"there is no topic {lacking[0].name}; run: kpe tracker init "
            f"-b {found.config['bootstrap.servers']}"
            + ("" if found.prefix == PREFIX else f" --prefix {found.prefix}")
        )
