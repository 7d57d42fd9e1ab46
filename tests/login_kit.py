"""What tests of `kpe` on secured clusters share: options of a login, with no secret on the command line."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafka_partition_events.observe.setting_kinds import secret_property

_FILES = tempfile.TemporaryDirectory(prefix="kpe-login-")  # removed when the tests end


def login_options(options: Mapping[str, str]) -> list[str]:
    """Return ``-X`` options that say the same, but where the brokers are."""
    words: list[str] = []
    for name, value in options.items():
        if name == "bootstrap.servers":
            continue
        words += ["-X", f"{name}_file={_written(value)}" if secret_property(name) else f"{name}={value}"]
    return words


def _written(secret: str) -> Path:
    with tempfile.NamedTemporaryFile("w", dir=_FILES.name, delete=False) as file:
        file.write(secret)
    return Path(file.name)
