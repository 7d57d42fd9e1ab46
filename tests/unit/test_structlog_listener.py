"""The log of events: level, event name and fields, and no configuring of structlog."""

from typing import Any
from unittest.mock import Mock

from structlog.testing import capture_logs

from kafka_partition_events.listeners import StructlogListener
from kafka_partition_events.metadata.cluster import EMPTY
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import BrokerSuspected, MetadataUnavailable, Suspicion
from kafka_partition_events.testing.scripted import cluster_of

UP = cluster_of({"orders": [1, 2, 3]}, brokers=[1, 2, 3])
DOWN = cluster_of({"orders": [1, None, 3]}, brokers=[1, 2, 3])


def test_an_offline_partition_is_an_error_with_its_facts() -> None:
    with capture_logs() as logs:
        for event in diff(UP, DOWN, first_sequence=7):
            event.deliver(StructlogListener())
    facts = {"cluster_id": "test", "sequence": 7, "topic": "orders", "partitions": "1"}
    not_known: dict[str, Any] = {"leader_epoch": None, "replicas": [], "isr": []}
    change = {"before": {"leader": 2, **not_known}, "after": {"leader": None, **not_known}}
    assert logs == [{"event": "partition_offline", "log_level": "error", **facts, **change}]


def test_the_state_on_registration_is_quiet_except_for_what_is_offline() -> None:
    with capture_logs() as logs:
        for event in diff(EMPTY, DOWN, initial=True):
            event.deliver(StructlogListener())
    loud = [log for log in logs if log["log_level"] != "debug"]
    assert [log["event"] for log in loud] == ["partition_offline"]
    assert all(log["initial"] for log in logs)
    assert {log["event"] for log in logs} == {"broker_added", "topic_added", "partition_offline"}


def test_it_uses_the_logger_it_is_given() -> None:
    log = Mock()
    StructlogListener(log).on_event(MetadataUnavailable(error="no answer"))
    (call,) = log.warning.mock_calls
    assert (call.args, call.kwargs["error"]) == (("metadata_unavailable",), "no answer")


def test_a_suspected_broker_is_a_warning_without_what_is_not_known() -> None:
    suspected = BrokerSuspected(
        broker=2, reason=Suspicion.SILENT, outstanding=12, silence_ms=43.5, usual_ms=None, partitioner="p"
    )
    with capture_logs() as logs:
        StructlogListener().on_event(suspected)
    facts = {"broker": 2, "role": "leader", "reason": "silent", "outstanding": 12, "silence_ms": 43.5}
    known = {"event": "broker_suspected", "log_level": "warning", "cluster_id": None, "sequence": 0}
    assert logs == [{**known, **facts, "partitioner": "p"}]
