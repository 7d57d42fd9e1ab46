"""Two observers: killed, frozen, full, blind, stuck, their clocks set, their target dead; and brokers die.

::

    python -m tests.chaos.observers --seconds 3600 --seed 1

2,000 partitions on three brokers, each with one replica, so what is down is exactly what was killed. The sink
is a webhook. Who decides knows nothing of our code but what came to it: every outage that lasted must have
been told as opened, and as closed; none that did not happen, and none that was over before its hold-down;
none twice, under one id or two; no two bodies under one id.
Exit codes: 0 all of it held; 1 something did not; it is listed with the seed.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import combinations, pairwise
from pathlib import Path

from attrs import define, field

from kafka_partition_events.testing import KafkaCluster
from tests.chaos.disturbing import say
from tests.http_receiver import Receiver
from tests.observe_kit import Observer, election, pager

HOLD_DOWN_S = 20.0
LASTS_S = (70.0, 100.0)
"""An outage that must be told, whoever of the two is ill meanwhile."""
BLIP_S = 0.0
"""What the killed broker waits before it is started again; that takes some ten seconds. On a busy machine it
may take more than a hold-down: then it may be told, and need not."""
TOPICS, PARTITIONS = 4, 500
LATE_S = 100.0
"""By how much a page may come after the end of what it tells: its target was dead, or an observer frozen."""
HAND_OVER_S = 30.0
"""For how long after it was told by one observer the other may tell it again: what the first has delivered it
passes over but for a margin, and what it opened meanwhile under an id of its own it closes at once."""
SETTLE_S = 660.0
"""What has flapped is over when it has been stable for ten minutes."""


@define
class Outage:
    """A broker that was killed, by the machine's clock."""

    broker: int
    down_at: float
    up_at: float = 0.0
    must_be_told: bool = True


@define
class Run:
    """What happened, and to whom."""

    cluster: KafkaCluster
    observers: list[Observer]
    receiver: Receiver
    dice: random.Random
    ends_at: float
    outages: list[Outage] = field(factory=list)
    done: Counter[str] = field(factory=Counter)

    def left(self) -> float:
        return self.ends_at - time.time()

    # -- brokers -------------------------------------------------------------------------------------

    def kill_brokers(self) -> None:
        while self.left() > LASTS_S[1] + 60:
            lasts = self.dice.uniform(*LASTS_S) if self.dice.random() < 0.6 else BLIP_S
            outage = Outage(self.dice.choice(self.cluster.brokers), time.time(), must_be_told=lasts > 0)
            say(f"broker {outage.broker} dies for {lasts:.0f} s")
            self.cluster.kill(outage.broker)
            self.outages.append(outage)
            time.sleep(lasts)
            self.cluster.restart(outage.broker)
            outage.up_at = time.time()
            say(f"broker {outage.broker} is back after {outage.up_at - outage.down_at:.0f} s")
            time.sleep(self.dice.uniform(25, 60))

    # -- observers: one of them is ill at a time -----------------------------------------------------

    def torment_observers(self) -> None:
        torments = [
            self.kill, self.freeze, self.fill, self.illness("blind"), self.illness("stuck"), self.die,
            self.set_clock, self.silence_target,
        ]  # fmt: skip
        while self.left() > 90:
            torment, victim = self.dice.choice(torments), self.dice.choice(self.observers)
            name = getattr(torment, "__name__", "illness")
            say(f"{victim.config.stem}: {name}")
            self.done[name] += 1
            torment(victim)
            say(f"{victim.config.stem}: {name} is over")
            time.sleep(self.dice.uniform(15, 40))

    def kill(self, victim: Observer) -> None:
        victim.kill()
        time.sleep(self.dice.uniform(1, 30))
        victim.start(MODULE)

    def freeze(self, victim: Observer) -> None:
        assert victim.process is not None
        victim.process.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(2, 40))
        victim.process.send_signal(signal.SIGCONT)

    def fill(self, victim: Observer) -> None:
        victim.fall_ill("full")
        time.sleep(self.dice.uniform(10, 40))
        victim.recover()

    def illness(self, name: str) -> Callable[[Observer], None]:
        def be_ill(victim: Observer) -> None:
            victim.fall_ill(name)
            time.sleep(self.dice.uniform(10, 40))
            victim.recover()

        be_ill.__name__ = name
        return be_ill

    def die(self, victim: Observer) -> None:
        """End the thread of the incidents; then whoever watches /livez starts the process anew."""
        victim.fall_ill("dead")
        time.sleep(self.dice.uniform(10, 30))
        victim.recover()
        victim.kill()
        victim.start(MODULE)

    def set_clock(self, victim: Observer) -> None:
        step = self.dice.choice([-3600, -300, 300, 3600, 90_000, 8 * 86_400])
        victim.clock.write_text(str(step))
        time.sleep(self.dice.choice([1, 30, 400]))
        victim.clock.unlink()

    def silence_target(self, _victim: Observer) -> None:
        self.receiver.answer(self.dice.choice([500, 503, 401]))
        time.sleep(self.dice.uniform(5, 40))
        self.receiver.answer(204)


MODULE = "tests.sick_observer"


