"""Forked children of processes that have real connections."""

import subprocess
import sys
from pathlib import Path

import pytest

from kafka_partition_events_listeners.webhook.sink import WebhookSink
from tests.fork_kit import FORKS, in_child
from tests.http_receiver import Receiver
from tests.outbox_kit import entry

pytestmark = FORKS


def test_a_webhook_uses_a_connection_of_its_own_in_each_process() -> None:
    with Receiver() as receiver:
        sink = WebhookSink(receiver.url, allow_private=True)
        sink.deliver([entry("1")])
        in_child(lambda: sink.deliver([entry("2")]))
        sink.deliver([entry("3")])
        assert [request.headers["webhook-id"] for request in receiver.requests] == ["1", "2", "3"]
        assert receiver.connections == 2, "the parent still has its own"
        sink.close()


CLIENTS = {
    "connection": """
from kafka_partition_events.clients.confluent.connection import Connection
backoff = {"reconnect.backoff.ms": 60_000, "reconnect.backoff.max.ms": 60_000}
client = Connection({"bootstrap.servers": "127.0.0.1:1", **backoff})
while not client._complaints:  # a fork in mid-attempt leaves librdkafka's locks held in the child
    client.admin().poll(0.1)
def use():
    client.admin()
    client.close()
""",
    "listener": """
from kafka_partition_events_listeners.kafka_events import KafkaEventListener
client = KafkaEventListener({"bootstrap.servers": "127.0.0.1:1"})
def use():
    client.stats
""",
    "sink": """
from kafka_partition_events_listeners.kafka_sink import KafkaSink
client = KafkaSink({"bootstrap.servers": "127.0.0.1:1"})
def use():
    client.close()
""",
}
FORK = """
import os, signal, sys
pid = os.fork()
if pid == 0:
    signal.alarm(10)
    use()
    del client
    sys.exit(0)  # as workers of prefork servers do: the interpreter destroys what is left
_, status = os.waitpid(pid, 0)
os._exit(-os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("which", CLIENTS)
def test_a_child_ends_though_its_parent_has_a_librdkafka_client(which: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(CLIENTS[which] + FORK)
    done = subprocess.run([sys.executable, program], check=False, timeout=60)
    assert done.returncode == 0, "the child hung"
