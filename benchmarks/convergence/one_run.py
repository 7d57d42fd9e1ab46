"""One change: a fleet of one size, a fresh topic, control topics and a tracker of their own."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from attrs import frozen
from confluent_kafka import Producer

from benchmarks.convergence.fleet import Fleet
from benchmarks.errors import BenchError
from benchmarks.measure import cpu_seconds_of, memory_mib
from kafka_partition_events.clients.confluent.source import ConfluentMetadataSource
from kafka_partition_events.control.agents.confluent import ControlLink
from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Change, Command
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import control_topics
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.metadata.poller import MetadataPoller
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess, tail

_BIRTH_LIMIT_S = 120.0
_LIMIT_S = 300.0
_QUIET_S = 30.0
_WAIT_S = 10.0
_FROM, _TO = 6, 12
_TOPICS: Final = ("changes", "leases")


@frozen(kw_only=True)
class Run:
    """What one change came to. Seconds are by the broker's clock.

    Attributes:
        instances: How many there were.
        armed_s: From the request until all held the gate and the tracker had created the partitions.
        converged_s: From the request until all live instances were known to use them.
        state: Where the change ended.
        followed: How many instances use all partitions then.
        records: Records of leases and changes, by topic, from the request to the end,
        bytes: and their keys and values.
        idle_bytes_s: Bytes a second, all of leases, while nothing was changed.
        tracker_mib: The tracker's resident memory at the end,
        tracker_peak_mib: and the most that it ever was.
        tracker_cpu_s: CPU seconds of the tracker from the request to the end.
        idle_cpu: The share of a processor that it needs while nothing is changed.
        behind_s: By how much the simulation itself was late at most.
    """

    instances: int
    armed_s: float
    converged_s: float
    state: str
    followed: int
    records: dict[str, int]
    bytes: dict[str, int]
    idle_bytes_s: float
    tracker_mib: float
    tracker_peak_mib: float
    tracker_cpu_s: float
    idle_cpu: float
    behind_s: float


def run_once(cluster: KafkaCluster, instances: int, name: str) -> Run:
    """Let a topic grow under a fleet; the name tells its topics from those of other runs.

    Raises:
        BenchError: the fleet or the change did not come to an end in time.
        KitError: the cluster or the tracker could not be started.
    """
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    topic, prefix = f"orders-{name}", f"fleet{name}."
    cluster.create_topic(topic, _FROM)
    admin = ControlTopicAdmin(config)
    admin.create(control_topics(prefix))
    admin.close()
    with tracker(config, prefix) as process, watched(config, topic) as poller:
        link = ControlLink(config, prefix=prefix)
        with contextlib.closing(link):
            fleet = Fleet(instances, link, lambda: poller.cluster)
            if not fleet.run_until(lambda: fleet.born == instances, _BIRTH_LIMIT_S):
                raise BenchError(f"only {fleet.born} of {instances} instances were born in time")
            quiet = _stretch(process, fleet, _over(_QUIET_S))
            _request(config, prefix, cluster.cluster_id, topic)
            busy = _stretch(process, fleet, lambda: _has_ended(fleet, topic))
            now, peak = (memory_mib(process.pid, name) for name in ("VmRSS", "VmHWM"))
            return _run(instances, fleet, fleet.changes[topic], quiet, busy, (now, peak))


@frozen
class _Stretch:
    """Some time: how long it took, and the CPU seconds that the tracker needed."""

    seconds: float
    cpu_s: float
    lease_bytes: int


def _stretch(process: SupervisedProcess, fleet: Fleet, over: Callable[[], bool]) -> _Stretch:
    fleet.forget()
    used, began = cpu_seconds_of([process.pid]), time.monotonic()
    if not fleet.run_until(over, _LIMIT_S):
        raise BenchError(f"not over in {_LIMIT_S:.0f} s: {[*fleet.changes.values()]}; {tail(process.log, 3)}")
    used = cpu_seconds_of([process.pid]) - used
    return _Stretch(time.monotonic() - began, used, fleet.bytes_of["leases"])


def _over(seconds: float) -> Callable[[], bool]:
    over = time.monotonic() + seconds
    return lambda: time.monotonic() >= over


def _has_ended(fleet: Fleet, topic: str) -> bool:
    return topic in fleet.changes and fleet.changes[topic].state.final


@contextlib.contextmanager
def watched(config: dict[str, str], topic: str) -> Iterator[MetadataPoller]:
    poller = MetadataPoller(ConfluentMetadataSource(config), [topic], interval=1.0)
    poller.start()
    try:
        poller.refresh(wait=_WAIT_S)
        yield poller
    finally:
        poller.close()


@contextlib.contextmanager
def tracker(config: dict[str, str], prefix: str) -> Iterator[SupervisedProcess]:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "kafka_partition_events.cli", "tracker", "--prefix", prefix]
    command += ["-b", config["bootstrap.servers"], "--listen", f"{HOST}:{port}"]
    with tempfile.TemporaryDirectory(prefix="bench-convergence-") as scratch:
        process = SupervisedProcess(command, log=Path(scratch) / "tracker.log")
        try:
            yield process
        finally:
            process.kill()


def _request(config: dict[str, str], prefix: str, cluster_id: str, topic: str) -> None:
    spec = Spec(cluster_id=cluster_id, topic=topic, from_count=_FROM, to_count=_TO, execute=True, gate=True)
    command = Command(change_id=topic, verb=Verb.REQUEST, actor="bench", spec=spec)
    producer = Producer({**config, "acks": "all", "log_level": 2})
    producer.produce(f"{prefix}commands", encode(command), key_of(command))
    if producer.flush(_WAIT_S):
        raise BenchError("the control topics take no commands")


def _run(
    instances: int,
    fleet: Fleet,
    change: Change,
    quiet: _Stretch,
    busy: _Stretch,
    memory_mib: tuple[float, float],
) -> Run:
    return Run(
        instances=instances,
        armed_s=((change.observed_ms or 0) - change.requested_ms) / 1_000,
        converged_s=((change.finished_ms or 0) - change.requested_ms) / 1_000,
        state=str(change.state),
        followed=change.totals.applied,
        records={name: fleet.records_of[name] for name in _TOPICS},
        bytes={name: fleet.bytes_of[name] for name in _TOPICS},
        idle_bytes_s=quiet.lease_bytes / quiet.seconds,
        tracker_mib=round(memory_mib[0], 1),
        tracker_peak_mib=round(memory_mib[1], 1),
        tracker_cpu_s=round(busy.cpu_s, 2),
        idle_cpu=round(quiet.cpu_s / quiet.seconds, 4),
        behind_s=round(fleet.behind_s, 2),
    )
