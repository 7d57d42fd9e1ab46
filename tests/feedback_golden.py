"""Golden histories of the failure detector: one digest for each simulated world and seed.

``python -m tests.feedback_golden`` compares them with ``tests/spec/feedback_golden.json`` and names the
worlds that differ; with ``--write`` it replaces them. A change of structure must leave every digest as it is;
a change of the rule says in its commit which worlds it changed and why.

A digest is made of what happened, in numbers and words of Kafka (suspicions, clearances, what was avoided and
when, probes, records by broker and second), so it does not depend on how classes are called.
"""

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kafka_partition_events.metadata.events import BrokerCleared, BrokerSuspected
from tests.feedback_simulator import (
    Dead,
    Frozen,
    Outcome,
    Pause,
    Refused,
    Restarted,
    Simulation,
    Slow,
    Throttled,
    noisy,
    once,
    usual,
)

DIGESTS = Path(__file__).parent / "spec" / "feedback_golden.json"
SEEDS = 20
"""How many of each world are kept. To prove a change of structure play more: ``--seeds 200 --write`` in a
checkout of the commit before, then the same without ``--write`` with its file."""
_DIGITS = 12
_A_LINE = 10


def _three(seed: int, **words: Any) -> Simulation:
    """Three brokers, without replicas."""
    usually: dict[str, Any] = {"seed": seed, "seconds": 6.0, "rate": 1000.0}
    return Simulation(**usually | words)


def _six(seed: int, **words: Any) -> Simulation:
    """Six brokers, three replicas, ``acks=all``, two ways."""
    usually: dict[str, Any] = {
        "seed": seed, "brokers": 6, "partitions": 24, "replication": 3, "ways": 2, "rate": 400.0,
        "latency": usual(0.001), "time_out": 5.0, "seconds": 8.0,
    }  # fmt: skip
    return Simulation(**usually | words)


def _stops(seed: int, seconds: float, longest: float, rate: float = 1.0) -> list[Pause]:
    rng, stops, at = random.Random(seed), list[Pause](), 0.5
    while (at := at + rng.expovariate(rate)) < seconds:
        stops.append(Pause(at=at, seconds=rng.uniform(0.005, longest), whole_process=rng.random() < 0.5))
    return stops


def _busy(seed: int) -> Simulation:
    """A machine that something else uses, while a broker stands still again and again."""
    return _six(
        seed, ways=3, rate=800.0, faults={3: Frozen(since=2, until=6)}, pauses=_stops(seed, 8, 0.06, 2),
        latency=noisy(0.9, 0, median=0.006), copying=noisy(0.9, 0, median=0.003),
    )  # fmt: skip


WORLDS: dict[str, Callable[[int], Simulation]] = {
    "healthy": lambda s: _three(s, seconds=4.0),
    "brown-out": lambda s: _three(s, faults={1: Frozen(since=1.5, until=4)}),
    "connection lost": lambda s: _three(s, faults={1: Dead(since=1.5)}),
    "host lost": lambda s: _three(s, faults={1: Dead(since=1.5, told_after=None)}),
    "slow for good": lambda s: _three(s, seconds=8.0, faults={1: Slow(since=1.5)}),
    "noisy": lambda s: _three(s, latency=noisy()),
    "our own stops": lambda s: _three(s, pauses=_stops(s, 6, 0.5)),
    "six: frozen": lambda s: _six(s, faults={2: once(1.5, 4)}),
    "six: frozen in turns": lambda s: _six(s, faults={1: once(1.5, 1), 3: once(3, 1), 5: once(4.5, 1)}),
    "six: dead": lambda s: _six(s, faults={2: Dead(since=1.5)}, session=4.0),
    "six: as a replica": lambda s: _six(s, faults={2: once(1.5, 4, "replica")}, ways=3, keyed=0.3),
    "six: its clients": lambda s: _six(s, faults={2: once(1.5, 4, "clients")}, ways=1),
    "six: throttled": lambda s: _six(s, seconds=5.0, rate=1500.0, faults={2: Throttled(since=1.5)}),
    "six: min ISR": lambda s: _six(s, refused=[Refused(partition=3, since=1.5, until=5)]),
    "six: rolling restart": lambda s: _six(
        s, seconds=12.0, rate=250.0, faults={b: Restarted(since=2 * b, seconds=1.5) for b in range(1, 5)}
    ),
    "six: rarely written": lambda s: _six(s, seconds=20.0, rate=30.0, faults={2: once(2.5, 10)}),
    "six: all need it": lambda s: _six(s, brokers=3, partitions=6, faults={2: once(1.5, 3)}),
    "six: busy": _busy,
}


def digest(outcome: Outcome) -> str:
    """Return what identifies a history."""
    announced: list[tuple[float, BrokerSuspected | BrokerCleared]] = [*outcome.suspected, *outcome.cleared]
    announced.sort(key=lambda moment: moment[0])
    history = [
        [_told(at, event) for at, event in announced],
        [
            [
                round(at, 6),
                way,
                *map(sorted, (a.leaders, a.replicas, a.blocked, a.down)),
                sorted(a.partitions),
            ]
            for at, way, a in outcome.avoided
        ],
        [outcome.records, outcome.late, outcome.failed, outcome.probes],
        sorted([*key, times] for key, times in outcome.by_broker_and_second.items()),
        sorted([broker, round(seconds, 6)] for broker, seconds in outcome.excluded_s.items()),
    ]
    return hashlib.sha256(json.dumps(history).encode()).hexdigest()[:_DIGITS]


def _told(at: float, event: BrokerSuspected | BrokerCleared) -> list[Any]:
    usual_ms = None if event.usual_ms is None else round(event.usual_ms, 3)
    words = [round(at, 6), event.broker, str(event.reason), usual_ms]
    if isinstance(event, BrokerSuspected):
        waiting = [list(tp) for tp in event.waiting]
        return [*words, str(event.role), event.outstanding, round(event.silence_ms, 3), waiting]
    return [*words, event.probes, round(event.suspected_ms, 3)]


def stored() -> dict[str, list[str]]:
    """Return the digests that are kept, by world: one for each seed from 0 on."""
    lines: dict[str, list[str]] = json.loads(DIGESTS.read_text())
    return {world: " ".join(digests).split() for world, digests in lines.items()}


def write(digests: dict[str, list[str]]) -> None:
    lines = {
        world: [" ".join(those[at : at + _A_LINE]) for at in range(0, len(those), _A_LINE)]
        for world, those in digests.items()
    }
    DIGESTS.write_text(json.dumps(lines, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("worlds", nargs="*", help="all, if none is named")
    chosen = parser.parse_args(arguments)
    known = stored() if DIGESTS.exists() else {}
    different = 0
    for world in chosen.worlds or WORLDS:
        got = [digest(WORLDS[world](seed).run()) for seed in range(chosen.seeds)]
        wrong = [
            seed for seed, it in enumerate(got) if it != (known.get(world, []) + [""] * chosen.seeds)[seed]
        ]
        sys.stdout.write(f"{world}: {len(wrong)} of {chosen.seeds} differ {wrong[:5]}\n")
        sys.stdout.flush()
        different += len(wrong)
        known[world] = got
    if chosen.write:
        write(known)
    return int(different > 0 and not chosen.write)


if __name__ == "__main__":
    sys.exit(main())
