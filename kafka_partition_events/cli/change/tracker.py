"""``kpe tracker``: the one that carries out `kpe change`, and follows who has followed."""

import contextlib
import faulthandler
import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final

import typer
from attrs import asdict

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.logs import configure_logs
from kafka_partition_events.cli.common.options import (
    ClientOptions,
    ConfigFile,
    OptionalBootstrap,
    Verbose,
    parse_duration,
    parse_pairs,
)
from kafka_partition_events.cli.common.output import tell
from kafka_partition_events.cli.common.settings import read_connection
from kafka_partition_events.cli.services.services import check_options
from kafka_partition_events.control.changes.policy import Policy
from kafka_partition_events.control.protocol.topics import PREFIX, Unfit, control_topics, differences
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.observe import kinds
from kafka_partition_events.observe.settings import Control

LEAVING_S: Final = 45.0
"""How many seconds it may take to end, once it is told to."""

_STUCK_S: Final = 300.0
"""A round waits for brokers, with limits of its own; after so long it is stuck."""


def tracker_command(
    bootstrap: OptionalBootstrap = None,
    file: ConfigFile = None,
    client_options: ClientOptions = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT[,...]", help="Brokers of the control topics, if they are elsewhere."),
    ] = None,
    control_options: Annotated[
        list[str] | None,
        typer.Option(
            "--control-option", metavar="KEY=VALUE", help="As -X, for --control; wins over -X there."
        ),
    ] = None,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What the control topics begin with.")] = PREFIX,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two looks at the cluster's topics.")
    ] = "10s",
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where metrics and health are to be had.")
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
    verbose: Verbose = False,
) -> None:
    """Carry out what `kpe change` asks for, and tell who has followed, until it is told to stop.

    Reads commands, leases and acknowledgements from the control topics, looks at the cluster and its consumer
    groups, and writes the state of each change to kpe.changes. It creates partitions where a change says so.
    Growth that nobody has announced is followed, too.

    What it lets be done, whoever asks, is its policy: --may-grow, --max-partitions, --max-factor, --approval,
    or [policy] of --config, which all trackers of a cluster should share; [kafka] there says where brokers
    are, and [control] where the control topics are, if elsewhere. Kafka's own topics and the control topics
    are never changed.

    One for each cluster. Run a second one elsewhere: it stands by, and takes over within 10 seconds when
    nothing is heard of the first, at once if that one is stopped. It keeps nothing on disk. Without a tracker
    producers go on, and held gates open at their deadlines.

    On the cluster it needs the rights to describe topics and groups, and to alter topics if it is to create
    partitions. On the control topics: to read and write them, to describe their configuration; for its group
    and its transactional id, both "kpe-tracker" (or the prefix and "-tracker"): read, and write.

    \b
    kpe topics init -b localhost:9092                                once, before
    kpe tracker -b localhost:9092
    kpe tracker --config /etc/kpe/kpe.toml                           brokers, control topics and policy
    kpe tracker -b data:9092 --control audit:9092                    control topics on another cluster
    kpe tracker -b localhost:9092 --may-grow 'shop[.].*' --max-partitions 200 --approval 'shop[.]payments'
    kpe tracker -b localhost:9092 --prefix staging. --listen 127.0.0.1:9406
    curl -s localhost:9405/readyz                                    ok, or ok, standing by
    curl -s localhost:9405/metrics | grep kpe_change

    Exit codes: 0 it was told to stop (SIGTERM, Ctrl-C); 2 the control topics are missing or not as they
    should be, wrong address, refused login, unknown option, the address is taken.
    """  # noqa: D301
    configure_logs(verbose=verbose)
    typed = {"may_grow": may_grow, "max_partitions": max_partitions, "max_factor": max_factor}
    overrides = {
        f"policy.{name}": str(value)
        for name, value in {**typed, "approval": approval}.items()
        if value is not None
    }
    settings, config = read_connection(file, bootstrap, client_options, overrides)
    where = _control_cluster(config, settings.control, control, control_options or ())
    seconds, address = parse_duration(interval), _parse_address(listen)
    try:
        for each in (config, where):
            check_options(each)
        policy = Policy(**asdict(settings.policy))
        _check_topics(where, prefix)
        service = _Service(config, where, prefix, seconds, address, policy)
    except ModuleNotFoundError as error:
        raise CliError(
            f"the tracker needs {error.name}; "
            'run: pip install "kafka-partition-events[confluent,cli,metrics]"'
        ) from error
    except ConfigurationError as error:
        raise CliError(one_line(error)) from None
    faulthandler.enable(2)  # librdkafka aborts the process where it finds itself wrong
    with contextlib.closing(service), contextlib.suppress(KeyboardInterrupt):
        service.start()
        host, port = service.address
        servers, others = config["bootstrap.servers"], where["bootstrap.servers"]
        tell(f"tracking {servers}, control topics {prefix}* at {others}")
        tell(f"http://{f'[{host}]' if ':' in host else host}:{port} has /metrics, /livez, /readyz")
        threading.Event().wait()
    tell("stopped")


def _control_cluster(
    config: dict[str, str], section: Control, bootstrap: str | None, options: Sequence[str]
) -> dict[str, str]:
    """Return how the cluster with the control topics is reached: by options, the file, or as the other."""
    if bootstrap is not None:
        return {**config, **parse_pairs(options), "bootstrap.servers": bootstrap}
    if options:
        raise CliError("--control-option is for the cluster of --control; write -X")
    if section.bootstrap_servers is None:
        return config
    return {**section.properties, "bootstrap.servers": section.bootstrap_servers}


class _Service:
    """A tracker on a thread of its own, and what it tells by HTTP."""

    def __init__(
        self,
        config: dict[str, str],
        control: dict[str, str],
        prefix: str,
        interval: float,
        address: tuple[str, int],
        policy: Policy,
    ) -> None:
        from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

        from kafka_partition_events.control.groups.prober import GroupProber  # noqa: PLC0415
        from kafka_partition_events.control.tracker.tracker import Tracker  # noqa: PLC0415
        from kafka_partition_events.observe.http import HttpServer, Request, Response  # noqa: PLC0415
        from kafka_partition_events_listeners.prometheus_changes import ChangeCollector  # noqa: PLC0415

        self._tracker = tracker = Tracker(
            config,
            control,
            prefix=prefix,
            interval=interval,
            open_prober=lambda: GroupProber(config),
            policy=policy,
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
        self._http = HttpServer(address, routes)

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


def _check_topics(config: dict[str, str], prefix: str) -> None:
    from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin  # noqa: PLC0415 - an extra

    wanted = control_topics(prefix)
    with contextlib.closing(ControlTopicAdmin(config)) as admin:
        differing = differences(wanted, admin.look(wanted))
    if unfit := [str(difference) for difference in differing if isinstance(difference, Unfit)]:
        raise CliError("; ".join(unfit))
    if differing:
        raise CliError(
            f"the control topics are not as they should be ({differing[0]}); run: kpe topics init "
            f"-b {config['bootstrap.servers']}" + ("" if prefix == PREFIX else f" --prefix {prefix}")
        )


def _parse_address(text: str) -> tuple[str, int]:
    try:
        host, port = kinds.ADDRESS.read(text)
    except ValueError:
        raise CliError(f"--listen: {text!r} is not {kinds.ADDRESS.expected}") from None
    return str(host), int(port)
