"""Stand between clients and brokers, and disturb what passes, as a bad network would.

A script of its own, run as ``python -I -S proxy.py CONTROL_PORT PORTS``; it imports nothing but the standard
library and `shaping.py`, which decides what arrives when. `links.py` is its other end: it listens on
CONTROL_PORT, gets one line when all ports are open, and then sends commands, one JSON object a line, each of
which is answered once it is done. When that connection ends, so does this process. It is a process because a
thread of the test would share the interpreter lock with the producer under test, and be slow exactly when
that is busy.

A *link* joins two ends: "clients" and a broker, or two brokers. It has two *ways*, named by the end where
they arrive. Bytes that vanish are gone; a connection that has lost some is reset when its way works again,
for a stream with a hole in it is worse than none. Making a connection is never slow: the kernel does it.

One thread, no locks.
"""

import contextlib
import heapq
import itertools
import json
import random
import selectors
import socket
import struct
import sys
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the parent packages, without all that they import
    _here = Path(__file__).parent
    for _name, _path in (("kafka_partition_events", _here.parent), ("kafka_partition_events.testing", _here)):
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [str(_path)]

from kafka_partition_events.testing.shaping import (
    HEADER_MAX,
    NEVER,
    Lane,
    Way,
    caller_of,
    client_id,
)

HOST = "127.0.0.1"
CLIENTS = "clients"

_SOCKET_BUFFER = 262_144  # left to itself the kernel would take megabytes before a slow way is felt
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Link:
    """Two ends, the two ways between them, and the connections that exist."""

    def __init__(self, one: str, other: str, rng: random.Random) -> None:
        self.ways = {one: Way(rng), other: Way(rng)}
        self.refusing = False
        self.drops: object = None  # whoever drops its connections from time to time
        self.connections: set[Connection] = set()


class Port:
    """Where connections to one broker arrive: from clients, or from brokers (then `link` is None)."""

    def __init__(self, proxy: "Proxy", broker: str, ports: list[int], link: Link | None) -> None:
        self.proxy, self.broker, self.link = proxy, broker, link
        self._port, self.upstream = ports
        self.listener: socket.socket | None = None

    def obey(self) -> None:
        """Listen, or refuse connections."""
        refusing = self.link is not None and self.link.refusing
        if refusing and self.listener is not None:
            self.proxy.selector.unregister(self.listener)
            self.listener.close()
            self.listener = None
        elif not refusing and self.listener is None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
            listener.bind((HOST, self._port))
            listener.listen(1024)
            listener.setblocking(False)
            self.proxy.selector.register(listener, _READ, self)
            self.listener = listener

    def on_event(self, _mask: int) -> None:
        """Take a new connection."""
        if self.listener is not None:
            with contextlib.suppress(OSError):  # it has gone again
                Connection(self, self.listener.accept()[0])


