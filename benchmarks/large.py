"""200,000 partitions in real metadata answers: CPU and memory of sources, pollers and a `kpe observe`.

The answers come over real sockets from librdkafka's mock cluster, which is a process of its own: 100 brokers,
5,000 topics of 40 partitions, replication factor 3. What is measured runs in processes of its own, too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.events.world import BROKERS, PARTITIONS, REPLICAS, TOPICS
from benchmarks.measure import Spread, cpu_seconds_of, save
from benchmarks.metadata import peak_mb
from kafka_partition_events.testing.ports import free_ports

POLLS = 5
OBSERVED_S = 120.0
INTERVAL_S = 10.0
CLIENTS = ("confluent-kafka", "kafka-python")
_LIMIT_S = 120.0
_ME = (sys.executable, "-m", "benchmarks.large")


def serve(topics: int) -> None:
    """Be the cluster until standard input ends."""
    from kafka_partition_events.testing import MockCluster  # noqa: PLC0415 - keep measured processes small

    with MockCluster(BROKERS) as cluster:
        for number in range(topics):
            cluster.create_topic(f"topic-{number:04d}", PARTITIONS, REPLICAS)
        print(cluster.bootstrap_servers.split(",")[0], flush=True)
        sys.stdin.read()


@contextmanager
def serving(topics: int) -> Iterator[str]:
    """Have a cluster served; the value is an address of it."""
    words = [*_ME, "serve", str(topics)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as mock:  # noqa: S603
        try:
            yield mock.stdout.readline().strip() if mock.stdout else ""
        finally:
            mock.communicate(timeout=_LIMIT_S)


def poll(client: str, servers: str, polls: int) -> None:
    """Poll with a source alone, then with a poller, and print what that took."""
    from kafka_partition_events import MetadataPoller, MetadataSource  # noqa: PLC0415 - as above
    from kafka_partition_events.clients.confluent import ConfluentMetadataSource  # noqa: PLC0415
    from kafka_partition_events.clients.kafka_python import KafkaPythonMetadataSource  # noqa: PLC0415

    makers: Mapping[str, Callable[[], MetadataSource]] = {
        "confluent-kafka": partial(ConfluentMetadataSource, {"bootstrap.servers": servers}),
        "kafka-python": partial(KafkaPythonMetadataSource, {"bootstrap_servers": servers}),
    }
    idle_mb = peak_mb()
    with closing(makers[client]()) as source:
        ask = partial(source.fetch, None, started_at=0.0, timeout=_LIMIT_S)
        alone = [_cpu_s(ask) for _ in range(1 + polls)]
    with closing(MetadataPoller(makers[client](), interval=INTERVAL_S, fetch_timeout=_LIMIT_S)) as poller:
        whole = [_cpu_s(poller.poll_once) for _ in range(1 + polls)]
        if poller.health.failed:
            raise SystemExit(f"a poll has failed: {poller.health.last_error}")
    print(json.dumps({"alone": alone[1:], "first": whole[0], "whole": whole[1:], "mb": [idle_mb, peak_mb()]}))


def _cpu_s(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def observed(servers: str, client: str, seconds: float) -> dict[str, float]:
    """Let a `kpe observe` run so long after its start; return its share of a core, and its peak memory."""
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "kpe.toml")
        config.write_text(
            f'[kafka]\nclient = "{client}"\nbootstrap_servers = "{servers}"\n'
            f'[observer]\ninterval = "{INTERVAL_S:g}s"\n[outbox]\npath = "{directory}/outbox.db"\n'
            f'[http]\nlisten = "127.0.0.1:{free_ports(1)[0]}"\n',
            encoding="utf-8",
        )
        words = [sys.executable, "-m", "kafka_partition_events.cli", "observe", "--config", str(config)]
        with subprocess.Popen(words) as process:  # noqa: S603 - ours
            try:
                time.sleep(3 * INTERVAL_S)
                if process.poll() is not None:
                    raise SystemExit(f"kpe observe ended with exit code {process.returncode}")
                start_s, began = cpu_seconds_of([process.pid]), time.monotonic()
                time.sleep(seconds)
                used_s = cpu_seconds_of([process.pid]) - start_s
                status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
                peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
                return {"start_s": start_s, "cores": used_s / (time.monotonic() - began), "mb": peak}
            finally:
                process.terminate()


def _rows(client: str, polled: Mapping[str, Any], observer: Mapping[str, float]) -> list[list[str]]:
    idle_mb, full_mb = polled["mb"]
    return [
        [client, "a poll of the source alone", f"{Spread.of(polled['alone']).text()} s", ""],
        [client, "a poll, taken in, without a change", f"{Spread.of(polled['whole']).text()} s", ""],
        [client, "the first poll", f"{polled['first']:.2f} s", f"{full_mb:.0f} MB, {idle_mb:.0f} before"],
        [
            client,
            f"`kpe observe`, an interval of {INTERVAL_S:g} s",
            f"{observer['cores']:.0%} of a core",
            f"{observer['mb']:.0f} MB",
        ],
    ]


def main(*, quick: bool = False) -> None:
    topics, polls, seconds = (100, 2, 20.0) if quick else (TOPICS, POLLS, OBSERVED_S)
    raw, rows = {}, []
    with serving(topics) as servers:
        for client in CLIENTS:
            words = [*_ME, "poll", client, servers, str(polls)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - ours
            polled, observer = json.loads(done.stdout), observed(servers, client, seconds)
            raw[client] = {"polled": polled, "observer": observer}
            rows += _rows(client, polled, observer)
    save(
        "large",
        f"Metadata answers with {topics * PARTITIONS:,} partitions ({topics:,} topics, {BROKERS} brokers)",
        ["client", "what", "CPU", "peak memory"],
        rows,
        raw,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("serve", "poll"))
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    if given.role == "serve":
        serve(int(given.words[0]))
    else:
        poll(given.words[0], given.words[1], int(given.words[2]))
