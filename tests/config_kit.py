"""What tests of the service's configuration share: a whole one, what writes and reads them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_partition_events.observe.config import Config, ConfigError, load_config

Given = Mapping[str, str] | None
WHOLE = """
[kafka]
client = "confluent-kafka"
bootstrap_servers = "broker-1:9093,broker-2:9093"
properties = { "security.protocol" = "SASL_SSL", "sasl.username" = "kpe" }

[observer]
name = "noc-1"
interval = "5s"
topics = "orders|payments"

[outbox]
path = "/var/lib/kpe/outbox.db"
max_bytes = "1GiB"
max_age = "2d"

[http]
listen = "[::1]:9500"

[metrics]
max_topics = 10

[alerts]
hold_down = "1m"

[[sinks]]
name = "journal"
type = "kafka"

[[sinks]]
name = "pager"
type = "webhook"
url = "https://pager.example/hook/s3cret"
events = ["partition.*"]
secrets = ["whsec_one", "whsec_two"]
headers = { Authorization = "Bearer s3cret" }

[[sinks]]
name = "on-call"
type = "alertmanager"
urls = ["http://alertmanager-1:9093", "http://alertmanager-2:9093"]
"""


class Writer:
    """Writes configurations and reads them."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "kpe.toml"

    def load(self, text: str = "", environ: Given = None, overrides: Given = None) -> Config:
        self.path.write_text(text)
        return load_config(self.path, environ or {}, overrides)

    def problems(self, text: str = "", environ: Given = None, overrides: Given = None) -> list[str]:
        """Return what is wrong, a line each; without the name of the file."""
        with pytest.raises(ConfigError) as refused:
            self.load(text, environ, overrides)
        return [problem.removeprefix(f"file {self.path}: ") for problem in refused.value.problems]


def origin(config: Config, key: str) -> str:
    """Return who has set it."""
    (value,) = (value for value in config.values if value.key == key)
    return value.origin


def text(config: Config, key: str) -> Any:
    """Return what is shown of it."""
    (value,) = (value for value in config.values if value.key == key)
    return value.value
