"""What has happened so far: the scenes write it, screens read it."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal

from kafka_partition_events.demo.plan import BROKERS, VICTIMS, Part, Scene
from kafka_partition_events.demo.story import METADATA, Notice, Played
from kafka_partition_events.demo.witness import Said

_NS: Final = 1_000_000_000
Tone = Literal["plain", "harm", "ours"]

_WHY: Final = {
    "silent": "does not answer",
    "slow": "is slow",
    "unreachable": "does not answer (connection lost)",
}


class DemoProgress:
    """Everything that is known so far. Thread-safe: lists only grow.

    Attributes:
        scenes: Those that are over.
        scene: The one that is on, and when it began (ns, monotonic); None before the first.
        deeds: The brokers that something was done to, and when (ns, monotonic).
        worst: The most partitions offline, and the fewest brokers listed, in the brown-out.
        on_note: Called with each note: how many seconds after the scene's beginning, and a line.
    """

    def __init__(self) -> None:
        """Begin."""
        self.on_note: Callable[[float, str, Tone], None] = lambda *_note: None
        self.scenes: list[Played] = []
        self.scene: tuple[Scene, int] | None = None
        self.deeds: list[tuple[int, int]] = []
        self.marks: list[Notice] = []
        self.worst = (0, BROKERS)
        self._lock = threading.Lock()

    @contextmanager
    def playing(self, scene: Scene) -> Iterator[int]:
        """Play a scene; gives when it begins (ns, monotonic)."""
        begin = time.monotonic_ns()
        with self._lock:
            self.scene = (scene, begin)
        yield begin
        self.scenes.append(
            Played(scene=scene, begin_ns=begin, end_ns=time.monotonic_ns(), broker=VICTIMS.get(scene.name))
        )

    def did(self, broker: int, text: str) -> None:
        """Note what was just done to a broker: from now on others may notice it."""
        self.deeds.append((broker, time.monotonic_ns()))
        self.note(text)

    def note(self, text: str, tone: Tone = "plain") -> None:
        """Pass a note on."""
        with self._lock:
            began = self.scene[1] if self.scene else time.monotonic_ns()
        self.on_note((time.monotonic_ns() - began) / _NS, text, tone)

    # -- what others say ---------------------------------------------------------------------------------

    def heard(self, part: Part, said: Mapping[str, Any]) -> None:
        """Take what a producer's process says."""
        match said["kind"]:
            case "suspected":
                self.marks.append(Notice(who=part.key, broker=said["broker"], at_ns=said["at"]))
                why = _WHY.get(said["why"], said["why"])
                self.note(f"{part.title}: avoids broker {said['broker']}, which {why}", "ours")
            case "trusted":
                broker = said["broker"]
                is_gone = said["why"] == "left"
                word = f"leaves broker {broker} to metadata" if is_gone else f"trusts broker {broker} again"
                self.note(f"{part.title}: {word}", "ours")

    def testified(self, at_ns: int, before: Said, now: Said) -> None:
        """Take what metadata says now."""
        if self.scene and self.scene[0].name == "brown-out":
            offline, listed = self.worst
            self.worst = max(offline, now.offline), min(listed, len(now.brokers))
        for broker in before.brokers - now.brokers:
            self.marks.append(Notice(who=METADATA, broker=broker, at_ns=at_ns))
            self.note(f"Kafka's metadata no longer lists broker {broker}")
        for broker in now.brokers - before.brokers:
            self.note(f"Kafka's metadata lists broker {broker} again")
