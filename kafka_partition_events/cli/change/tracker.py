"""``kpe tracker``: the one that carries out `kpe change`, and follows who has followed."""

import contextlib
import faulthandler
import threading
from http import HTTPStatus
from typing import Annotated, Any, Final

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, needing, one_line
from kafka_partition_events.cli.common.logs import SHOWN_AS_NOTES
from kafka_partition_events.cli.common.options import parse_address, parse_duration, with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ControlOptions, ControlTopics, log_as_service
from kafka_partition_events.cli.common.stopping import wait_until_stopped
from kafka_partition_events.cli.services.protocols import FIRST_ANSWER_S
from kafka_partition_events.cli.services.services import check_options
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.topics import (
    PREFIX,
    Unfit,
    control_topics,
    differences,
    tracker_name,
)
from kafka_partition_events.errors import ConfigurationError, MetadataFetchError

LEAVING_S: Final = 45.0
"""How many seconds it may take to end, once it is told to."""

_STUCK_S: Final = 300.0
"""A round waits for brokers, with limits of its own; after so long it is stuck."""


tracker_app = typer.Typer(rich_markup_mode=None)


@tracker_app.callback(invoke_without_command=True)
@with_options
def tracker_group(
    context: typer.Context,
    *,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two polls of the cluster's topics.")
    ] = "10s",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of metrics and health checks.")
    ] = "127.0.0.1:9405",
    may_grow: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="Topics for which it creates partitions. Default: all."),
    ] = None,
    max_partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many a topic may have in all.")
    ] = None,
    max_factor: Annotated[
        float | None,
        typer.Option(metavar="X", min=1.0, help="To how many times its size one may grow at once."),
    ] = None,
    approval: Annotated[
        str | None, typer.Option(metavar="REGEX", help="Topics of which each change needs a second person.")
    ] = None,
    where: ControlOptions,
) -> None:
    """Run the change controller (one per cluster), until stopped.

    It carries out what `kpe change` requests. Reads commands, leases and acknowledgements from the control
    topics, polls the cluster and its consumer groups, and writes the state of each change, with who has
    followed, to kpe.changes. It creates partitions where a change says so. Growth without a request is
    followed, too.

    What it allows is its policy: --may-grow, --max-partitions, --max-factor, --approval,
    or [policy] of --config, which all trackers of a cluster should share; [kafka] there says where brokers
    are, and [control] where the control topics are, if elsewhere. Kafka's own topics and the control topics
    are never changed.

    One for each cluster. Run a second one elsewhere: it stands by, and is elected after 10 seconds in which
    nothing was heard of the first, at once if that one is stopped; then it reads what the fleet has said (8
    seconds for an hour of 10,000 instances). It keeps nothing on disk. Without a tracker producers go on, and
    held gates open at their deadlines.

    On the cluster it needs the rights to describe topics and groups, and to alter topics if it is to create
    partitions. On the control topics: to read and write them, to describe their configuration; for its group
    and its transactional id, both "kpe-tracker" (or the prefix and "-tracker"): read, and write.

    \b
    kpe topics init -b localhost:9092                                once, before
    kpe tracker -b localhost:9092
    kpe tracker status -b localhost:9092                             who tracks, who stands by
    kpe tracker --config /etc/kpe/kpe.toml                           brokers, control topics and policy
    kpe tracker -b data:9092 --control-bootstrap audit:9092          control topics on another cluster
    kpe tracker -b localhost:9092 --may-grow 'shop[.].*' --max-partitions 200 --approval 'shop[.]payments'
    kpe tracker -b localhost:9092 --prefix staging. --listen 127.0.0.1:9406
    curl -s localhost:9405/readyz                                    ok, or ok, standing by
    curl -s localhost:9405/metrics | grep kpe_change

    Exit codes: 0 it was stopped (SIGTERM, Ctrl-C); 2 the control topics are missing or not as they
    should be, wrong address, refused login, unknown option, the address is taken.
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    typed = {"may_grow": may_grow, "max_partitions": max_partitions, "max_factor": max_factor}
    overrides = {
        f"policy.{name}": str(value)
        for name, value in {**typed, "approval": approval}.items()
        if value is not None
    }
    found = where.find(overrides)
    log_as_service(found.loaded, verbose=where.verbose)
    seconds, address = parse_duration(interval), parse_address(listen, "--listen")
    try:
        with needing("confluent,cli,metrics"):
            for each in (found.config, found.control):
                check_options(each)
            _check_topics(found)
            service = _Service(found, seconds, address)
    except ConfigurationError as error:
        raise CliError(one_line(error)) from None
    faulthandler.enable(2)  # librdkafka aborts the process where it finds itself wrong
    with contextlib.closing(service), contextlib.suppress(KeyboardInterrupt):
        service.start()
        host, port = service.address
        servers, others = found.config["bootstrap.servers"], found.control["bootstrap.servers"]
        tell(f"tracking {servers}, control topics {found.prefix}* at {others}")
        tell(
            f"{service.scheme}://{f'[{host}]' if ':' in host else host}:{port} has /metrics, /livez, /readyz"
        )
        wait_until_stopped()
    tell("stopped")


@tracker_app.command("status", short_help="Show which tracker leads, and which stand by.")
@with_options
def status_command(
    where: ControlOptions,
    listing: Listing,
) -> None:
    """Show the trackers: host, and whether each is elected or stands by.

    As the brokers know it: one that has died is known until its session is over, ten seconds later. Needs the
    right to describe the tracker's group.

    \b
    kpe tracker status -b localhost:9092
    kpe tracker status -b localhost:9092 | jq -r 'select(.elected) | .host'

    Exit codes: 0 one is elected; 1 none is, so nothing of `kpe change` is carried out; 2 wrong address,
    refused, unknown option.
    """  # noqa: D301
    found = where.find(told_elsewhere=SHOWN_AS_NOTES)
    check_options(found.control)
    try:
        from kafka_partition_events.control.groups.admin import GroupAdmin  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise CliError(one_line(error)) from error
    group, elects = tracker_name(found.prefix), f"{found.prefix}commands"
    try:
        with contextlib.closing(GroupAdmin(found.control)) as admin:
            described = admin.describe([group], FIRST_ANSWER_S)
            if group not in described:
                raise CliError(f"can't look at group {group}: {admin.left_out[f'group {group}']}")
            members = described[group].members
    except MetadataFetchError as error:
        raise CliError(redacted(one_line(error), found.control)) from None
    rows = [
        {
            "kind": "tracker",
            "group": group,
            "host": member.host,
            "member": member.member_id,
            "elected": any(tp.topic == elects for tp in member.assigned),
        }
        for member in members
    ]
    rows.sort(key=lambda row: (not row["elected"], row["host"], row["member"]))
    listing.write(rows, lambda row: row, ("HOST", "STATE", "MEMBER"), _tracker_cells)
    if not any(row["elected"] for row in rows):
        why = "none is elected yet" if rows else "no tracker is there"
        tell(f"note: {why}; nothing is carried out meanwhile")
        raise typer.Exit(EXIT_DIFFERENT)


def _tracker_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return row["host"], "elected" if row["elected"] else "stands by", row["member"]


class _Service:
    """A tracker on a thread of its own, and what it tells by HTTP."""

    def __init__(self, found: ControlTopics, interval: float, address: tuple[str, int]) -> None:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        from kafka_partition_events.control.groups.prober import GroupProber  # noqa: PLC0415
        from kafka_partition_events.control.tracker.tracker import Tracker  # noqa: PLC0415
        from kafka_partition_events.observe.http import HttpServer, Request, Response  # noqa: PLC0415
        from kafka_partition_events.observe.login import guard, warn_if_open  # noqa: PLC0415
        from kafka_partition_events_listeners.prometheus.changes import ChangeCollector  # noqa: PLC0415

        self._tracker = tracker = Tracker(
            found.config,
            found.control,
            prefix=found.prefix,
            interval=interval,
            open_prober=lambda: GroupProber(found.config),
            policy=Policy(**asdict(found.settings.policy)),
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=tracker.run, args=(self._stop,), name="kpe-tracker")
        registry = CollectorRegistry()
        registry.register(ChangeCollector(lambda: tracker.standing, kafka_cluster=self._cluster_id))

        def metrics(request: Request) -> Response:
            encode, content_type = choose_encoder(request.accept)
            return Response(content_type=content_type, body=encode(registry))

        def probe(trouble: str | None, well: str = "ok") -> Response:
            if trouble is None:
                return Response(body=f"{well}\n".encode())
            return Response(status=HTTPStatus.SERVICE_UNAVAILABLE, body=f"{trouble}\n".encode())

        def livez(_request: Request) -> Response:
            stuck = tracker.idle_s > _STUCK_S
            return probe(f"it has done nothing for {tracker.idle_s:.0f} s" if stuck else None)

        def readyz(_request: Request) -> Response:
            standing = tracker.standing
            return probe(standing.trouble, "ok" if standing.elected else "ok, standing by")

        routes: dict[str, Any] = {"/metrics": metrics, "/livez": livez, "/readyz": readyz}
        http = found.settings.http
        certificates, login = guard(http)
        self.scheme = "http" if certificates is None else "https"
        self._http = HttpServer(address, routes, hosts=http.hosts, certificates=certificates, login=login)
        warn_if_open(self._http.address[0], certificates, login)

    @property
    def address(self) -> tuple[str, int]:
        return self._http.address

    def start(self) -> None:
        self._http.start()
        self._thread.start()

    def close(self) -> None:
        """Let it finish its round and leave the group."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(LEAVING_S)
        self._tracker.close()
        self._http.close()

    def _cluster_id(self) -> str:
        cluster = self._tracker.poller.cluster
        return (cluster and cluster.cluster_id) or "unknown"


def _check_topics(found: ControlTopics) -> None:
    from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin  # noqa: PLC0415 - an extra

    wanted = control_topics(found.prefix)
    with contextlib.closing(ControlTopicAdmin(found.control)) as admin:
        differing = differences(wanted, admin.look(wanted))
    if unfit := [str(difference) for difference in differing if isinstance(difference, Unfit)]:
        raise CliError("; ".join(unfit))
    if differing:
        raise CliError(
            f"the control topics are not as they should be ({differing[0]}); run: kpe topics init "
            f"-b {found.control['bootstrap.servers']}"
            + ("" if found.prefix == PREFIX else f" --prefix {found.prefix}")
        )
