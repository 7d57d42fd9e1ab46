"""``python -m kafka_partition_events.jvm``: fetch the jars now rather than in the first test."""

import sys

from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm import SPARK, ensure_jars, jar_store, kafka_lock


def main() -> int:
    """Fetch the jars of Kafka and of Spark's connector, a line for each, and return the exit code."""
    try:
        for lock in (kafka_lock(), SPARK):
            store = jar_store(lock)
            count = len(store.checksums)
            if store.is_complete():
                sys.stdout.write(f"jvm: {count} verified jars in {store.directory}\n")
                continue
            sys.stdout.write(f"jvm: fetching {count} jars to {store.directory} (half a minute, once)\n")
            sys.stdout.flush()
            ensure_jars(lock)
    except JvmError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