@define
class Page:
    """An incident as its receiver saw it: when it was opened and closed, by the clock of the receiver."""

    broker: int
    opened_at: float
    closed_at: float = float("inf")


def verdict(run: Run) -> Iterator[str]:
    """Yield what did not hold.

    What came is judged by when it came: the moments in it are those of an observer whose clock was set. A
    broker that goes down again and again is one incident, which stays open: that tells each of its outages.
    """
    bodies: dict[str, set[bytes]] = defaultdict(set)
    pages: dict[str, Page] = {}
    openings: dict[str, list[float]] = defaultdict(list)
    again = 0
    for request in run.receiver.requests:
        event = json.loads(request.body)
        data, name = event["data"], ".".join(event["type"].split(".")[-3:-1])
        again += event["id"] in bodies
        if request.taken and name == "incident.opened":
            openings[data["incident_id"]].append(request.at)
        bodies[event["id"]].add(json.dumps(data, sort_keys=True).encode())
        if request.taken and "broker" in (data.get("cause") or {}):
            if name == "incident.opened":
                pages.setdefault(data["incident_id"], Page(data["cause"]["broker"], request.at))
            elif name == "incident.closed" and data["incident_id"] in pages:
                page = pages[data["incident_id"]]
                page.closed_at = min(page.closed_at, request.at)
    yield from (f"{id_}: {len(found)} bodies" for id_, found in bodies.items() if len(found) > 1)
    yield from (
        f"{id_}, broker {page.broker}: never closed"
        for id_, page in pages.items()
        if page.closed_at == float("inf")
    )
    yield from _untold(run, list(pages.values()))
    yield from _false(run, pages)
    yield from doubles(pages, openings)
    lasting = sum(outage.must_be_told for outage in run.outages)
    say(
        f"{len(run.outages)} outages, {lasting} to be told; {len(pages)} incidents, {len(bodies)} ids came, "
        f"{again} of them again; {dict(run.done)}"
    )


def _untold(run: Run, pages: list[Page]) -> Iterator[str]:
    for outage in run.outages:
        of_it = [
            page
            for page in pages
            if page.broker == outage.broker
            and page.opened_at <= outage.up_at + LATE_S
            and page.closed_at >= outage.down_at
        ]
        if outage.must_be_told and not of_it:
            yield f"{outage}: not told"
        elif of_it and (waited := min(page.opened_at for page in of_it) - outage.down_at) > 0:
            say(f"broker {outage.broker}: told after {waited:.0f} s")


def doubles(pages: Mapping[str, Page], openings: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yield what was told twice: again under one id, or under another while the first one was open."""
    for id_, times in openings.items():
        for earlier, later in pairwise(sorted(times)):
            if later - earlier > HAND_OVER_S:
                yield f"{id_}: opened again after {later - earlier:.0f} s"
    in_order = sorted(pages.items(), key=lambda item: item[1].opened_at)
    for (one, first), (other, second) in combinations(in_order, 2):
        both = min(first.closed_at, second.closed_at) - second.opened_at
        if first.broker == second.broker and both > HAND_OVER_S:
            yield f"broker {first.broker}: {one} and {other} were open at once for {both:.0f} s"


def _false(run: Run, pages: dict[str, Page]) -> Iterator[str]:
    for id_, page in pages.items():
        of_it = [
            outage
            for outage in run.outages
            if outage.broker == page.broker and outage.down_at <= page.opened_at <= outage.up_at + LATE_S
        ]
        if not any(outage.up_at - outage.down_at > HOLD_DOWN_S for outage in of_it):
            was = "back too soon" if of_it else "not down"
            yield f"{id_}: told of broker {page.broker}, which was {was}"


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        cluster = ending.enter_context(KafkaCluster(brokers=3))
        receiver = ending.enter_context(Receiver(204))
        brokers = cluster.brokers
        for number in range(TOPICS):
            places = {p: [brokers[p % len(brokers)]] for p in range(PARTITIONS)}
            cluster.create_topic(f"orders-{number}", assignment=places)
        config = pager(receiver.url, int(HOLD_DOWN_S)) + election("chaos")
        observers = [Observer(directory, cluster, name, config) for name in ("first", "second")]
        for observer in observers:
            ending.callback(observer.kill)
            observer.start(MODULE).ready()
        observers[0].wait_until("elected", lambda: any(each.feeds() for each in observers))
        run = Run(cluster, observers, receiver, random.Random(options.seed), time.time() + options.seconds)
        say(f"seed {options.seed}")
        tormentor = threading.Thread(target=run.torment_observers)
        tormentor.start()
        run.kill_brokers()
        tormentor.join()
        time.sleep(SETTLE_S)
        found = list(verdict(run))
        for line in found:
            say(f"seed {options.seed}: {line}")
        if found:
            kept = Path(tempfile.mkdtemp(prefix="kpe-chaos-"))
            for observer in observers:
                for file in (observer.log, observer.outbox):
                    (kept / file.name).write_bytes(file.read_bytes())
            came = (f"{r.at:.1f} {r.taken} {r.body.decode()}\n" for r in receiver.requests)
            (kept / "requests.txt").write_text("".join(came))
            say(f"logs, outboxes and what came: {kept}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
