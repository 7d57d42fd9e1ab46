"""The control topics, the tracker, and what it is asked for."""

import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from benchmarks.errors import BenchError
from benchmarks.gate.litter import litter
from benchmarks.gate.story import Changes
from kafka_partition_events.control.operate.topic_admin import ControlTopicAdmin
from kafka_partition_events.control.protocol.codec import encode, key_of
from kafka_partition_events.control.protocol.records import Command
from kafka_partition_events.control.protocol.spec import Spec
from kafka_partition_events.control.protocol.topics import control_topics
from kafka_partition_events.control.protocol.vocabulary import Verb
from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess, tail

_LIMIT_S = 60.0
_LITTER_S = 0.05
_REQUESTED_BY = "alice"


class Control:
    """Control topics and a tracker for the topics of a cluster.

    Attributes:
        prefix: What the names of the control topics begin with now.
        changes: What the tracker writes.
    """

    def __init__(self, data: KafkaCluster) -> None:
        self.bootstrap_servers = data.bootstrap_servers
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-gate-tracker-")
        self._begun = self._trackers = 0

    def __enter__(self) -> Self:
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "acks": "all", "log_level": 2}
        )
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._scratch.cleanup()

    def begin(self) -> None:
        """Begin with new control topics: what was asked of other topics before does not matter."""
        if self._begun:
            self._end()
        self._begun += 1
        self.prefix = f"kpe{self._begun}."
        admin = ControlTopicAdmin({"bootstrap.servers": self.bootstrap_servers})
        admin.create(control_topics(self.prefix))
        admin.close()
        self.changes = Changes(self.bootstrap_servers, self.prefix)
        self.start_tracker()

    def _end(self) -> None:
        self.kill_tracker()
        self.changes.close()

    def explain(self, error: BenchError) -> BenchError:
        """Return the error with what is known of the changes and the end of what the tracker has logged."""
        for topic, change in self.changes.by_topic.items():
            if not change.state.final:
                error.add_note(
                    f"{topic}: {change.state}, opened by {change.opened_by}, {change.totals}, "
                    f"uncovered {change.uncovered_groups}, {change.unverified}, {change.detail}"
                )
        error.add_note(tail(self._log, 120))
        return error

    # -- the tracker ---------------------------------------------------------------------------------

    def start_tracker(self) -> None:
        self._trackers += 1
        self._log = Path(self._scratch.name) / f"tracker-{self._trackers}.log"
        (port,) = free_ports(1)
        command = [sys.executable, "-m", "kafka_partition_events.cli", "tracker"]
        command += ["-b", self.bootstrap_servers, "--prefix", self.prefix, "--listen", f"{HOST}:{port}"]
        self._tracker = SupervisedProcess(command, log=self._log)

    def kill_tracker(self) -> None:
        self._tracker.kill()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the tracker's machine pause for the time of a ``with``."""
        self._tracker.send_signal(signal.SIGSTOP)
        yield
        self._tracker.send_signal(signal.SIGCONT)

    def check(self) -> None:
        """Raise a `BenchError` if the tracker has ended by itself, and start another one."""
        if not self._tracker.alive:
            error = self.explain(BenchError("the tracker has ended by itself"))
            self.start_tracker()
            raise error

    # -- commands ------------------------------------------------------------------------------------

    def request(self, specs: Sequence[Spec]) -> None:
        """Request changes, each under its topic's name, and wait until the tracker knows them."""
        self._write(
            "commands",
            [
                Command(change_id=spec.topic or "", verb=Verb.REQUEST, actor=_REQUESTED_BY, spec=spec)
                for spec in specs
            ],
        )
        wanted = {spec.topic for spec in specs}
        deadline = time.monotonic() + _LIMIT_S
        while not wanted <= self.changes.by_topic.keys():
            if time.monotonic() > deadline:
                raise self.explain(BenchError("the tracker does not answer"))
            self.changes.look()
        for change in (self.changes.by_topic[topic] for topic in wanted):
            if change.state.final:
                raise BenchError(f"the request is {change.state}: {change.detail}")

    def cancel(self, topics: Collection[str]) -> None:
        """Take the changes back, which must not open a gate."""
        self._write("commands", [Command(change_id=t, verb=Verb.CANCEL, actor="mallory") for t in topics])

    @contextmanager
    def littered(self) -> Iterator[None]:
        """Write to all control topics what nobody can use, for the time of a ``with``."""
        over = threading.Event()
        thread = threading.Thread(target=self._litter, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _litter(self, over: threading.Event) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "acks": "all", "log_level": 2})
        rng = random.Random(self._begun)
        topics = [topic.name for topic in control_topics(self.prefix)]
        while not over.wait(_LITTER_S):
            for topic in topics:
                producer.produce(topic, *litter(rng, [*self.changes.by_topic]))
            producer.poll(0)
        producer.flush(_LIMIT_S)

    def _write(self, topic: str, records: Sequence[Command]) -> None:
        for record in records:
            self._producer.produce(f"{self.prefix}{topic}", encode(record), key_of(record))
        if self._producer.flush(_LIMIT_S):
            raise BenchError("the control topics take no commands")
