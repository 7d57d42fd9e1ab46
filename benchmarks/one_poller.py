"""A process with one poller and one listener: it polls when it is told to, by a line on standard input.

``python -m benchmarks.one_poller CLIENT HOST:PORT,...``. After each poll it prints a line of JSON: the
seconds until the listener had heard all events, and their number.
"""

import json
import sys
import threading
import time
from contextlib import closing
from datetime import datetime

from kafka_partition_events import Cluster, MetadataPoller, MetadataSource, PartitionChangeListener

_TOLD_LIMIT_S = 60.0
_FETCH_S = 120.0
"""Longer than by default: the machine is shared."""
_CAPACITY = 100_000


class Heard(PartitionChangeListener):
    """Tells when everything has been heard."""

    def __init__(self) -> None:
        self.settled = threading.Event()

    def on_settled(self, cluster: Cluster, polled_at: datetime | None) -> None:
        self.settled.set()


def source_of(client: str, servers: str) -> MetadataSource:
    if client == "kafka-python":
        from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource  # noqa: PLC0415

        return KafkaPythonMetadataSource({"bootstrap_servers": servers})
    from kafka_partition_events.clients.confluent import ConfluentMetadataSource  # noqa: PLC0415 - one is enough

    return ConfluentMetadataSource({"bootstrap.servers": servers})


def main(client: str, servers: str) -> None:
    with closing(MetadataPoller(source_of(client, servers), fetch_timeout=_FETCH_S)) as poller:
        heard = Heard()
        poller.register(heard, capacity=_CAPACITY)
        for _ in sys.stdin:
            heard.settled.clear()
            began = time.monotonic()
            events = poller.poll_once()
            if poller.health.last_error is not None or not heard.settled.wait(_TOLD_LIMIT_S):
                raise SystemExit(f"not told: {poller.health.last_error}")
            print(json.dumps([time.monotonic() - began, len(events)]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