class Side:
    """One of the two sockets of a connection."""

    def __init__(self, connection: "Connection", sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        self.connection, self.sock = connection, sock
        self.connecting = self.gone = False
        self._interest = 0

    def want(self, interest: int) -> None:
        """Tell the selector what this side waits for."""
        if interest != self._interest and not self.gone:
            selector = self.connection.proxy.selector
            if not self._interest:
                selector.register(self.sock, interest, self)
            elif interest:
                selector.modify(self.sock, interest, self)
            else:
                selector.unregister(self.sock)
            self._interest = interest

    def on_event(self, mask: int) -> None:
        """Something can be read or written."""
        self.connection.on_event(self, mask)

    def close(self, *, reset: bool) -> None:
        """Close the socket, with RST if `reset`."""
        if not self.gone:
            self.want(0)
            self.gone = True
            if reset:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.close()


class Connection:
    """From one client to one broker, over this process."""

    def __init__(self, port: Port, client: socket.socket) -> None:
        self.proxy, self.port = port.proxy, port
        self.client = Side(self, client)
        self.broker: Side | None = None  # until it is known who connects
        self.closed = False
        self.wake_at = NEVER
        self._link = port.link or self.proxy.unknown
        self._link.connections.add(self)
        self._first = b""
        if port.link is not None:
            self._dial(CLIENTS)
        else:
            self.client.want(_READ)

    def on_event(self, side: Side, mask: int) -> None:
        """Read, write, or both."""
        if self.closed:
            return
        if self.broker is None:
            self._identify()
            return
        if side.connecting and mask & _WRITE:
            if side.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._break(side)
            side.connecting = False
        if mask & _READ and not side.gone:
            self._read(side)
        self.advance()

    def advance(self) -> None:
        """Send what has arrived, and see what to wait for next."""
        if self.closed or self.broker is None:
            return
        now = self.proxy.clock()
        if self.wake_at <= now:
            self.wake_at = NEVER
        blocked = [self._send(side, lane, now) for side, lane in self._sinks]
        if self.closed:
            return
        if all(lane.told for _, lane in self._sinks):
            self.close(reset=False)
            return
        for (side, _), (_, lane), is_blocked in zip(self._sinks, reversed(self._sinks), blocked, strict=True):
            readable_at = lane.readable_at(now)
            if now < readable_at < NEVER:
                self.proxy.wake(self, readable_at)
            reads = readable_at <= now and not side.connecting
            side.want((_READ if reads else 0) | (_WRITE if is_blocked else 0))

    def obey(self) -> None:
        """Follow a change of the link."""
        if self.broker is None:
            return  # nobody knows yet which link it is
        lanes = [lane for _, lane in self._sinks]
        if self._link.refusing or any(lane.torn and not lane.way.lost for lane in lanes):
            self.close(reset=True)
            return
        for lane in lanes:
            lane.obey(self.proxy.clock())
        self.advance()

    def close(self, *, reset: bool) -> None:
        """End it on both sides."""
        self.closed = True
        self._link.connections.discard(self)
        for side in (self.client, self.broker):
            if side is not None:
                side.close(reset=reset)

    # --- inside ---

    def _identify(self) -> None:
        """Find out from its first request which broker has connected."""
        try:
            data = self.client.sock.recv(HEADER_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._first += data
        if not data:
            self.close(reset=True)
        elif (name := client_id(self._first)) is not None:
            caller = caller_of(name)
            self._link.connections.discard(self)
            self._link = self.proxy.between(caller, self.port.broker)
            self._link.connections.add(self)
            if self._link.refusing:
                self.close(reset=True)
            else:
                self._dial(caller)

    def _dial(self, caller: str) -> None:
        """Connect to the broker."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER)
        self.broker = broker = Side(self, sock)
        broker.connecting = True
        up, down = (
            Lane(self._link.ways.get(end, self.proxy.undisturbed)) for end in (self.port.broker, caller)
        )
        self._sinks = ((self.client, down), (broker, up))
        if self._first:
            self._take(broker, up, self._first)
        try:
            sock.connect((HOST, self.port.upstream))
        except BlockingIOError:
            pass
        except OSError:
            self._break(broker)
        self.advance()

    def _read(self, side: Side) -> None:
        """Take what one side has sent to the other."""
        (other, lane) = self._sinks[side is self.client]
        try:
            data = side.sock.recv(lane.way.piece)
        except BlockingIOError:
            return
        except OSError:
            self._break(side)
            return
        if data:
            self._take(other, lane, data)
        else:
            lane.ended = True
            lane.torn |= lane.way.lost

    def _take(self, sink: Side, lane: Lane, data: bytes) -> None:
        if lane.way.lost or sink.gone:
            lane.torn = True
        else:
            lane.add(self.proxy.clock(), data)

    def _send(self, side: Side, lane: Lane, now: float) -> bool:
        """Send to one side what has arrived for it; return whether it takes no more at present."""
        if side.gone:
            lane.lose()
            return False
        if side.connecting:
            return True
        try:
            blocked = lane.flush(now, side.sock.send)
            if lane.ended and not (lane.waiting or lane.torn or lane.told):
                lane.told = True
                side.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._break(side)
            return False
        if lane.waiting and not blocked:
            self.proxy.wake(self, lane.waiting[0][0])
        return blocked

    def _break(self, side: Side) -> None:
        """One side is gone without a good-bye: so be the other, unless no news can get there."""
        other, lane = self._sinks[side is self.client]
        if lane.way.lost and not other.gone:
            lane.ended = lane.torn = True
            side.close(reset=True)
        else:
            self.close(reset=True)


class Proxy:
    """All ports of a cluster, and the loop that serves them.

    Args:
        ports: Broker -> [own port, port of the broker], for clients and for brokers.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        clients: Mapping[str, list[int]],
        brokers: Mapping[str, list[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.selector = selectors.DefaultSelector()
        rng = random.Random()
        self.undisturbed = Way(rng)
        self.unknown = Link("", "", rng)
        self.links = {frozenset({CLIENTS, broker}): Link(CLIENTS, broker, rng) for broker in clients}
        for pair in itertools.combinations(brokers, 2):
            self.links[frozenset(pair)] = Link(*pair, rng)
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._ports = [
            Port(self, broker, ports, self.links[frozenset({CLIENTS, broker})])
            for broker, ports in clients.items()
        ] + [Port(self, broker, ports, None) for broker, ports in brokers.items()]
        for port in self._ports:
            port.obey()

    def between(self, one: str, other: str) -> Link:
        """Return the link of two ends; one that nothing disturbs if there is none."""
        return self.links.get(frozenset({one, other}), self.unknown)

    def wake(self, connection: Connection, when: float) -> None:
        """Let a connection advance at `when`, if nothing makes it advance sooner."""
        if when < connection.wake_at:
            connection.wake_at = when

            def advance() -> None:
                if connection.wake_at == when and not connection.closed:
                    connection.advance()

            self._at(when, advance)

    def step(self) -> None:
        """Wait for something to happen, and see to it."""
        timeout = max(0.0, self._timers[0][0] - self.clock()) if self._timers else None
        for key, mask in self.selector.select(timeout):
            key.data.on_event(mask)
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()

    def obey(self, command: Mapping[str, Any]) -> None:
        """Carry out a command: ``{"links": [[one, other], ...], ...}`` and what shall be so from now on.

        That is ``delay_s``, ``jitter_s``, ``bytes_per_s``, ``drop_every_s`` (None: not), ``refusing``, and
        ``lost`` (the ends where nothing arrives). What is not named stays as it is. ``reset``: reset what is
        there.
        """
        for link in [self.links[frozenset(ends)] for ends in command["links"]]:
            for end, way in link.ways.items():
                way.change(
                    command.get("bytes_per_s", way.bytes_per_s),
                    command.get("delay_s", way.delay_s),
                    command.get("jitter_s", way.jitter_s),
                )
                way.lost = end in command["lost"] if "lost" in command else way.lost
            link.refusing = command.get("refusing", link.refusing)
            if "drop_every_s" in command:
                self._drop(link, command["drop_every_s"])
            for connection in list(link.connections):
                connection.obey()
            if command.get("reset"):
                self._reset(link)
        for port in self._ports:
            port.obey()

    def _reset(self, link: Link) -> None:
        for connection in list(link.connections):
            connection.close(reset=True)

    def _drop(self, link: Link, every: float | None) -> None:
        drops = link.drops = object()  # what an earlier command has begun ends

        def drop() -> None:
            if link.drops is drops:
                self._reset(link)
                again()

        def again() -> None:
            if every is not None:
                self._at(self.clock() + every, drop)

        again()

    def _at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._count), do))


class Control:
    """The connection from which commands come."""

    def __init__(self, proxy: Proxy, port: int) -> None:
        self._proxy = proxy
        self._sock = socket.create_connection((HOST, port))
        self._pending = b""
        proxy.selector.register(self._sock, _READ, self)
        self._answer({})

    def on_event(self, _mask: int) -> None:
        """Carry out what has come."""
        received = self._sock.recv(65_536)
        if not received:
            sys.exit(0)
        *lines, self._pending = (self._pending + received).split(b"\n")
        for line in lines:
            try:
                self._proxy.obey(json.loads(line))
            except Exception as error:  # noqa: BLE001  # the owner raises it
                self._answer({"error": repr(error)})
            else:
                self._answer({})

    def _answer(self, answer: Mapping[str, str]) -> None:
        self._sock.sendall(json.dumps(answer).encode() + b"\n")


def main(control_port: int, ports: str) -> None:
    """Serve until the owner hangs up."""
    proxy = Proxy(**json.loads(ports))
    Control(proxy, control_port)
    while True:
        proxy.step()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
