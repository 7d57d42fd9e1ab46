"""What happens, in which order: each step is trouble, then time to watch what it does."""

import time
from collections.abc import Callable, Iterator

from attrs import frozen

from kafka_partition_events.cli.common.errors import CliError
from kafka_partition_events.demo.display import Display
from kafka_partition_events.demo.stage import BROKERS, Stage
from kafka_partition_events.demo.stored import count_records
from kafka_partition_events.demo.traffic import Traffic

ORDERS, PAYMENTS, RETURNS, EVENTS = "orders", "payments", "returns", "kpe.events"
"""Topics: one that grows, one that stays, one that is created anew, and the library's own events."""

ORDERS_BEFORE, ORDERS_AFTER, ORDERS_CAP = 6, 12, 9
RETURNS_BEFORE, RETURNS_AFTER = 6, 3
_VICTIM = BROKERS[1]
_LOOK_S = 0.25


def create_topics(stage: Stage) -> None:
    """Create the topics. Those with one replica go offline with their broker; the events must survive it."""
    stage.create(ORDERS, ORDERS_BEFORE, 1)
    stage.create(PAYMENTS, 6, 1)
    stage.create(RETURNS, RETURNS_BEFORE, 3)
    stage.create(EVENTS, 1, 3)


@frozen
class _Step:
    title: str
    act: Callable[[], None]
    lasts: float
    """How many of the user's quiet stretches to watch afterwards."""


class Scenario:
    """Plays the steps."""

    def __init__(self, stage: Stage, traffics: list[Traffic], display: Display, stretch: float) -> None:
        """Make it.

        Args:
            stage: Where to play.
            traffics: Who writes meanwhile; a writer that ends early ends the demo.
            display: What to tell.
            stretch: Seconds of one quiet stretch.
        """
        self.returns_counted: int | None = None
        """How many records the topic to be deleted held just before; None on the mock cluster."""
        self._stage = stage
        self._traffics = traffics
        self._display = display
        self._stretch = stretch

    def play(self) -> None:
        """Play all steps.

        Raises:
            CliError: a producer's thread has ended.
            KitError: the cluster did not do what it was asked.
        """
        for step in self._steps():
            self._display.phase(step.title)
            step.act()
            self._watch(step.lasts * self._stretch)

    def _steps(self) -> Iterator[_Step]:
        stage, victim = self._stage, _VICTIM
        yield _Step("all is well", lambda: None, 1)
        if stage.real:
            yield _Step(
                f"{ORDERS} grows from {ORDERS_BEFORE} to {ORDERS_AFTER} partitions; "
                f"its producer's budget affords {ORDERS_CAP}",
                lambda: stage.grow(ORDERS, ORDERS_AFTER),
                1,
            )
        else:
            yield _Step(f"skipped: the mock cluster can't grow {ORDERS}", lambda: None, 0)
        yield _Step(f"broker {victim} dies (SIGKILL)", lambda: stage.kill(victim), 1.5)
        yield _Step(f"broker {victim} starts again", lambda: stage.restart(victim), 1)
        yield _Step(
            f"{RETURNS} is deleted and created anew with {RETURNS_AFTER} partitions", self._recreate, 1
        )

    def _recreate(self) -> None:
        if self._stage.real:
            self.returns_counted = count_records(self._stage.bootstrap_servers, RETURNS)
        self._stage.delete(RETURNS)
        self._stage.create(RETURNS, RETURNS_AFTER, 3)

    def _watch(self, seconds: float) -> None:
        for _ in range(max(1, round(seconds / _LOOK_S))):
            time.sleep(_LOOK_S)
            self._display.tick()
            for traffic in self._traffics:
                if traffic.error is not None:
                    raise CliError(f"the {traffic.writer.name} producer ended: {traffic.error!r}")
