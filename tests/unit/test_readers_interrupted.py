"""A signal while an ordered reader judges what it has fetched: nothing is skipped, or committed early."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import KafkaConsumer

from kafka_partition_events.clients.confluent import OrderedConsumer
from kafka_partition_events.clients.kafka_python.ordered import _KafkaPythonEnquirer
from kafka_partition_events.clients.ordered.order import Order
from tests.ordered_kit import Group, headers
from tests.unit import test_kafka_python_ordered as kafka_python
from tests.unit import test_ordered_consumer as confluent

group, kafka_python_group = confluent.group, kafka_python.group
LIMIT_S = 20.0


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let a signal come right after the so-manieth record is judged, once."""

    def at(number: int) -> None:
        judge, judged = Order.judge, 0

        def interrupted(*arguments: Any) -> Any:
            nonlocal judged
            verdict, judged = judge(*arguments), judged + 1
            if judged == number:
                raise KeyboardInterrupt
            return verdict

        monkeypatch.setattr(Order, "judge", interrupted)

    return at


class TestConfluent:
    @pytest.mark.parametrize("at", range(1, 10))
    @pytest.mark.parametrize("then", ["it polls", "it is closed"])
    def test_consume_hands_all_out_the_next_time_and_close_commits_what_was_handed_out(
        self, group: Group, interrupt: Callable[[int], None], at: int, then: str
    ) -> None:
        member = confluent.reader(group, 0)
        for number in range(10):
            group.partitions[0].append(number)
        assert member.poll(0) is not None
        interrupt(at)
        with pytest.raises(KeyboardInterrupt):
            member.consume(9, 0)
        if then == "it polls":
            assert confluent.polled(member, 20) == list(range(1, 10))
        else:
            member.close()
            assert group.committed == {0: 1}

    def test_poll_hands_it_out_the_next_time(self, group: Group, interrupt: Callable[[int], None]) -> None:
        member = confluent.reader(group, 0)
        for number in range(3):
            group.partitions[0].append(number)
        interrupt(1)
        with pytest.raises(KeyboardInterrupt):
            member.poll(0)
        assert confluent.polled(member) == [0, 1, 2]

    def test_what_moved_waits_for_what_was_not_handed_out(
        self, group: Group, interrupt: Callable[[int], None]
    ) -> None:
        member = confluent.reader(group, 0, 1)
        group.partitions[1].append("first")
        group.partitions[0].append("then", headers({1: 0}))
        assert not member.consume(0, 0)
        interrupt(2)
        with pytest.raises(KeyboardInterrupt):
            member.consume(9, 0)
        assert confluent.polled(member) == ["first", "then"]


def test_kafka_python_fetches_again(kafka_python_group: Group, interrupt: Callable[[int], None]) -> None:
    consumer = kafka_python.reader(kafka_python_group, 0)
    for number in range(10):
        kafka_python_group.partitions[0].append(number)
    interrupt(4)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll()
    assert kafka_python.polled(consumer) == list(range(10))


def test_consume_of_no_record_returns() -> None:
    consumer = OrderedConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    consumer.subscribe(["t"])
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(consumer.consume(0)), daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert found == [[]]
    consumer.close()


def test_a_client_beside_the_consumer_that_can_not_be_made_leaves_no_thread() -> None:
    """kafka-python's consumer starts one before it connects, and keeps it if that fails."""

    def threads() -> set[threading.Thread]:
        return {it for it in threading.enumerate() if it.name.startswith("kafka-io")}

    before = threads()
    config = {**KafkaConsumer.DEFAULT_CONFIG, "bootstrap_servers": "127.0.0.1:1", "group_id": "g"}
    with pytest.raises(Exception, match="bootstrap"):
        _KafkaPythonEnquirer(config)
    deadline = time.monotonic() + LIMIT_S
    while threads() - before and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert not threads() - before
