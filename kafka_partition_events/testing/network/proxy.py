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
"""

import asyncio
import contextlib
import itertools
import json
import random
import socket
import struct
import sys
import types
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the parent packages, without all that they import
    _name, _path = "", Path(__file__).parents[3]
    for _part in ("kafka_partition_events", "testing", "network"):
        _name, _path = f"{_name}.{_part}".lstrip("."), _path / _part
        sys.modules[_name] = types.ModuleType(_name)
        sys.modules[_name].__path__ = [str(_path)]

from kafka_partition_events.testing.network.shaping import NEVER, LinkDirection, caller_of, client_id

HOST = "127.0.0.1"
CLIENTS = "clients"

_SOCKET_BUFFER = 262_144  # left to itself the kernel would take megabytes before a slow way is felt


class ProxiedLink:
    """Two ends, the two ways between them, and the connections that exist."""

    def __init__(self, one: str, other: str, rng: random.Random) -> None:
        self.ways = {one: LinkDirection(rng), other: LinkDirection(rng)}
        self.refusing = False
        self.connections: set[ProxiedConnection] = set()
        self._next_drop: asyncio.TimerHandle | None = None

    def obey(self, command: Mapping[str, Any]) -> None:
        """Be from now on as a command says; see `Proxy.obey`."""
        for end, way in self.ways.items():
            way.change(
                command.get("bytes_per_s", way.bytes_per_s),
                command.get("delay_s", way.delay_s),
                command.get("jitter_s", way.jitter_s),
            )
            way.lost = end in command["lost"] if "lost" in command else way.lost
        self.refusing = command.get("refusing", self.refusing)
        if "drop_every_s" in command:
            self._drop_in(command["drop_every_s"])
        for connection in [*self.connections]:
            connection.obey()

    def _drop_in(self, seconds: float | None) -> None:
        if self._next_drop is not None:
            self._next_drop.cancel()
        self._next_drop = None
        if seconds is not None:
            self._next_drop = asyncio.get_running_loop().call_later(seconds, self._drop, seconds)

    def _drop(self, seconds: float) -> None:
        for connection in [*self.connections]:
            connection.reset()
        self._drop_in(seconds)


class Side(asyncio.Protocol):
    """One of the two sockets of a connection."""

    def __init__(self, connection: "ProxiedConnection") -> None:
        self.transport: asyncio.Transport
        self.full = False
        """Whether it takes no more at present."""
        self.gone = False
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of TCP
        self.transport = transport
        self._connection.joined(self)

    def data_received(self, data: bytes) -> None:
        """It has sent something."""
        self._connection.take(self, data)

    def eof_received(self) -> bool:
        """It sends no more; the other way may go on."""
        self._connection.end(self)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        if error is not None:
            self._connection.broken(self)

    def pause_writing(self) -> None:
        """It takes no more at present."""
        self.full = True
        self._connection.steer()

    def resume_writing(self) -> None:
        """It takes more again."""
        self.full = False
        self._connection.steer()

    def reset(self) -> None:
        """Close the socket with RST."""
        self.gone = True
        with contextlib.suppress(OSError, AttributeError):  # closed already; never connected
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Pump:
    """Carries bytes one way of a connection."""

    def __init__(self, way: LinkDirection, source: Side, sink: Side, loop: asyncio.AbstractEventLoop) -> None:
        self.way, self.source, self.sink = way, source, sink
        self.ended = False  # the source has closed,
        self.end_sent = False  # and the sink knows
        self.torn = False  # something has vanished
        self._waiting: deque[tuple[float, float, bytes]] = deque()  # (when it was sent, part of jitter, what)
        self._held = 0
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Take what the source has sent. It can't overtake what came before."""
        way, now = self.way, self._loop.time()
        if way.lost or self.sink.gone:
            self.torn = True
            return
        for at in range(0, len(data), way.piece):
            piece = data[at : at + way.piece]
            sent, part = way.send(now, len(piece))
            if way.arrival(sent, part) <= now and not self._waiting:
                self.sink.transport.write(piece)
            else:
                self._waiting.append((sent, part, piece))
                self._held += len(piece)
        if self._waiting or way.bytes_per_s is not None:
            self.steer()

    def obey(self) -> None:
        """Follow a change of the way: what is under way takes as long as what is sent from now on."""
        if self.way.lost:
            self.torn |= bool(self._waiting)
            self._waiting.clear()
            self._held = 0
        latest = max(self._loop.time(), self.way.free_at)  # now, where the bandwidth is another one
        self._waiting = deque((min(sent, latest), part, data) for sent, part, data in self._waiting)
        self.steer()

    def steer(self) -> None:
        """Hand over what has arrived, let the source send what there is room for, and see when to go on."""
        now = self._loop.time()
        while self._waiting and self.way.arrival(*self._waiting[0][:2]) <= now and not self.sink.full:
            *_, data = self._waiting.popleft()
            self._held -= len(data)
            self.sink.transport.write(data)
        if self.ended and not (self._waiting or self.torn or self.end_sent):
            self.end_sent = True
            self.sink.transport.write_eof()
        full_until = self.way.full_until(now)
        if self.sink.full or self._held >= self.way.room:
            full_until = NEVER
        if not self.ended:
            source = self.source.transport
            (source.resume_reading if full_until <= now else source.pause_reading)()
        due = self.way.arrival(*self._waiting[0][:2]) if self._waiting else NEVER
        self._wake_at(min((each for each in (due, full_until) if each > now), default=NEVER))

    def _wake_at(self, moment: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(moment, self.steer) if moment < NEVER else None


class ProxiedConnection:
    """From one client to one broker, over this process."""

    def __init__(self, port: "Port") -> None:
        self.client, self.broker = Side(self), Side(self)
        self._port = port
        self._first = b""
        self._pumps: dict[Side, Pump] = {}
        """By source; empty until it is known who connects."""
        self._connected = False
        self._link = port.proxy.unknown
        self._dialling: asyncio.Task[None] | None = None

    def joined(self, side: Side) -> None:
        """One of the sockets is there."""
        if side is self.client and self._port.link is not None:
            self._join(self._port.link, CLIENTS)

    def take(self, side: Side, data: bytes) -> None:
        """Take what one side has sent; before it is known who that is, find it out from its first request."""
        if self._pumps:
            self._pumps[side].take(data)
            return
        self._first += data
        if (name := client_id(self._first)) is not None:
            caller = caller_of(name)
            self._join(self._port.proxy.between(caller, self._port.broker), caller)

    def end(self, side: Side) -> None:
        """One side sends no more."""
        if not self._pumps:
            self.reset()
            return
        pump = self._pumps[side]
        pump.ended = True
        pump.torn |= pump.way.lost
        self.steer()

    def broken(self, side: Side) -> None:
        """One side is gone without a good-bye: so be the other, unless no news can get there."""
        side.gone = True
        pump = self._pumps.get(side)
        if pump is not None and pump.way.lost and not pump.sink.gone:
            pump.ended = pump.torn = True
        else:
            self.reset()

    def steer(self) -> None:
        """Go on both ways."""
        if not self._connected or self.client.gone or self.broker.gone:
            return
        for pump in self._pumps.values():
            pump.steer()
        if all(pump.end_sent for pump in self._pumps.values()):
            self._link.connections.discard(self)
            for side in self._pumps:
                side.transport.close()

    def obey(self) -> None:
        """Follow a change of the link."""
        pumps = self._pumps.values()
        if self._link.refusing or any(pump.torn and not pump.way.lost for pump in pumps):
            self.reset()
        elif self._connected and not (self.client.gone or self.broker.gone):
            for pump in pumps:
                pump.obey()
            self.steer()

    def reset(self) -> None:
        """End it on both sides, with RST."""
        self._link.connections.discard(self)
        if self._dialling is not None:
            self._dialling.cancel()
        self.client.reset()
        self.broker.reset()

    def _join(self, link: ProxiedLink, caller: str) -> None:
        if link.refusing:
            self.reset()
            return
        self._link = link
        link.connections.add(self)
        self.client.transport.pause_reading()
        up, down = (link.ways.get(end, self._port.proxy.undisturbed) for end in (self._port.broker, caller))
        loop = asyncio.get_running_loop()
        self._pumps = {
            self.client: Pump(up, self.client, self.broker, loop),
            self.broker: Pump(down, self.broker, self.client, loop),
        }
        self._dialling = asyncio.create_task(self._dial())

    async def _dial(self) -> None:
        """Connect to the broker."""
        loop = asyncio.get_running_loop()
        sock = buffered(socket.socket())
        try:
            await loop.sock_connect(sock, (HOST, self._port.upstream))
            await loop.create_connection(lambda: self.broker, sock=sock)
        except OSError:
            sock.close()
            self._dialling = None
            self.broken(self.broker)
            return
        self._dialling, self._connected = None, True
        if self._first:
            self._pumps[self.client].take(self._first)
        self.steer()


def buffered(sock: socket.socket) -> socket.socket:
    """Let a socket, and what it accepts, hold little; and wait for nothing."""
    sock.setblocking(False)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, buffer, _SOCKET_BUFFER)
    return sock


