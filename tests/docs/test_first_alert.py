"""The tutorial's receiver prints the test incident that the tutorial's configuration sends it."""

import socket
import subprocess
import sys
from pathlib import Path

from kafka_partition_events.cli.app import run
from kafka_partition_events.testing.ports import free_ports
from tests.docs_kit import blocks
from tests.waiting_kit import waiting

PAGE = "tutorials/first-alert.md"


def test_a_test_incident_arrives(tmp_path: Path) -> None:
    (receiver,) = (block.code for block in blocks("python") if block.page == PAGE)
    (configuration,) = (block.code for block in blocks("toml") if block.page == PAGE)
    (shown,) = (block.code for block in blocks("text") if block.page == PAGE)
    port = free_ports(1)[0]
    (path := tmp_path / "kpe.toml").write_text(configuration.replace("8080", str(port)), encoding="utf-8")
    (program := tmp_path / "receiver.py").write_text(receiver.replace("8080", str(port)), encoding="utf-8")
    process = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    try:
        waiting(10)(lambda: listens(port), "the receiver listens")
        assert run(["sink", "test", "chat", "--config", str(path)]) == 0
    finally:
        process.kill()
        said, _ = process.communicate()
    assert said == shown


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
