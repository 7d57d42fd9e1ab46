"""The scenes, played on real brokers. One fault at a time, the same for everybody."""

import time
from collections.abc import Sequence
from typing import Final

from kafka_partition_events.demo.figures import figures_of
from kafka_partition_events.demo.loads import Load
from kafka_partition_events.demo.plan import (
    FROZEN_S,
    LATE_AT_REST,
    LEAST_RATE,
    SCENES,
    SETTLED_S,
    SLOWER_LIMIT_S,
    THAWED_S,
    VICTIMS,
    WARM_UP_LIMIT_S,
    WARM_UP_S,
)
from kafka_partition_events.demo.progress import DemoProgress
from kafka_partition_events.testing import KafkaCluster

_NS = 1_000_000_000
_STEP_S = 0.1
_BREATH_S: Final = 0.5
"""How long a scene goes on before its deed, so that the numbers before it are to be seen."""


class Play:
    """Plays the scenes, one after the other."""

    def __init__(
        self, cluster: KafkaCluster, loads: Sequence[Load], progress: DemoProgress, seconds: float, rate: int
    ) -> None:
        """Make it.

        Args:
            cluster: What it is done to.
            loads: Who writes meanwhile; one that ends early ends the demo.
            progress: Where it is noted.
            seconds: How long all scenes take together.
            rate: How many records a second each sends; less where the machine is too slow for that.
        """
        self._cluster = cluster
        self._loads = loads
        self._progress = progress
        self._seconds = seconds
        self.rate = rate

    def run(self) -> None:
        """Play all scenes, and wait until every record has been answered.

        Raises:
            CliError: a producer's process has ended.
            KitError: the cluster did not do what it was asked.
        """
        self._warm_up()
        acts = {
            "calm": self._rest_until,
            "brown-out": self._brown_out,
            "kill": self._kill,
            "back": self._restart,
            "keys": self._kill_with_keys,
        }
        for scene in SCENES:
            with self._progress.playing(scene) as began:
                acts[scene.name](began + round(scene.share * self._seconds * _NS))
        for load in self._loads:
            load.order("end")
        for load in self._loads:
            load.await_end()

    def _warm_up(self) -> None:
        """Let brokers that have just started compile themselves, and find a load that they can carry."""
        limit = WARM_UP_LIMIT_S
        while not self._settles(limit):
            if self.rate < 2 * LEAST_RATE:
                self._progress.note("this machine is busy: records are late before anything is done", "harm")
                return
            self.rate, limit = self.rate // 2, SLOWER_LIMIT_S
            self._progress.note(
                f"this machine is too slow for that load: from now on {self.rate} records/s of each producer"
            )

    def _settles(self, limit_s: int) -> bool:
        """Have all write at the rate, until everybody is answered as usual or the time is over."""
        begin = time.monotonic_ns() + _NS // 4
        for load in self._loads:
            load.order(f"begin {begin} {self.rate}")
        for seconds in range(WARM_UP_S, limit_s):
            self._rest_until(begin + seconds * _NS)
            now = time.monotonic_ns()
            recent = [load.tape.rows(load.tape.first_since(now - SETTLED_S * _NS)) for load in self._loads]
            # Who hangs in `send` has no row at all.
            if all(rows and figures_of(rows, now).late_share <= LATE_AT_REST for rows in map(tuple, recent)):
                return True
        return False

    def _brown_out(self, end_ns: int) -> None:
        broker = VICTIMS["brown-out"]
        self._progress.did(
            broker, f"kill -STOP broker {broker} for {FROZEN_S} s, kill -CONT for {THAWED_S} s, and again"
        )
        step = time.monotonic_ns()
        try:
            while step < end_ns:
                self._cluster.freeze(broker)
                self._rest_until(step + round(FROZEN_S * _NS))
                self._cluster.thaw(broker)
                step += round((FROZEN_S + THAWED_S) * _NS)
                self._rest_until(step)
        finally:
            self._cluster.thaw(broker)

    def _kill(self, end_ns: int) -> None:
        self._kill_broker(VICTIMS["kill"], end_ns)

    def _restart(self, end_ns: int) -> None:
        broker = VICTIMS["back"]
        self._cluster.restart(broker)
        self._progress.note(f"broker {broker} is in sync")
        for load in self._loads:
            self._cluster.elect(load.part.topic)
        self._progress.note(
            f"broker {broker} leads its partitions again (elected, as Kafka does every 5 min)"
        )
        self._rest_until(end_ns)

    def _kill_with_keys(self, end_ns: int) -> None:
        for load in self._loads:
            load.order("keys")
        self._kill_broker(VICTIMS["keys"], end_ns)

    def _kill_broker(self, broker: int, end_ns: int) -> None:
        self._rest_until(time.monotonic_ns() + round(_BREATH_S * _NS))
        self._progress.did(broker, f"kill -9 broker {broker}")
        self._cluster.kill(broker)
        self._rest_until(end_ns)

    def _rest_until(self, moment_ns: int) -> None:
        while (left := (moment_ns - time.monotonic_ns()) / _NS) > 0:
            time.sleep(min(_STEP_S, left))
            for load in self._loads:
                load.check()
