"""The networks of a test cluster: each link between two ends can be slowed down, cut and healed.

This is the owner's side. What passes a link goes through one process for the whole cluster, `proxy.py`, which
adds well under a millisecond while nothing is disturbed.
"""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.ports import HOST
from kafka_partition_events.testing.processes import SupervisedProcess, tail

LinkMode = Literal["clients", "all"]
Ends = tuple[str, str]

_PROXY = Path(__file__).with_name("proxy.py")
_CLIENTS = "clients"
_LIMIT_S = 30.0
_STEP_S = 0.1
_UNDISTURBED: Mapping[str, Any] = {
    "delay_s": 0.0,
    "jitter_s": 0.0,
    "bytes_per_s": None,
    "lost": [],
    "refusing": False,
    "drop_every_s": None,
}


class Link:
    """What lies between the clients and a broker, or between two brokers; see `KafkaCluster.link`.

    What a call asks for holds for all connections, present and future, from the moment it returns, and until
    `heal`. Effects add up: a link may be slow, narrow and dropping at once. Calls may come from any thread.

    Raises:
        KitError: (all methods) the cluster has been closed, or this is a fork of its owner.
        ValueError: (all methods) an argument makes no sense.
    """

    def __init__(self, links: "Links", ends: Ends) -> None:
        self._links = links
        self._ends = ends

    def delay(self, ms: float, jitter: float = 0.0) -> None:
        """Let everything take `ms` milliseconds more each way, plus a random part of `jitter` milliseconds.

        A round trip so takes 2 x `ms` more. Order is kept, so what is late delays what follows it. Making a
        connection takes no longer. At most 4 MB of a connection are under way at a time.
        """
        _at_least(0.0, ms=ms, jitter=jitter)
        self._set(delay_s=ms / 1e3, jitter_s=jitter / 1e3)

    def bandwidth(self, bytes_per_s: float) -> None:
        """Let at most `bytes_per_s` pass each way, shared by all connections of the link."""
        _more_than_zero(bytes_per_s=bytes_per_s)
        self._set(bytes_per_s=float(bytes_per_s))

    def blackhole(self) -> None:
        """Let everything vanish, both ways: connections stay open, new ones are accepted, nothing answers.

        A connection that has lost something is reset when the link is healed.
        """
        self._set(lost=list(self._ends))

    def one_way(self, lost: Literal["to_broker", "to_client"] | int) -> None:
        """Let what goes one way vanish, while what goes the other way arrives.

        Args:
            lost: Which way. ``"to_client"``: the broker gets requests and obeys them, and its answers are
                lost. ``"to_broker"``: requests are lost. Between two brokers: the id of the one that nothing
                reaches.
        """
        clients = _CLIENTS in self._ends
        to = {"to_client": _CLIENTS, "to_broker": self._ends[1]} if clients else {}
        end = to.get(str(lost), str(lost))
        if end not in self._ends:
            accepted = '"to_broker" or "to_client"' if clients else " or ".join(self._ends)
            raise ValueError(f"lost must be {accepted}, not {lost!r}")
        self._set(lost=[end])

    def refuse(self) -> None:
        """Reset all present connections, and refuse new ones (between brokers: reset them)."""
        self._set(refusing=True)

    def drop(self, every: float) -> None:
        """Reset all present connections each `every` seconds, first in `every` seconds."""
        _more_than_zero(every=every)
        self._set(drop_every_s=float(every))

    def heal(self) -> None:
        """End all effects; what is still under way arrives at once."""
        self._set(**_UNDISTURBED)

    def __repr__(self) -> str:
        return f"<Link {self._ends[0]} - {self._ends[1]}>"

    def _set(self, **what: Any) -> None:
        self._links.change([self._ends], **what)


