"""Alertmanager itself, as a process that notifies a webhook at once."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess, tail

LIMIT_S = 30.0

Alert = dict[str, Any]


class Alertmanager:
    """One process, which notifies a webhook within a second."""

    def __init__(self, program: str, directory: Path, webhook: str) -> None:
        directory.mkdir()
        (self.port,) = free_ports(1)
        self.url = f"http://{HOST}:{self.port}"
        self.log = directory / "log"
        config = directory / "alertmanager.yml"
        config.write_text(
            "route: {receiver: hook, group_by: ['...'], group_wait: 0s, group_interval: 1s}\n"
            f"receivers: [{{name: hook, webhook_configs: [{{url: '{webhook}'}}]}}]\n"
        )
        self.process = SupervisedProcess(
            [
                program,
                f"--config.file={config}",
                f"--storage.path={directory / 'data'}",
                f"--web.listen-address={HOST}:{self.port}",
                "--cluster.listen-address=",
            ],
            log=self.log,
        )
        self.wait_until("ready", lambda: httpx.get(f"{self.url}/-/ready").is_success)

    @property
    def active(self) -> list[Alert]:
        found: list[Alert] = httpx.get(f"{self.url}/api/v2/alerts").json()
        return found

    def wait_until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            try:
                if holds():
                    return
            except httpx.TransportError:
                pass  # it is starting
            time.sleep(0.1)
        raise AssertionError(f"after {LIMIT_S:g} s: not {what}\n{tail(self.log)}")
