"""`kpe observe` in which a part falls ill when a file says so: what nobody can do to it from outside."""

import os
import time
from pathlib import Path
from typing import Any

from kafka_partition_events.cli import main
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.incidents import IncidentReader
from kafka_partition_events.observe.narrowed import NarrowedSource

FILE = "KPE_TEST_ILLNESS"


def has(illness: str) -> bool:
    file = Path(os.environ[FILE])
    return file.exists() and file.read_text() == illness


def run_once(reader: Any, healthy: Any = IncidentReader.run_once) -> bool:
    while has("stuck"):
        time.sleep(0.1)
    if has("dead"):
        raise SystemExit  # ends this thread, and nothing else
    return bool(healthy(reader))


def fetch(source: Any, *args: Any, healthy: Any = NarrowedSource.fetch, **options: Any) -> Any:
    if has("blind"):
        raise MetadataFetchError("blind")
    return healthy(source, *args, **options)


if __name__ == "__main__":
    IncidentReader.run_once, NarrowedSource.fetch = run_once, fetch  # type: ignore[method-assign, assignment]
    main()
