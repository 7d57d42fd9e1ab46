"""A producer's second way: when there may be one, and how keys keep their order over both. No broker."""

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_partition_events import ConfigurationError
from kafka_partition_events.clients.confluent import standby as module
from kafka_partition_events.clients.confluent.connection import asking_around
from kafka_partition_events.clients.confluent.standby import (
    KeyOrder,
    Standby,
    after,
    check_keys,
    waits_for_replicas,
)
from kafka_partition_events.clients.standby import checked_standby
from kafka_partition_events.routing.lanes import MAIN, STANDBY


@pytest.mark.parametrize(
    ("config", "waits"),
    [
        ({}, True),
        ({"acks": "all"}, True),
        ({"acks": -1}, True),
        ({"request.required.acks": "1"}, False),
        ({"acks": 0}, False),
        ({"default.topic.config": {"acks": 1}}, False),
    ],
)
def test_records_wait_for_replicas_unless_the_config_says_otherwise(config: Any, waits: bool) -> None:
    assert waits_for_replicas(config) is waits
    assert checked_standby("lazy", None, waits_for_replicas=waits) == ("lazy" if waits else "off")


@pytest.mark.parametrize(
    ("mode", "transaction", "why"),
    [("hot", None, "off, lazy, warm"), ("warm", "transactional.id", "one handle")],
)
def test_what_contradicts_itself_is_refused(mode: str, transaction: str | None, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        checked_standby(mode, transaction, waits_for_replicas=True)


@pytest.mark.parametrize(("mode", "config"), [("off", {}), ("lazy", {"delivery.report.only.error": True})])
def test_keys_need_a_second_way_and_every_report(mode: str, config: Any) -> None:
    check_keys(mode, config, keys=False)
    with pytest.raises(ConfigurationError, match="standby_keys"):
        check_keys(mode, config, keys=True)


def test_a_transaction_has_one_way_without_asking() -> None:
    assert checked_standby("lazy", "transactional.id", waits_for_replicas=True) == "off"


class Handle:
    """Stands for a producer that has so many records waiting."""

    waiting = 0

    def __len__(self) -> int:
        return self.waiting

    def close(self) -> None:
        pass


@pytest.fixture
def standby(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Standby]:
    monkeypatch.setattr(Standby, "_made", lambda _self: Handle())
    return lambda mode="lazy": Standby(mode, {}, lambda: None, frozenset)


class TestStandby:
    def test_is_made_when_it_is_needed_and_once(self, standby: Callable[..., Standby]) -> None:
        second = standby()
        assert second.open is None
        handle = second.handle()
        assert handle is not None
        assert second.handle() is handle is second.open
        second.close()

    def test_rests_only_when_it_was_idle(
        self, standby: Callable[..., Standby], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        second = standby()
        second.handle()
        second.rest()
        assert second.open is not None
        second._used_at -= 61
        monkeypatch.setattr(Handle, "waiting", 1)
        second.rest()
        assert second.open is not None, "something waits there"
        monkeypatch.setattr(Handle, "waiting", 0)
        second.rest()
        assert second.open is None
        assert second.handle() is not None

    def test_that_is_warm_does_not_rest(self, standby: Callable[..., Standby]) -> None:
        second = standby("warm")
        second.handle()
        second._used_at -= 61
        second.rest()
        assert second.open is not None
        second.close()

    def test_that_is_closed_stays_closed(self, standby: Callable[..., Standby]) -> None:
        second = standby()
        second.handle()
        second.close()
        second.close()
        assert second.handle() is None

    def test_that_is_made_after_a_change_of_credentials_has_them(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        logins: list[tuple[str, ...]] = []

        class LoggingIn(Handle):
            def __init__(self, _config: Any) -> None:
                pass

            def set_sasl_credentials(self, *login: str) -> None:
                logins.append(login)

        monkeypatch.setattr(module, "Handle", LoggingIn)
        second = Standby("lazy", {}, lambda: None, frozenset)
        second.log_in("alice", "second")
        assert logins == []
        second.handle()
        assert logins == [("alice", "second")]
        second.log_in("alice", "third")
        assert logins == [("alice", "second"), ("alice", "third")], "the one that is open, too"
        second.close()

    @pytest.mark.parametrize(
        ("given", "in_flight"),
        [
            ({"enable.idempotence": True, "max.in.flight": 5}, 1),
            ({"enable.idempotence": "true", "max.in.flight.requests.per.connection": 5}, 1),
            ({"max.in.flight.requests.per.connection": 5}, 5),
        ],
    )
    def test_that_is_idempotent_sends_nothing_before_the_first_batch_is_answered(
        self, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], in_flight: int
    ) -> None:
        made: list[dict[str, Any]] = []

        class Remembering(Handle):
            def __init__(self, config: dict[str, Any]) -> None:
                made.append(config)

        monkeypatch.setattr(module, "Handle", Remembering)
        Standby("lazy", given, lambda: None, frozenset).handle()
        [config] = made
        assert config["max.in.flight.requests.per.connection"] == in_flight
        assert "max.in.flight" not in config


class TestKeyOrder:
    def test_a_key_changes_ways_when_nothing_of_its_partition_is_outstanding(self) -> None:
        order = KeyOrder()
        way, first_done = order.enter("t", 0, MAIN)
        assert way == MAIN
        way, second_done = order.enter("t", 0, STANDBY)
        assert way == MAIN, "the first is on its way there"
        first_done()
        assert order.enter("t", 0, STANDBY)[0] == MAIN
        second_done()

    def test_and_likewise_back(self) -> None:
        order = KeyOrder()
        _, done = order.enter("t", 0, STANDBY)
        assert order.enter("t", 1, MAIN)[0] == MAIN, "another partition"
        assert order.enter("t", 0, MAIN)[0] == STANDBY
        done()
        assert order.enter("t", 0, MAIN)[0] == STANDBY

    def test_what_is_done_twice_counts_once(self) -> None:
        """A record that the client refuses is sent again, and reported with the same callback."""
        order = KeyOrder()
        _, done = order.enter("t", 0, MAIN)
        done()
        done()
        order.enter("t", 0, MAIN)
        assert order.enter("t", 0, STANDBY)[0] == MAIN

    def test_the_application_hears_after_the_count(self) -> None:
        heard: list[Any] = []
        report = after(lambda: heard.append("left"), lambda *told: heard.append(told))
        error, message = KafkaError(KafkaError._MSG_TIMED_OUT), object()
        report(error, message)  # type: ignore[arg-type]
        assert heard == ["left", (error, message)]


class TestAskingAround:
    def test_asks_again_after_a_while_without_an_answer(self) -> None:
        waits: list[float] = []

        def ask(seconds: float) -> str:
            waits.append(seconds)
            if len(waits) < 3:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return "answer"

        assert asking_around(ask, deadline=float("inf")) == "answer"
        assert waits == [1.0, 2.0, 4.0]

    def test_does_not_ask_again_when_the_time_is_up_or_somebody_has_answered(self) -> None:
        for code, deadline in (
            (KafkaError._TIMED_OUT, 0.0),
            (KafkaError.UNKNOWN_TOPIC_OR_PART, float("inf")),
        ):
            asked: list[float] = []

            def ask(seconds: float, code: int = code, asked: list[float] = asked) -> None:
                asked.append(seconds)
                raise KafkaException(KafkaError(code))

            with pytest.raises(KafkaException):
                asking_around(ask, deadline)
            assert len(asked) == 1
