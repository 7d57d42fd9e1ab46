"""What this library raises. Each message says what was wrong, where, and what to do."""


class KafkaPartitionEventsError(Exception):
    """Base of every exception that this library defines."""


class ConfigurationError(KafkaPartitionEventsError, ValueError):
    """A constructor argument or a client setting is invalid; the message names it and the cure."""


class MetadataFetchError(KafkaPartitionEventsError):
    """A source could not fetch metadata. The poller keeps its snapshot, backs off and tries again."""


class PollerClosedError(KafkaPartitionEventsError, RuntimeError):
    """The poller has been closed; its last snapshot stays readable, but it learns nothing new."""


class ForkedError(KafkaPartitionEventsError, RuntimeError):
    """Something was made before a fork and is used in the child. Make a new one there."""


class JvmError(KafkaPartitionEventsError):
    """Java, PySpark or the jars that a real Kafka or Spark needs are missing or damaged."""


class OutboxError(KafkaPartitionEventsError):
    """The outbox can't be opened, read or written; the message names the file, the cause and the cure."""


class ControlTopicError(KafkaPartitionEventsError):
    """The topics of change control can't be read or written. Producers go on as if there were none."""
