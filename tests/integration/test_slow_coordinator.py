"""Groups whose coordinator answers too late. librdkafka aborts the process if it is not asked with care."""

import subprocess
import sys

LOOKS = """
import time

from kafka_partition_events import MetadataFetchError
from kafka_partition_events.control.groups.admin import GroupAdmin
from kafka_partition_events.testing import MockCluster

with MockCluster(brokers=1) as cluster:
    admin = GroupAdmin({"bootstrap.servers": cluster.bootstrap_servers})
    for look in (admin.describe, lambda ids, limit: admin.committed(dict.fromkeys(ids), limit)):
        assert admin.committed({"any": None}, 10.0) == {"any": {}}
        cluster.set_rtt(1, 2_000)
        try:
            look(["billing", "shipping"], 0.1)
        except MetadataFetchError as error:
            print(error)
        cluster.set_rtt(1, 0)
        time.sleep(1.5)  # until the answers are there that nobody waits for any more
    assert admin.committed({"any": None}, 10.0) == {"any": {}}
    admin.close()
"""


def test_a_look_at_groups_in_vain_costs_nothing_but_that_look() -> None:
    found = subprocess.run(
        [sys.executable, "-c", LOOKS], capture_output=True, text=True, timeout=60.0, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert [line.split(":")[0] for line in found.stdout.splitlines()] == [
        "can't look at the group billing",
        "can't look at the offsets of group billing",
    ]
