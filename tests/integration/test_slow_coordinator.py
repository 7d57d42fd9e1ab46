"""Groups whose coordinator answers too late, or is another one by now: librdkafka ends a careless process."""

import sys

import pytest

from tests.integration.programs import ended

LOOKS = """
import time

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.metadata.cluster import TopicPartition
from tests.mock_cluster import MockCluster

with MockCluster(brokers=1) as cluster:
    admin = GroupAdmin({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.create_topic("orders", 1)
    place = [TopicPartition("orders", 0)]
    for look in (admin.describe, lambda ids, limit: admin.committed(dict.fromkeys(ids, place), limit)):
        assert admin.committed({"any": place}, 10.0) == {"any": {}}
        cluster.set_rtt(1, 2_000)
        try:
            look(["billing", "shipping"], 0.1)
        except MetadataFetchError as error:
            print(error)
        cluster.set_rtt(1, 0)
        time.sleep(1.5)  # until the answers are there that nobody waits for any more
    assert admin.committed({"any": place}, 10.0) == {"any": {}}
    admin.close()
"""


def test_a_look_at_groups_in_vain_costs_nothing_but_that_look() -> None:
    found = ended(sys.executable, "-c", LOOKS)
    assert (found.returncode, found.stderr) == (0, "")
    assert [line.split(":")[0] for line in found.stdout.splitlines()] == [
        "can't read the group billing",
        "can't read the offsets of group billing",
    ]


MOVES = """
import time

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.metadata.cluster import TopicPartition
from kafka_partition_events.testing import KafkaCluster

GROUPS = [f"group-{number}" for number in range(10)]  # so that each broker is the coordinator of one
WHERE = {group: [TopicPartition("orders", 0)] for group in GROUPS}

with KafkaCluster(brokers=3) as kafka:
    kafka.create_topic("orders", 1, 3)
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "log_level": 0})
        consumer.commit(offsets=[Place("orders", 0, 7)], asynchronous=False)
        consumer.close()
    admin = GroupAdmin({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})

    def ask():
        found = {}
        deadline = time.monotonic() + 60
        while len(found) < len(GROUPS) and time.monotonic() < deadline:
            try:
                found = admin.committed(WHERE, 2.0)
            except MetadataFetchError:
                time.sleep(0.2)
        assert all(offsets == {WHERE[group][0]: 7} for group, offsets in found.items()), found
        assert len(found) == len(GROUPS), found

    ask()
    kafka.kill(1)
    ask()
    kafka.restart(1)
    ask()
    kafka.elect("__consumer_offsets")  # the coordinators of a third of all groups are other ones at once
    ask()
    admin.close()
"""


@pytest.mark.kafka
@pytest.mark.weekly
def test_offsets_are_told_after_the_coordinator_has_moved() -> None:
    found = ended(sys.executable, "-c", MOVES, limit_s=300)
    assert found.returncode == 0, found.stderr
