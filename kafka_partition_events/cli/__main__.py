"""``python -m kafka_partition_events.cli`` is ``kpe``."""

from kafka_partition_events.cli import main

main()
