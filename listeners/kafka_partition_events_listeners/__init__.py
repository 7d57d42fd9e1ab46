"""Ready-made listeners of kafka-partition-events. Import them from `kafka_partition_events.listeners`."""
