"""A further handle beside the application's own: what a record takes around a blocked connection.

A broker serves one produce request of a connection at a time (*head-of-line blocking*). With ``acks=all`` a
request that waits for a replica that hangs so holds up everything that this client sends to the same leader,
also what needs none but healthy brokers. A second handle has connections of its own; nothing is sent there
that waits for a suspect replica, unless it is to try that.

It is made by a thread of its own, never on a record's way: that may wait for a token server, read a
certificate that is just being replaced, or find no more threads. What can't be made costs the detour only.
"""

import threading
from collections.abc import Callable, Collection, Sized
from typing import Final, Generic, Literal, TypeVar

from attrs import define, field

from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.clock import Clock
from kafka_partition_events.metadata.cluster import Cluster, Node

StandbyMode = Literal["auto", "off"]
"""``"auto"``: a second handle is made when it is first needed, and closed when it was idle for a minute.
``"off"``: there is none."""

IDLE_S: Final = 60.0  # what no record has taken for so long is closed: it has threads and connections
RETRY_S: Final = 5.0  # after a failure: a token server or a certificate is seldom back sooner
COMING_S: Final = 1.0  # copies wait so long for one that is being made; that takes 10 ms, without a token
CHECK_S: Final = 5.0  # how long a handle outlives a producer that was dropped without `close`
GRACE_S: Final = 1.0  # for so long one that is idle is still there after it was taken away

_log = get_logger(__name__)

H = TypeVar("H", bound=Sized)
"""A handle; its length is how many records it has."""


@define(eq=False)
class Detour(Generic[H]):
    """One further handle of one producer, to which it holds no reference. Thread-safe."""

    _make: Callable[[], H]  # on a thread of its own: may take long, and may raise
    _close: Callable[[H], object]  # waits for what it has
    _owner: Callable[[], object]  # returns the producer as long as there is one
    _clock: Clock = field(factory=Clock)
    open: H | None = field(default=None, init=False)  # as long as there is one to be used
    _used_at: float = field(default=0.0, init=False)
    _begun_at: float = field(default=0.0, init=False)
    # Re-entrant: a signal handler may produce in here.
    _changed: threading.Condition = field(factory=lambda: threading.Condition(threading.RLock()), init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _making: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)

    def handle(self) -> H | None:
        """Return the handle; None as long as there is none, and a thread then makes it. Never waits."""
        self._used_at = self._clock.monotonic()
        if (handle := self.open) is None:
            self._start()
        return handle

    @property
    def is_coming(self) -> bool:
        """Whether the handle is about to be there: it is being made, and not for long yet."""
        return self._making and self._clock.monotonic() - self._begun_at < COMING_S

    def _start(self) -> None:
        with self._changed:
            if self._thread is not None or self._ended:
                return
            thread = threading.Thread(target=self._run, name="kpe-detour", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads, or the interpreter is going down
                _report(error)
            else:
                self._thread = thread
                self._making, self._begun_at = True, self._clock.monotonic()

    def _run(self) -> None:
        try:
            handle = self._make()
        except Exception as error:  # noqa: BLE001 - of the network, of a file, or of the application's callback
            _report(error)
            with self._changed:
                self._making = False
                self._wait(RETRY_S)
                self._thread = None
            return
        with self._changed:
            self._making = False
            self._used_at = self._clock.monotonic()
            if not self._ended:
                self.open = handle
            while not self._ended and (left := self._used_at + IDLE_S - self._clock.monotonic()) > 0:
                self._wait(min(left, CHECK_S))
                if self._owner() is None:
                    break
                if len(handle):
                    self._used_at = self._clock.monotonic()
            self.open = None
            # A thread that has taken `open` a moment ago may just be handing a record over.
            self._wait(GRACE_S)
        try:
            self._close(handle)
        finally:  # it may raise: the application's callbacks run in there
            self._thread = None

    def _wait(self, seconds: float) -> None:
        """Wait for so long, or until the producer ends; with the lock, which is released meanwhile."""
        until = self._clock.monotonic() + seconds
        while not self._ended and (left := until - self._clock.monotonic()) > 0:
            self._clock.wait(self._changed, left)

    def end(self) -> None:
        """Take no record any more; a thread closes the handle, and what it has is sent. Does not wait."""
        with self._changed:
            self._ended, self.open = True, None
            self._changed.notify_all()

    def close(self, timeout: float | None = None) -> None:
        """Close the handle for good, and wait for that; what it has is sent first. Idempotent."""
        self.end()
        thread = self._thread
        # What is just being made has no record; and a callback of the handle's may close the producer.
        if thread is not None and thread is not threading.current_thread() and not self._making:
            thread.join(timeout)


def _report(error: BaseException) -> None:
    _log.warning(
        "second_handle_not_made",
        error=str(error),
        meaning="records go on by the first handle; where a replica hangs they wait behind others",
        tried_again_after_s=RETRY_S,
    )


def address_of(node: Node) -> str:
    """Return a broker's address as clients take it: with brackets around an IPv6 one."""
    return f"[{node.host}]:{node.port}" if ":" in node.host else f"{node.host}:{node.port}"


def healthy(cluster: Cluster | None, suspects: Collection[int]) -> list[str]:
    """Return the addresses to begin with: a broker that hangs would keep a new handle waiting."""
    return [] if cluster is None else [address_of(n) for n in cluster.nodes.values() if n.id not in suspects]
