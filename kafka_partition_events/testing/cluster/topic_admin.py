"""Change topics and settings of a test cluster through confluent-kafka's admin client."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafka_partition_events.testing.errors import KitError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_LIMIT_S = 30.0


class TopicAdmin:
    """Creates, grows and deletes topics, and changes settings.

    Each call makes a client of its own (some milliseconds) with the brokers that run at that moment: a
    lasting one would remember those that a test has killed. Thread safe.
    """

    def __init__(self, bootstrap_servers: Callable[[], str]) -> None:
        self._bootstrap_servers = bootstrap_servers

    def create(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str],
        assignment: Mapping[int, Sequence[int]] | None,
    ) -> None:
        """Create a topic.

        Raises:
            KitError: the arguments contradict each other, or Kafka refused.
        """
        if assignment is None:
            layout: dict[str, Any] = {"num_partitions": partitions, "replication_factor": replication_factor}
        elif sorted(assignment) == list(range(partitions)):
            layout = {
                "num_partitions": partitions,
                "replica_assignment": [list(assignment[partition]) for partition in range(partitions)],
            }
        else:
            raise KitError(f"assignment must have partitions 0..{partitions - 1}, not {sorted(assignment)}")
        client = self._client()
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

        topic = NewTopic(name, config=dict(config), **layout)
        _finish(client.create_topics([topic], request_timeout=_LIMIT_S), f"create topic {name}")

    def grow(self, name: str, partitions: int) -> None:
        """Grow a topic to `partitions` in all.

        Raises:
            KitError: Kafka refused, for example because the topic is not smaller now.
        """
        client = self._client()
        from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # noqa: PLC0415

        request = [NewPartitions(name, partitions)]
        growth = client.create_partitions(request, request_timeout=_LIMIT_S)
        _finish(growth, f"grow topic {name} to {partitions} partitions")

    def delete(self, name: str) -> None:
        """Delete a topic.

        Raises:
            KitError: Kafka refused, for example because there is none of that name.
        """
        client = self._client()  # must live until the answer is there
        _finish(client.delete_topics([name], request_timeout=_LIMIT_S), f"delete topic {name}")

    def configure(self, name: str, settings: Mapping[str, str | None]) -> None:
        """Change some settings of a topic, and leave the others; None goes back to the default.

        Raises:
            KitError: Kafka refused.
        """
        client = self._client()
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]  # noqa: PLC0415

        changes = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes)
        done = client.incremental_alter_configs([resource], request_timeout=_LIMIT_S)
        _finish(done, f"change settings of topic {name}")

    def _client(self) -> "AdminClient":
        try:
            from confluent_kafka.admin import AdminClient  # noqa: PLC0415
        except ImportError as error:
            raise KitError(
                "changing topics needs confluent-kafka, which is not installed; "
                'install the extra: pip install "kafka-partition-events[testing]"'
            ) from error
        # log_level 2 (critical): a broker that a test has killed is no news worth a line on stderr.
        return AdminClient({"bootstrap.servers": self._bootstrap_servers(), "log_level": 2})


def _finish(futures: Mapping[Any, Any], what: str) -> None:
    for future in futures.values():
        try:
            future.result(_LIMIT_S + 5.0)
        except Exception as error:
            raise KitError(f"could not {what}: {error}") from error