class Links:
    """All links of a cluster, and the process that they go through. Thread safe.

    Args:
        clients: Broker -> (port that clients connect to, port of the broker).
        brokers: The same for brokers that connect to brokers; empty if these do so directly.
        log: What the process has to complain about.

    Raises:
        KitError: the process did not start.
    """

    def __init__(
        self, clients: Mapping[int, tuple[int, int]], brokers: Mapping[int, tuple[int, int]], *, log: Path
    ) -> None:
        self._between = bool(brokers)
        self._brokers = tuple(sorted(clients))
        self._log = log
        self._owner = os.getpid()
        self._lock = threading.Lock()
        with socket.create_server((HOST, 0)) as door:
            ports = json.dumps({"clients": clients, "brokers": brokers})
            argv = (sys.executable, "-I", "-S", _PROXY, str(door.getsockname()[1]), ports)
            self._process = SupervisedProcess(argv, log=log)
            try:
                self._connection = self._admit(door)
            except BaseException:
                self._process.kill()
                raise
        self._answers = self._connection.makefile("rb")
        self._await_answer()

    def link(self, broker: int, other: int | None = None) -> Link:
        """Return the link of clients and a broker, or of two brokers.

        Raises:
            KitError: there is no such link.
        """
        if other is None:
            return Link(self, (_CLIENTS, str(broker)))
        if not self._between:
            raise KitError('only links to clients can be disturbed here; KafkaCluster(links="all") has all')
        if other == broker:
            raise KitError(f"broker {broker} has no link to itself")
        return Link(self, (str(broker), str(other)))

    def cut(self, one_side: Iterable[int], other_side: Iterable[int]) -> None:
        """Let everything vanish between two groups of brokers.

        Raises:
            KitError: there are no links between brokers, or one is on both sides.
        """
        others = tuple(other_side)
        pairs = [self.link(one, other)._ends for one in one_side for other in others]  # noqa: SLF001
        if pairs:
            self.change(pairs, lost=sorted({end for pair in pairs for end in pair}))

    def heal(self) -> None:
        """End all effects on all links."""
        pairs: list[Ends] = [(_CLIENTS, str(broker)) for broker in self._brokers]
        if self._between:
            pairs += [
                (str(one), str(other)) for one in self._brokers for other in self._brokers if one < other
            ]
        self.change(pairs, **_UNDISTURBED)

    def change(self, ends: Iterable[Ends], **what: Any) -> None:
        """Let the process change some links, and wait until it has.

        Raises:
            KitError: it has not.
        """
        if os.getpid() != self._owner:
            raise KitError("a fork of the process that started a KafkaCluster can't control its links")
        command = json.dumps({"links": list(ends), **what}).encode() + b"\n"
        with self._lock:
            try:
                self._connection.sendall(command)
            except OSError as error:
                raise self._failure(str(error)) from error
            self._await_answer()

    def close(self) -> None:
        """End the process. Does nothing in a fork of the owner."""
        if os.getpid() == self._owner:
            self._answers.close()
            self._connection.close()
            self._process.kill()

    # --- inside ---

    def _admit(self, door: socket.socket) -> socket.socket:
        door.settimeout(_STEP_S)
        deadline = time.monotonic() + _LIMIT_S
        while self._process.alive and time.monotonic() < deadline:
            try:
                connection, _ = door.accept()
            except TimeoutError:
                continue
            connection.settimeout(_LIMIT_S)
            return connection
        raise self._failure("it did not start")

    def _await_answer(self) -> None:
        try:
            line = self._answers.readline()
        except (OSError, ValueError) as error:  # ValueError: closed
            raise self._failure(str(error)) from error
        if not line:
            raise self._failure("it has ended")
        if wrong := json.loads(line).get("error"):
            raise self._failure(wrong)

    def _failure(self, what: str) -> KitError:
        return KitError(f"the links' process: {what}; end of {self._log}:\n{tail(self._log)}")


def _at_least(least: float, **values: float) -> None:
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name} must be at least {least:g}, not {value}")


def _more_than_zero(**values: float) -> None:
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"{name} must be more than 0, not {value}")
