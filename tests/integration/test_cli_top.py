"""``kpe top`` in a terminal of 80x24, on real brokers, one of which dies."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import uuid

import pytest

from kafka_partition_events.testing import KafkaCluster

pytestmark = pytest.mark.kafka

LIMIT_S = 60.0
_CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z~]|\x1b[()][A-Z0-9]|\x1b[=>]|\x1b\][^\x07]*\x07")


class Terminal:
    """A program in a pseudo-terminal, and all that it has written, without control sequences."""

    def __init__(self, *arguments: str) -> None:
        self._side, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kafka_partition_events.cli", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        )
        os.close(theirs)
        self._written = b""

    def shows(self, text: str) -> None:
        """Wait until it has written a text."""
        deadline = time.monotonic() + LIMIT_S
        while text.encode() not in _CONTROL.sub(b"", self._written):
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} is not in {_CONTROL.sub(b'', self._written)[-4_000:]!r}"
            if select.select([self._side], [], [], min(left, 1.0))[0]:
                self._written += os.read(self._side, 65_536)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self._side)


def test_a_broker_that_dies_is_shown_and_ctrl_c_ends_it(cluster: KafkaCluster) -> None:
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(topic, 3, replication_factor=3)
    terminal = Terminal("top", "-b", cluster.bootstrap_servers, "--topics", topic, "--interval", "1s")
    try:
        terminal.shows("this process read it")
        terminal.shows(topic)
        cluster.kill(2)
        terminal.shows("broker 2 is missing")
        terminal.shows("MISSING")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(LIMIT_S) == 0
    finally:
        terminal.close()
        cluster.restart(2)
