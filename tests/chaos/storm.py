"""Carries a plan out: begins faults, ends them, lets topics grow and be made anew, and has all recover."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from attrs import asdict, define, field

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.disturbing import (
    DISTURB,
    await_recovery,
    bring_back,
    down,
    hides_records,
    out_of_sync,
    say,
)
from tests.chaos.fleet import Fleet
from tests.chaos.plan import FIXED, KINDS, SIZES, Step
from tests.chaos.reader import read_life
from tests.http_receiver import Receiver

READ_LIMIT_S: Final = 60.0
_KPE_LIMIT_S: Final = 60.0
TOPICS: Final = {**FIXED, **{topic: least for topic, (least, _) in SIZES.items()}}
"""With how many partitions each topic begins."""
REPLICATED: Final = {"min.insync.replicas": "2"}
LOOSE: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


@define
class World:
    """The cluster, the processes, and what happens to both.

    Attributes:
        created_at: When each topic was there for sure; of the life that it has now.
    """

    cluster: KafkaCluster
    fleet: Fleet
    manager: Receiver
    directory: Path
    created_at: dict[str, float] = field(factory=dict)
    _lives: int = 0
    _busy: set[str] = field(factory=set)
    _to_undo: list[Callable[[], None]] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock)

    # -- a storm -------------------------------------------------------------------------------------

    def storm(self, steps: Sequence[Step], began: float) -> None:
        """Do the steps, each at its time after `began`, and return when all of them are over."""
        threads = []
        for step in steps:
            time.sleep(max(0.0, began + step.begin - time.time()))
            with self._lock:
                free = not step.claims & self._busy
                self._busy |= step.claims if free else set()
            if not free:  # a broker takes longer to return than the plan knows
                self.note(step, time.time(), "skipped: still busy")
                continue
            thread = threading.Thread(target=self._do, args=(step,))
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join()

    def _do(self, step: Step) -> None:
        began, error = time.time(), ""
        value = f" {step.value:g}" if step.value else ""
        say(f"{step.kind} {step.target}{value}" + (f" for {step.lasts:.0f} s" if step.lasts else ""))
        try:
            with self._fault(step):
                time.sleep(step.lasts)
        except Exception as failure:  # noqa: BLE001 - faults get in each other's way; all recovers afterwards
            error = f"{type(failure).__name__}: {str(failure).splitlines()[0][:160]}"
        with self._lock:
            self._busy -= step.claims
        self.note(step, began, error)

    @contextlib.contextmanager
    def _fault(self, step: Step) -> Iterator[None]:
        """Begin a fault, and end it; those that are over at once end before they yield."""
        match KINDS[step.kind].domain:
            case "broker" | "disk":
                yield from self._broker_fault(step, int(step.target))
            case "link" | "between":
                link = self.cluster.link(*map(int, step.target.split("-")))
                DISTURB[step.kind](link, step.value)
                yield
                link.heal()
            case "process":
                yield from self._process_fault(step)
            case _:
                yield from self._other_fault(step)

    def _other_fault(self, step: Step) -> Iterator[None]:
        cluster, target, value = self.cluster, step.target, step.value
        match step.kind:
            case "freeze_controller":
                active = cluster.active_controller or cluster.controllers[0]
                cluster.freeze(active)
                yield
                cluster.thaw(active)
            case "quota":
                limit = partial(cluster.quota, client_id=target)
                yield from self._for_a_while(partial(limit, producer_bytes_per_s=value), limit)
            case "min_isr":
                config = partial(cluster.set_config, topic=target)
                wanted = {"min.insync.replicas": f"{value:.0f}"}
                yield from self._for_a_while(partial(config, wanted), partial(config, REPLICATED))
            case "target_down":
                self.manager.answer(int(value))
                yield
                self.manager.answer(204)
            case _:
                self._at_once(step)
                yield

    def _for_a_while(self, change: Callable[[], None], undo: Callable[[], None]) -> Iterator[None]:
        """Change a setting. It outlives brokers: what can't be undone in a storm is undone in the calm."""
        self._to_undo.append(undo)
        change()
        yield
        undo()
        self._to_undo.remove(undo)

    def _broker_fault(self, step: Step, broker: int) -> Iterator[None]:
        cluster = self.cluster
        match step.kind:
            case "kill" | "stop" | "fill_disk" | "freeze":
                with down(cluster, step.kind, broker):
                    yield
            case "stutter":
                ends = time.monotonic() + step.lasts
                while time.monotonic() < ends:
                    cluster.freeze(broker)
                    time.sleep(step.value)
                    cluster.thaw(broker)
                    time.sleep(0.1)
                yield
            case "slow_disk":
                cluster.slow_disk(broker, step.value)
                yield
                cluster.slow_disk(broker, 0)

    def _process_fault(self, step: Step) -> Iterator[None]:
        if step.kind == "kill_process":
            self.fleet.kill(step.target)
            yield
            self.fleet.start(step.target)
        else:
            with self.fleet.suspended(step.target):
                yield

    def _at_once(self, step: Step) -> None:
        match step.kind:
            case "rolling_restart":
                self.cluster.rolling_restart()
            case "fail_over":
                self.cluster.fail_over_controller()
            case "elect" | "elect_unclean":
                self.cluster.elect(step.target, unclean=step.kind == "elect_unclean")
            case "grow" if step.target == "gated":
                self._request_growth(int(step.value))
            case "grow":
                self.cluster.grow_topic(step.target, int(step.value))
            case "recreate":
                self._recreate(step.target, int(step.value))

    # -- topics --------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic as it is to be, and remember when it was there."""
        replicas = 1 if topic == "single" else 2 if topic == "loose" else 3
        config = {} if topic == "single" else LOOSE if topic == "loose" else REPLICATED
        self.cluster.create_topic(topic, partitions, replicas, config)
        self.created_at[topic] = time.time()

    def _recreate(self, topic: str, partitions: int) -> None:
        were_hidden = hides_records(self.cluster, topic)
        life = self.read(topic, READ_LIMIT_S)  # else nobody could tell whether what it had is all there
        if were_hidden or hides_records(self.cluster, topic):
            life.unlink()
            raise KitError("too few replicas are in sync to read all that it has")
        self.created_at.pop(topic)
        self.cluster.delete_topic(topic)
        self.create(topic, partitions)

    def read(self, topic: str, limit: float) -> Path:
        """Write down what a topic has now; return where."""
        self._lives += 1
        path = self.directory / f"life-{self._lives}.rows"
        servers = self.cluster._running_addresses()  # brokers' own ports: no link disturbs the reader
        read_life(servers, topic, self.created_at[topic], path, limit)
        return path

    def _request_growth(self, partitions: int) -> None:
        words = f"change request --topic gated --to {partitions} --gate --execute --yes"
        self.kpe(*words.split(), "--deadline", "3m")

    def kpe(self, *words: str) -> None:
        """Type what an operator would type.

        Raises:
            KitError: it failed.
        """
        command = [sys.executable, "-m", "kafka_partition_events.cli", *words, "-b", self.fleet.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_KPE_LIMIT_S)
        if done.returncode:
            raise KitError(f"kpe {words[1]}: exit code {done.returncode}: {done.stderr.strip()[-160:]}")

    # -- calm ----------------------------------------------------------------------------------------

    def recover(self) -> None:
        """End whatever still disturbs, and wait until every replica is in sync.

        Raises:
            KitError: it is not within `RECOVERY_LIMIT_S`.
        """
        self.cluster.heal()
        for name in self.fleet.dead():
            self.note(Step(0.0, 0.0, "ended", name), self.fleet.started[name], "has ended by itself")
            self.fleet.start(name)
        await_recovery(self._wrong)

    def _wrong(self) -> str:
        """Set right what can be, and say what is still wrong."""
        try:
            bring_back(self.cluster)
            while self._to_undo:
                self._to_undo[-1]()
                self._to_undo.pop()
            for topic in TOPICS.keys() - self.created_at.keys():  # its re-creation was cut short
                with contextlib.suppress(KitError):
                    self.create(topic, TOPICS[topic])
                self.created_at.setdefault(topic, time.time())
            out = out_of_sync(self.cluster)
        except (KitError, OSError) as error:
            return str(error).splitlines()[0]
        return f"out of sync: {out[:5]}" if out else ""

    # -- telling -------------------------------------------------------------------------------------

    def note(self, step: Step, began: float, error: str) -> None:
        """Write down what was done."""
        entry = {**asdict(step), "began": round(began, 2), "ended": round(time.time(), 2), "error": error}
        with self._lock, (self.directory / "story.jsonl").open("a") as file:
            file.write(json.dumps(entry) + "\n")
        if error:
            say(f"  {step.kind} {step.target}: {error}")