class Port:
    """Where connections to one broker arrive: from clients, or from brokers (then `link` is None)."""

    def __init__(self, proxy: "Proxy", broker: str, ports: list[int], link: ProxiedLink | None) -> None:
        self.proxy, self.broker, self.link = proxy, broker, link
        self._port, self.upstream = ports
        self._server: asyncio.Server | None = None

    async def obey(self) -> None:
        """Listen, or refuse connections."""
        refusing = self.link is not None and self.link.refusing
        if refusing and self._server is not None:
            self._server.close()
            self._server = None
        elif not refusing and self._server is None:
            listener = buffered(socket.socket())
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((HOST, self._port))
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: ProxiedConnection(self).client, sock=listener, backlog=1024
            )


class Proxy:
    """All ports of a cluster.

    Args:
        clients: Broker -> [own port, port of the broker], for clients.
        brokers: The same for brokers.
    """

    def __init__(self, clients: Mapping[str, list[int]], brokers: Mapping[str, list[int]]) -> None:
        rng = random.Random()
        self.undisturbed = LinkDirection(rng)
        self.unknown = ProxiedLink("", "", rng)
        self._links = {frozenset({CLIENTS, broker}): ProxiedLink(CLIENTS, broker, rng) for broker in clients}
        for pair in itertools.combinations(brokers, 2):
            self._links[frozenset(pair)] = ProxiedLink(*pair, rng)
        self._ports = [
            Port(self, broker, ports, self._links[frozenset({CLIENTS, broker})])
            for broker, ports in clients.items()
        ] + [Port(self, broker, ports, None) for broker, ports in brokers.items()]

    def between(self, one: str, other: str) -> ProxiedLink:
        """Return the link of two ends; one that nothing disturbs if there is none."""
        return self._links.get(frozenset({one, other}), self.unknown)

    async def open(self) -> None:
        """Listen, or not, as the links are."""
        for port in self._ports:
            await port.obey()

    async def obey(self, command: Mapping[str, Any]) -> None:
        """Carry out a command: ``{"links": [[one, other], ...], ...}`` and what shall be so from now on.

        That is ``delay_s``, ``jitter_s``, ``bytes_per_s``, ``drop_every_s`` (None: not), ``refusing``, and
        ``lost`` (the ends where nothing arrives). What is not named stays as it is.
        """
        for link in [self._links[frozenset(ends)] for ends in command["links"]]:
            link.obey(command)
        await self.open()


async def serve(control_port: int, ports: str) -> None:
    """Serve until the owner hangs up."""
    proxy = Proxy(**json.loads(ports))
    await proxy.open()
    commands, answers = await asyncio.open_connection(HOST, control_port)
    answers.write(b"{}\n")
    async for line in commands:
        answer = {}
        try:
            await proxy.obey(json.loads(line))
        except Exception as error:  # noqa: BLE001  # the owner raises it
            answer = {"error": repr(error)}
        answers.write(json.dumps(answer).encode() + b"\n")
        await answers.drain()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2]))
