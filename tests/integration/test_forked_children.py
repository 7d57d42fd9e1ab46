"""Workers of a pre-fork server, whose parent has made a producer when it imported the application."""

import sys
from pathlib import Path

import pytest

from tests.fork_kit import FORKS
from tests.integration.programs import ended
from tests.mock_cluster import MockCluster

pytestmark = FORKS

WORKERS = 4
LIMIT_S = 180

SERVER = """
# As gunicorn with --preload: the application is imported, then the workers are forked, each is given a task,
# and each ends by sys.exit.
import os, signal, sys, time
from kafka_partition_events import AdaptivePartitioner, MetadataPoller
from kafka_partition_events.clients.confluent import ConfluentMetadataSource, PartitioningProducer
from kafka_partition_events.errors import ForkedError

config = {"bootstrap.servers": sys.argv[1], "log_level": 0}
partitioner = AdaptivePartitioner()
producer = PartitioningProducer(config, partitioner, poller_options={"interval": 0.05, "min_interval": 0.05})
for _ in range(100):
    producer.produce("t", b"the parent's", key=b"k")
    producer.produce("t", b"the parent's")
assert producer.flush(60) == 0


def connected():
    # Return when none has been opened for a second. A thread that connects may be in `getaddrinfo`, whose
    # lock glibc leaves locked in a child (check_pf.c): a child that is forked then never resolves a name.
    open_files, since = 0, time.monotonic()
    while time.monotonic() < since + 1:
        if (now := len(os.listdir("/dev/fd"))) != open_files:
            open_files, since = now, time.monotonic()
        time.sleep(0.01)


connected()
producer.produce("t", b"on its way")


def refused(use, what):
    try:
        use()
    except ForkedError as error:
        words = f"this {what} was made before a fork, in process {os.getppid()}: make a new one"
        assert words in str(error), error
    else:
        raise AssertionError(f"{use} raises nothing")


def work():
    refused(lambda: producer.produce("t", b"x"), "PartitioningProducer")
    refused(lambda: producer.produce("t", b"x", key=b"k"), "PartitioningProducer")
    refused(lambda: producer.produce("t", b"x", partition=0), "PartitioningProducer")
    refused(lambda: producer.produce_batch("t", [{"value": b"x"}]), "PartitioningProducer")
    refused(producer.flush, "PartitioningProducer")
    refused(producer.close, "PartitioningProducer")
    refused(lambda: PartitioningProducer(config, partitioner), "AdaptivePartitioner")
    refused(lambda: PartitioningProducer(config, poller=producer.poller), "MetadataPoller")
    mine = PartitioningProducer(config)
    mine.poller.refresh(wait=60)
    delivered = []
    for _ in range(10):
        mine.produce("t", b"x", callback=lambda error, message: delivered.append(error))
    assert mine.flush(60) == 0
    assert delivered == [None] * 10
    mine.close()


workers = []
for _ in range(int(sys.argv[2])):
    if (pid := os.fork()) == 0:
        signal.alarm(120)  # a child that hangs ends here
        work()
        LAST
    workers.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers]
assert producer.flush(60) == 0
producer.produce("t", b"the parent goes on")
assert producer.flush(60) == 0
producer.close()
print(codes)
"""


@pytest.mark.parametrize("last", ["sys.exit(0)", "os._exit(0)"])
def test_raise_in_words_work_with_their_own_and_end(
    mock_cluster: MockCluster, tmp_path: Path, last: str
) -> None:
    mock_cluster.create_topic("t", 12)
    program = tmp_path / "server.py"
    program.write_text(SERVER.replace("LAST", last))
    words = ("-W", "ignore", program, mock_cluster.bootstrap_servers, str(WORKERS))
    done = ended(sys.executable, *words, limit_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([0] * WORKERS), done.stderr


IN_A_WITH_BLOCK = """
import os, signal, sys
from kafka_partition_events.clients.confluent import PartitioningProducer
with PartitioningProducer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}) as producer:
    if (pid := os.fork()) == 0:
        signal.alarm(20)
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(code)
"""


def test_a_worker_that_ends_inside_of_the_parents_with_block() -> None:
    done = ended(sys.executable, "-W", "ignore", "-c", IN_A_WITH_BLOCK, limit_s=LIMIT_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "7", "the worker's own exit is not replaced"
