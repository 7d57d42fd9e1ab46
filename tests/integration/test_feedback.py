"""Producers of each client hear sooner than metadata tells, and send again what is stuck."""

import time
from typing import Any

import pytest

from kafka_partition_events import BrokerCleared, PartitionOffline, RecordsRescued
from kafka_partition_events.clients.flight.rescue import ID_HEADER
from kafka_partition_events.health.policy import DetectorPolicy
from kafka_partition_events.metadata.events import Clearance, Suspicion
from kafka_partition_events.testing import KafkaCluster
from tests.sick_broker_kit import LIMIT_S, read_back, writing

pytestmark = pytest.mark.kafka
RATE = 500.0
SEEN_S = 0.25
"""By then nobody chooses by a table from before a suspicion."""
VICTIM = 2
LED = frozenset({1, 4})
"""The partitions that the victim leads."""


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_killed_broker_is_suspected_before_metadata_knows(
    client: str, cluster: KafkaCluster, topic: str
) -> None:
    with writing(client, cluster, topic, rate=RATE, delivery_s=3.0) as application:
        application.warm_up()
        killed = time.monotonic()
        cluster.kill(VICTIM)
        try:
            application.write(3.0)
            suspicion = application.suspicion_of(VICTIM, since=killed)
            assert suspicion is not None
            assert suspicion.observed_at - killed < 1.0
            assert suspicion.partitioner == "AdaptivePartitioner"
            assert not application.heard.of(PartitionOffline)  # the cluster still names it as a leader
            application.of_each_is_told_once()
        finally:
            cluster.restart(VICTIM)
        # A third of them without feedback.
        assert application.share_failed_after(suspicion.observed_at + SEEN_S) < 0.05


@pytest.mark.parametrize("client", ["confluent", "kafka-python", "aiokafka"])
def test_a_frozen_broker_is_left_out_and_welcomed_back(
    client: str, cluster: KafkaCluster, topic: str
) -> None:
    with writing(client, cluster, topic, rate=RATE, delivery_s=30.0) as application:
        application.warm_up()
        frozen = time.monotonic()
        cluster.freeze(VICTIM)
        try:
            application.write_until(lambda: application.suspicion_of(VICTIM, since=frozen))
            suspected = application.suspicion_of(VICTIM, since=frozen)
            assert suspected is not None
            assert suspected.reason is Suspicion.SILENT
            assert suspected.outstanding >= 1
            assert suspected.usual_ms is not None
            # Patience has an upper bound: a starved machine may usually answer later than that.
            assert suspected.silence_ms > min(suspected.usual_ms, DetectorPolicy().longest_stall * 1000)
            application.write(SEEN_S)
            meanwhile = application.write(0.5)
        finally:
            cluster.thaw(VICTIM)
        application.write_until(
            lambda: any(e.broker == VICTIM and e.probes for e in application.heard.of(BrokerCleared))
        )
        cleared = [e for e in application.heard.of(BrokerCleared) if e.broker == VICTIM and e.probes]
        assert cleared[0].reason is Clearance.ANSWERED
        begin = application.sent
        application.write_until(
            lambda: {p for n, (p, _) in application.places.copy().items() if n >= begin} >= LED
        )
        application.of_each_is_told_once()
        assert application.errors == {}
    to_the_victim = [number for number in meanwhile if application.places[number][0] in LED]
    assert len(to_the_victim) < len(meanwhile) / 10, "a probe now and again"


@pytest.mark.parametrize("client", ["aiokafka", "confluent-aio"])
def test_who_awaits_each_record_goes_on_while_a_broker_is_frozen(
    client: str, cluster: KafkaCluster, topic: str
) -> None:
    """Alone in flight a record has no witness: its copy is the witness. Without one each third waits."""
    with writing(client, cluster, topic, rate=RATE, rescue="hedge") as application:
        application.warm_up()
        cluster.freeze(VICTIM)
        try:
            for _ in range(200):
                number, deadline = application.send(None), time.monotonic() + LIMIT_S / 8
                while number not in application.reports:
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
        finally:
            cluster.thaw(VICTIM)
        application.of_each_is_told_once()
        assert application.errors == {}
        assert application.driver.rescued.copies >= 1


@pytest.mark.parametrize(
    ("client", "rescue", "idempotent"),
    [
        ("confluent", "failed", False),
        ("confluent", "hedge", False),
        ("kafka-python", "failed", True),
        ("kafka-python", "hedge", False),
        ("kafka-python", "hedge", True),
    ],
)
def test_a_rescue_loses_nothing_when_a_broker_is_killed(
    client: str, rescue: Any, idempotent: bool, cluster: KafkaCluster, topic: str
) -> None:
    options = {"rescue": rescue, "idempotent": idempotent, "delivery_s": 2.0}
    with writing(client, cluster, topic, rate=RATE, **options) as application:
        application.warm_up()
        cluster.freeze(VICTIM)  # so that something is on its way when it dies
        application.write(0.3)
        cluster.kill(VICTIM)
        try:
            application.write(1.5)
            application.of_each_is_told_once()
        finally:
            cluster.restart(VICTIM)
        assert application.errors == {}
        stats = application.driver.rescued
        assert stats.copies >= stats.saved > 0
        assert stats.unheld == stats.held_bytes == 0
        application.heard.wait_for(
            lambda events: sum(e.copies for e in events if isinstance(e, RecordsRescued)) >= stats.copies,
            LIMIT_S,
        )
    records = read_back(cluster, topic)
    ids = {dict(record.headers())[ID_HEADER] for record in records}
    assert len(ids) == application.sent  # every record once, whatever was sent twice
    assert len(records) - len(ids) <= stats.copies
