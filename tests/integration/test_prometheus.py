"""Metrics where they are used: in a producer's process, and by a real Prometheus with the shipped rules."""

import re
import sys
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess, tail
from tests.prometheus_kit import ASSETS, QUERIES, RULES

LIMIT_S = 90.0
OBSERVE = Path(__file__).parents[2] / "docs" / "observe.md"
WATCHER = """
import sys, threading
import prometheus_client
from kafka_partition_events import MetadataPoller
from kafka_partition_events.clients.confluent import ConfluentMetadataSource
from kafka_partition_events_listeners.prometheus.listener import PrometheusListener

bootstrap, port = sys.argv[1:]
with MetadataPoller(ConfluentMetadataSource({"bootstrap.servers": bootstrap}), interval=0.5) as poller:
    poller.register(PrometheusListener(poller, kafka_cluster="test"))
    prometheus_client.start_http_server(int(port), addr="127.0.0.1")
    threading.Event().wait()
"""


class Monitoring:
    """A watcher of a cluster, and a Prometheus that scrapes it twice a second."""

    def __init__(self, prometheus: str, cluster: KafkaCluster, directory: Path) -> None:
        watcher_port, port = free_ports(2)
        self._url = f"http://{HOST}:{port}/api/v1"
        self._logs = [directory / "watcher.log", directory / "prometheus.log"]
        self._processes = [
            SupervisedProcess(
                [sys.executable, "-c", WATCHER, cluster.bootstrap_servers, str(watcher_port)],
                log=self._logs[0],
            ),
            SupervisedProcess(
                [
                    prometheus,
                    f"--config.file={configured(directory, f'{HOST}:{watcher_port}')}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address={HOST}:{port}",
                ],
                log=self._logs[1],
            ),
        ]

    def close(self) -> None:
        for process in self._processes:
            process.kill()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return what an instant query finds."""
        answer = httpx.get(f"{self._url}/query", params={"query": expression}, timeout=10)
        if answer.status_code == HTTPStatus.SERVICE_UNAVAILABLE:  # in plain text, while it starts
            raise httpx.TransportError(answer.text)
        said = answer.json()
        assert said["status"] == "success", f"{expression}: {said}"
        return list(said["data"]["result"])

    def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except httpx.TransportError:
                pass  # Prometheus is starting
            time.sleep(0.2)
        logs = "\n".join(f"{log.name}:\n{tail(log)}" for log in self._logs)
        raise AssertionError(f"after {LIMIT_S} s: not {what}\n{logs}")


def configured(directory: Path, target: str) -> Path:
    """Write the configuration of docs/observe.md, but with rules that wait a second only; return its path."""
    rules = re.sub(r"^( +for:) \w+$", r"\1 1s", RULES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert rules.count("for: 1s") > 5
    (directory / "rules.yml").write_text(rules, encoding="utf-8")
    config = directory / "prometheus.yml"
    (text,) = re.findall(
        r"```yaml\n(# prometheus.yml\n.*?)```", OBSERVE.read_text(encoding="utf-8"), re.DOTALL
    )
    document = yaml.safe_load(text)
    document["global"] = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), "500ms")
    (exported,) = document["rule_files"]
    assert (ASSETS / exported.removeprefix("kpe-files/")).is_file()
    document["rule_files"] = ["rules.yml"]
    document["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    return config


@pytest.fixture
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    """Three brokers; a killed one is gone after three seconds. Broker 3 has orders 2 for itself."""
    made = own_kafka_cluster(brokers=3)
    made.create_topic("orders", assignment={0: [1], 1: [2], 2: [3]})
    made.create_topic("logs", assignment={0: [1, 3], 1: [2, 3]})
    return made


@pytest.fixture
def monitoring(prometheus: str, cluster: KafkaCluster, tmp_path: Path) -> Iterator[Monitoring]:
    made = Monitoring(prometheus, cluster, tmp_path)
    yield made
    made.close()


@pytest.mark.kafka
def test_a_killed_broker_is_scraped_until_it_is_back(cluster: KafkaCluster, monitoring: Monitoring) -> None:
    monitoring.wait_until("scraped, and all is well", lambda: bool(monitoring.query("kpe_brokers == 3")))

    cluster.kill(3)
    monitoring.wait_until(  # what fires the shipped rules `kpe observe` exposes: see test_alertmanager.py
        "scraped, that it is gone",
        lambda: bool(monitoring.query('kpe_broker_offline_replicas{broker="3"} == 3')),
    )
    (offline,) = monitoring.query("kpe_topic_partitions_offline > 0")
    assert offline["metric"]["topic"] == "orders"
    assert monitoring.query('kpe_events_total{event="broker.left"} == 1')
    for where, query in QUERIES.items():
        answered = monitoring.query(query)
        assert answered or not where.startswith("cluster-now.json") or "offset 1d" in query, (
            f"{where}: {query}"
        )

    cluster.restart(3)
    monitoring.wait_until("well again", lambda: bool(monitoring.query("kpe_partitions_offline == 0")))
