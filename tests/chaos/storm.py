"""Carries a plan out: begins faults, ends them, lets topics grow and be made anew, and has all recover."""

import json
import subprocess
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from attrs import asdict, define, field

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.disturbing import (
    DISTURB,
    Do,
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
from tests.observe_kit import CLI

READ_LIMIT_S: Final = 60.0
_KPE_LIMIT_S: Final = 60.0
TOPICS: Final = {**FIXED, **{topic: least for topic, (least, _) in SIZES.items()}}
"""With how many partitions each topic begins."""
REPLICATED: Final = {"min.insync.replicas": "2"}
LOOSE: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


def _nothing() -> None:
    """What ends a fault that is over by itself."""


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
    _to_undo: list[Do] = field(factory=list)
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
            begin, end = self._fault(step)
            begin()
            time.sleep(step.lasts)
            end()
        except Exception as failure:  # noqa: BLE001 - faults get in each other's way; all recovers afterwards
            error = f"{type(failure).__name__}: {str(failure).splitlines()[0][:160]}"
        with self._lock:
            self._busy -= step.claims
        self.note(step, began, error)

    def _fault(self, step: Step) -> tuple[Do, Do]:
        """Return what begins a fault, and what ends it."""
        cluster, target, value = self.cluster, step.target, step.value
        match KINDS[step.kind].domain:
            case "link" | "between":
                link = cluster.link(*map(int, target.split("-")))
                return partial(DISTURB[step.kind], link, value), link.heal
            case "disk":
                slow = partial(cluster.slow_disk, int(target))
                return partial(slow, value), partial(slow, 0)
            case "broker" if step.kind != "stutter":
                return down(cluster, step.kind, int(target))
        return self._other_fault(step)

    def _other_fault(self, step: Step) -> tuple[Do, Do]:
        cluster, fleet, target, value = self.cluster, self.fleet, step.target, step.value
        begin: Do = partial(self._at_once, step)
        end: Do = _nothing
        match step.kind:
            case "kill_process":
                begin, end = partial(fleet.kill, target), partial(fleet.start, target)
            case "freeze_process":
                begin, end = partial(fleet.suspend, target), partial(fleet.resume, target)
            case "freeze_controller":
                active = cluster.active_controller or cluster.controllers[0]
                begin, end = down(cluster, "freeze", active)
            case "quota":
                limit = partial(cluster.quota, client_id=target)
                begin, end = self._for_a_while(partial(limit, producer_bytes_per_s=value), limit)
            case "min_isr":
                config = partial(cluster.set_config, topic=target)
                wanted = {"min.insync.replicas": f"{value:.0f}"}
                begin, end = self._for_a_while(partial(config, wanted), partial(config, REPLICATED))
            case "target_down":
                begin, end = partial(self.manager.answer, int(value)), partial(self.manager.answer, 204)
        return begin, end

    def _for_a_while(self, change: Do, undo: Do) -> tuple[Do, Do]:
        """Change a setting. It outlives brokers: what can't be undone in a storm is undone in the calm."""

        def begin() -> None:
            self._to_undo.append(undo)
            change()

        def end() -> None:
            undo()
            self._to_undo.remove(undo)

        return begin, end

    def _stutter(self, step: Step) -> None:
        ends = time.monotonic() + step.lasts
        while time.monotonic() < ends:
            self.cluster.freeze(int(step.target))
            time.sleep(step.value)
            self.cluster.thaw(int(step.target))
            time.sleep(0.1)

    def _at_once(self, step: Step) -> None:
        match step.kind:
            case "stutter":
                self._stutter(step)
            case "rolling_restart":
                self.cluster.rolling_restart()
            case "fail_over":
                self.cluster.fail_over_controller()
            case "elect" | "elect_unclean":
                self.cluster.elect(step.target, unclean=step.kind == "elect_unclean")
            case "grow" if step.target == "gated":
                words = f"change request --topic gated --to {step.value:.0f} --gate --execute --yes"
                self.kpe(*words.split(), "--deadline", "3m")
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

    def kpe(self, *words: str) -> None:
        """Type what an operator would type.

        Raises:
            KitError: it failed.
        """
        command = [*CLI, *words, "-b", self.fleet.bootstrap]
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
            for topic in TOPICS.keys() - self.created_at.keys():  # its re-creation was cut short
                if not self.cluster.leaders(topic):
                    self.create(topic, TOPICS[topic])
                self.created_at.setdefault(topic, time.time())
            while self._to_undo:
                self._to_undo[-1]()
                self._to_undo.pop()
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
