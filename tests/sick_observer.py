"""`kpe observe` in which a part falls ill when a file says so: what nobody can do to it from outside."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kafka_partition_events.cli import main
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.observe.sources import NarrowedSource

FILE = "KPE_TEST_ILLNESS"
CLOCK = "KPE_TEST_CLOCK"


def has(illness: str) -> bool:
    file = Path(os.environ[FILE])
    return file.exists() and file.read_text() == illness


def fetch(source: Any, *args: Any, healthy: Any = NarrowedSource.fetch, **options: Any) -> Any:
    if has("blind"):
        raise MetadataFetchError("blind")
    return healthy(source, *args, **options)


def now(_clock: Any) -> datetime:
    try:
        wrong_by = float(Path(os.environ[CLOCK]).read_text() or 0)
    except OSError:
        wrong_by = 0.0
    return datetime.now(UTC) + timedelta(seconds=wrong_by)


if __name__ == "__main__":
    Clock.now = now  # type: ignore[method-assign, assignment]
    NarrowedSource.fetch = fetch  # type: ignore[method-assign]
    main()
