"""Waits for what a real cluster does when it gets to it, and makes the control topics of one test there."""

import time
import uuid
from collections.abc import Callable

from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.topics import control_topics, missing

WaitUntil = Callable[[Callable[[], bool], str], None]


def waiting(limit_s: float, every_s: float = 0.1) -> WaitUntil:
    """Return a function that waits until something is true, and fails with what is missing after a limit."""

    def wait_until(true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + limit_s
        while not true():
            assert time.monotonic() < deadline, f"not in {limit_s:g} s: {what}"
            time.sleep(every_s)

    return wait_until


def own_control_topics(bootstrap_servers: str, wait_until: WaitUntil) -> str:
    """Make control topics, wait until all brokers have heard of them, and return their prefix."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    wanted = control_topics(prefix)
    admin = ControlTopicAdmin({"bootstrap.servers": bootstrap_servers})
    admin.create(wanted)
    wait_until(lambda: not missing(wanted, admin.describe(wanted)), "the control topics are there")
    admin.close()
    return prefix
