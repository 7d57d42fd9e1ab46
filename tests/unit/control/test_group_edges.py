"""What brokers refuse, and what nobody answers: how the prober's client takes it."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.metadata.cluster import TopicPartition

UNSEEN = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
)
"""Why a group that exists may not be described."""


class Groups(GroupAdmin):
    """Asks a client that answers as it is told, by group."""

    def __init__(self, **answers: Any) -> None:
        super().__init__({"bootstrap.servers": "localhost:1"})
        futures = {}
        for name, answer in answers.items():
            futures[name] = future = Future[Any]()
            if isinstance(answer, int):
                future.set_exception(KafkaException(KafkaError(answer)))
            else:
                future.set_result(answer)
        client = SimpleNamespace(
            describe_consumer_groups=lambda ids, request_timeout: {id_: futures[id_] for id_ in ids}
        )
        self._connection.admin = lambda: client  # type: ignore[method-assign, assignment, return-value]
        self._answers = futures
        self._names = set(futures)

    def _places(self, group: str, *_: Any) -> Any:
        return self._answers[group].result()

    def names(self) -> set[str]:
        return set(self.describe(self._names, 1.0))


def description() -> Any:
    kind, state = SimpleNamespace(name="CLASSIC"), SimpleNamespace(name="STABLE")
    return SimpleNamespace(members=[], partition_assignor="range", type=kind, state=state)


class TestGroups:
    def test_one_that_does_not_exist_is_dead(self) -> None:
        groups = Groups(gone=KafkaError.GROUP_ID_NOT_FOUND)
        assert groups.names() == {"gone"}
        assert groups.describe({"gone"}, 1.0)["gone"].state == "DEAD"

    @pytest.mark.parametrize("why", UNSEEN)
    def test_one_that_can_not_be_seen_is_left_out_and_so_are_its_offsets(self, why: int) -> None:
        assert Groups(billing=description(), secret=why).names() == {"billing"}
        groups = Groups(billing=[], secret=why)
        place = [TopicPartition("orders", 0)]
        assert groups.committed({"billing": place, "secret": place, "idle": []}, 1.0) == {"billing": {}}

    def test_no_answer_is_an_error(self) -> None:
        with pytest.raises(MetadataFetchError, match="can't read the group billing"):
            Groups(billing=KafkaError._TIMED_OUT, shipping=description()).names()

    def test_with_an_error_all_that_is_still_asked_is_given_up(self) -> None:
        admin = GroupAdmin({"bootstrap.servers": "localhost:1"})
        client = admin._connection.admin()
        with pytest.raises(MetadataFetchError, match="can't read the consumer groups"):
            admin.groups(0.2)
        assert admin._connection.admin() is not client
        with pytest.raises(RuntimeError, match="closed"):
            client.poll(0)
