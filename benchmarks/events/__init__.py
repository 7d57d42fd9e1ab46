"""Events under load: a broker lost among 200,000 partitions, for listeners, the outbox and Kafka."""
