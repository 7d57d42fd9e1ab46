"""``python -m kafka_partition_events.jvm``: fetch the jars now rather than in the first test."""

import sys

from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm import ensure_jars, jar_store


def main() -> int:
    """Fetch the jars, saying so in one line, and return the exit code."""
    store = jar_store()
    count = len(store.checksums)
    if store.is_complete():
        sys.stdout.write(f"jvm: {count} verified jars in {store.directory}\n")
        return 0
    sys.stdout.write(f"jvm: fetching {count} jars to {store.directory} (63 MB, about a minute, once)\n")
    sys.stdout.flush()
    try:
        ensure_jars()
    except JvmError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
