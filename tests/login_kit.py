"""What tests of `kpe` on secured clusters share: options of a login, with no secret on the command line."""

import atexit
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafka_partition_events.observe.setting_kinds import secret_property

_FILES = tempfile.TemporaryDirectory(prefix="kpe-login-")
atexit.register(_FILES.cleanup)


def login_options(options: Mapping[str, str]) -> list[str]:
    """Return ``-X`` options that say the same, but where the brokers are."""
    words: list[str] = []
    for name, value in options.items():
        if name == "bootstrap.servers":
            continue
        words += ["-X", f"{name}_file={_written(value)}" if secret_property(name) else f"{name}={value}"]
    return words


def observer_file(config: Mapping[str, str], file: Path, kafka: str = "") -> Path:
    """Write the configuration of an observer that logs in so, has an outbox beside it, and tells Kafka."""
    properties = "".join(
        f"{json.dumps(name)} = {json.dumps(value)}\n"
        for name, value in config.items()
        if name != "bootstrap.servers"
    )
    file.write_text(
        f'[kafka]\n{kafka}bootstrap_servers = "{config["bootstrap.servers"]}"\n'
        f"[kafka.properties]\n{properties}"
        f'[observer]\ninterval = "500ms"\n[outbox]\npath = "{file.with_suffix(".db")}"\n'
        '[http]\nlisten = "127.0.0.1:0"\n[[sinks]]\nname = "events"\ntype = "kafka"\n'
    )
    file.chmod(0o600)
    return file


def _written(secret: str) -> Path:
    with tempfile.NamedTemporaryFile("w", dir=_FILES.name, delete=False) as file:
        file.write(secret)
    return Path(file.name)
