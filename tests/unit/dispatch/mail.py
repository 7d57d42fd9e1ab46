"""What is put into a mailbox, and listeners that block or fail."""

import threading
from collections.abc import Callable

from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from kafka_partition_events.metadata.events import Event, MetadataStale
from kafka_partition_events.metadata.registration import Batch, Registration
from kafka_partition_events.testing.recording import RecordingListener
from kafka_partition_events.testing.scripted import cluster_of

WAIT_S = 10.0
Open = Callable[..., Registration]


class Blocking(RecordingListener):
    """Blocks in its first event until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.let_go = threading.Event(), threading.Event()

    def on_event(self, event: Event) -> None:
        self.entered.set()
        assert self.let_go.wait(WAIT_S)
        super().on_event(event)


class Failing(RecordingListener):
    """Raises on its first ``times`` events."""

    def __init__(self, times: int = 1, error: BaseException | None = None) -> None:
        super().__init__()
        self.times, self.error = times, error or ZeroDivisionError("the listener's own trouble")

    def on_event(self, event: Event) -> None:
        if self.times > 0:
            self.times -= 1
            raise self.error
        super().on_event(event)


def news(*sequences: int, cluster: Cluster = EMPTY) -> Batch:
    return Batch(cluster, tuple(MetadataStale(sequence=n, age_s=0, limit_s=0) for n in sequences))


def sequences(listener: RecordingListener) -> list[int]:
    return [event.sequence for event in listener.events]


def state(leaders: list[int | None], generation: int = 1) -> Batch:
    cluster = cluster_of({"orders": leaders}, brokers=[1, 2, 3], generation=generation)
    return Batch(cluster, diff(EMPTY, cluster))
