"""The tutorial's receiver prints the alert that the tutorial's configuration posts to it."""

import socket
import subprocess
import sys
from pathlib import Path

from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.alert_board import Board
from kafka_partition_events.observe.alertmanager import AlertmanagerSink
from kafka_partition_events.observe.alerts import Cause, Wrong, alerts
from kafka_partition_events.observe.config import load_config
from kafka_partition_events.observe.settings import AlertmanagerSinkSettings
from kafka_partition_events.testing.ports import free_ports
from kafka_partition_events_listeners.webhook.client import Way
from tests.docs_kit import blocks
from tests.waiting_kit import waiting

PAGE = "tutorials/first-alert.md"


def test_an_alert_arrives(tmp_path: Path) -> None:
    (receiver,) = (block.code for block in blocks("python") if block.page == PAGE)
    (configuration,) = (block.code for block in blocks("toml") if block.page == PAGE)
    (shown,) = (block.code for block in blocks("text") if block.page == PAGE)
    port = free_ports(1)[0]
    (path := tmp_path / "kpe.toml").write_text(configuration.replace("8080", str(port)), encoding="utf-8")
    (program := tmp_path / "receiver.py").write_text(receiver.replace("8080", str(port)), encoding="utf-8")
    settings = load_config(path, {}).settings
    (sink,) = settings.sinks
    assert isinstance(sink, AlertmanagerSinkSettings)
    missing = {Cause("KafkaBrokerMissing", "2"): Wrong(value=9)}
    found = Board(
        alerts=alerts(str(settings.kafka.name), missing, dict.fromkeys(missing, 0.0), 60.0), complete=True
    )
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    posting = AlertmanagerSink(
        sink.urls, name="am", read=lambda: found, repeat_interval=60.0, settle=5.0, way=Way(), clock=Clock()
    )
    try:
        waiting(10)(lambda: listens(port), "the receiver listens")
        posting.start()
        waiting(10)(lambda: posting.stats.delivered == 1, "it is posted")
    finally:
        posting.close()
        process.kill()
        said, _ = process.communicate()
    assert said == shown


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
