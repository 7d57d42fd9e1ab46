"""What a producing or consuming process is told, and how it is asked to stop."""

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Literal, Self

from attrs import asdict, frozen

from benchmarks.gate.plan import Client

Role = Literal["producing", "consuming"]


@frozen(kw_only=True)
class Task:
    """One process: the producers of some topics, or one member of each of their groups.

    Attributes:
        role: Which of the two; the name of the module.
        name: What the process is called among its kind, over restarts.
        client: Which client it uses.
        bootstrap: The cluster.
        prefix: What the names of the control topics begin with; None if the process does not run the
            library's agent or hook.
        topics: The topics; a topic's group has its name.
        out: Its diary.
        new_protocol: Whether groups are of KIP-848.
    """

    role: Role
    name: str
    client: Client
    bootstrap: str
    prefix: str | None
    topics: tuple[str, ...]
    out: Path
    new_protocol: bool = False

    def command(self) -> list[str]:
        told = json.dumps({**asdict(self), "out": str(self.out)})
        return [sys.executable, "-m", f"benchmarks.gate.{self.role}", told]

    @classmethod
    def parse(cls, text: str) -> Self:
        told = json.loads(text)
        return cls(**{**told, "out": Path(told["out"]), "topics": tuple(told["topics"])})


def stopped_by_sigterm() -> threading.Event:
    """Return what is set when the process shall stop."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    return stop
