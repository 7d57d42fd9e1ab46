"""``kpe observe``: the service."""

import contextlib
import gc
import sys

import typer

from kafka_partition_events.cli.common.errors import CliError, needing, one_line
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import report
from kafka_partition_events.cli.common.settings import ClusterOptions, connecting_by, log_as_service
from kafka_partition_events.cli.common.stopping import wait_until_stopped
from kafka_partition_events.cli.services.services import Services, check_options
from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import AUDIT, get_logger
from kafka_partition_events.observe.settings import ALL

_audit = get_logger(AUDIT)

_COLLECTING = 20_000, 20, 1_000
"""Snapshots are no garbage: hundreds of thousands of objects without a cycle. By default Python goes through
all of them at each poll of the cluster; with 200,000 partitions that stops every thread for a second."""

_TURN_S = 0.001
"""For how long a busy thread may keep the interpreter. A probe takes many turns, but waits for nothing else:
at Python's 5 ms an answer takes a tenth of a second while poller and journal are at work."""


@with_options
def observe_command(context: typer.Context, *, where: ClusterOptions) -> None:
    """Observe a cluster until stopped, and notify operators.

    \b
    kpe observe -b localhost:9092                                    a journal and metrics; no sinks
    kpe observe --config /etc/kpe/kpe.toml
    KPE_KAFKA__CLIENT=confluent-kafka kpe observe --config kpe.toml  poll by the other client
    KPE_OBSERVER__INTERVAL=5s KPE_HTTP__LISTEN=127.0.0.1:9405 kpe observe --config kpe.toml
    KPE_CONTROL__ENABLED=true kpe observe --config kpe.toml          planned or not, by topic kpe.changes
    kpe config show --config kpe.toml                                what is set, and where
    kpe doctor --config kpe.toml                                     can it work here?
    curl -s localhost:9404/readyz

    Every change of topics, partitions and brokers goes to a journal in a file, the outbox. Kafka topics and
    webhooks get these events in order, at least once, also after a crash or an outage of theirs. What is
    wrong for longer than a hold-down is posted to Alertmanager, which groups, silences, pages and mails.
    /metrics is for Prometheus, /livez and /readyz are for systemd or Kubernetes.

    The configuration is a TOML file; `kpe assets export` has an example. -b and -X win over the environment
    (KPE_OBSERVER__INTERVAL=5s), that over the file. SIGTERM or Ctrl-C ends it in good order.

    By default kafka-python polls the cluster: only it reports leader epochs, by which several observers give
    one outage one id. Kafka sinks are confluent-kafka's.

    Exit codes: 0 it was stopped; 2 the configuration is wrong, the outbox can't be opened, the address
    is taken. A cluster that does not answer is waited for: see /readyz.
    """  # noqa: D301
    gc.set_threshold(*_COLLECTING)
    loaded = where.load(sections=ALL)
    settings = loaded.settings
    log_as_service(loaded, verbose=where.verbose)
    services: Services = context.obj
    try:
        with needing("observe"):
            from kafka_partition_events.observe.service import Service

            with contextlib.suppress(ImportError):  # without it, options that only it knows are not used
                check_options(connecting_by(settings))
            service = Service(settings, clock=services.clock)
    except ConfigurationError as error:
        raise CliError(one_line(error)) from None
    _audit.info("configuration.loaded", **{setting.key: setting.value for setting in loaded.values})
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(service):
        service.start()  # here, so that an interruption meanwhile ends in good order, too
        sys.setswitchinterval(_TURN_S)
        for line in service.describe():
            report(line)
        wait_until_stopped()
    report("stopped")
