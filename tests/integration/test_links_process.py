"""Each effect of a link, on plain sockets: an echo server plays the brokers."""

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_partition_events.testing.errors import KitError
from kafka_partition_events.testing.network.links import Links
from kafka_partition_events.testing.ports import HOST, free_ports
from tests.waiting_kit import waiting

LIMIT_S = 30.0
SILENCE_S = 0.2
GREETING = b"\x00\x00\x00\x40\x00\x01\x00\x0c\x00\x00\x00\x07\x00\x12broker-%d-fetcher-0"
BROKERS = (1, 2)


class Echo:
    """Sends back what it gets, and remembers it."""

    def __init__(self, port: int) -> None:
        self.got = bytearray()
        self._listener = socket.create_server((HOST, port), backlog=128)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65_536):
                self.got += data
                connection.sendall(data)


class Net:
    """Two "brokers" behind links, for clients and for each other."""

    def __init__(self, log: Path) -> None:
        numbers = iter(free_ports(6))
        self.own, self.client_ports, self.broker_ports = (
            {broker: next(numbers) for broker in BROKERS} for _ in range(3)
        )
        self.echoes = {broker: Echo(port) for broker, port in self.own.items()}
        self.links = Links(
            {broker: (self.client_ports[broker], self.own[broker]) for broker in BROKERS},
            {broker: (self.broker_ports[broker], self.own[broker]) for broker in BROKERS},
            log=log,
        )

    def close(self) -> None:
        self.links.close()
        for echo in self.echoes.values():
            echo.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    net = Net(tmp_path_factory.mktemp("links") / "links.log")
    yield net
    net.close()


@pytest.fixture
def net(shared: Net) -> Iterator[Net]:
    shared.links.heal()
    for echo in shared.echoes.values():
        echo.got.clear()
    yield shared
    shared.links.heal()


Connect = Callable[[int], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with contextlib.ExitStack() as opened:

        def connected(port: int) -> socket.socket:
            made = opened.enter_context(socket.create_connection((HOST, port), LIMIT_S))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made

        yield connected


def received(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := sock.recv(65_536)):
        data += more
    return data


def echoed(sock: socket.socket, data: bytes = b"hello") -> float:
    """Have something echoed; return how long that took."""
    began = time.monotonic()
    sock.sendall(data)
    assert received(sock, len(data)) == data
    return time.monotonic() - began


def assert_silent(sock: socket.socket, data: bytes = b"anybody?") -> None:
    sock.settimeout(SILENCE_S)
    sock.sendall(data)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.settimeout(LIMIT_S)


def assert_reset(sock: socket.socket) -> None:
    with pytest.raises(ConnectionResetError):
        sock.recv(1)


def test_undisturbed_nothing_is_lost_or_changed(net: Net, connect: Connect) -> None:
    data = os.urandom(3_000_000)
    sock = connect(net.client_ports[1])
    threading.Thread(target=sock.sendall, args=(data,)).start()
    assert received(sock, len(data)) == data
    sock.shutdown(socket.SHUT_WR)
    assert sock.recv(1) == b""


def test_delay_is_each_way_and_for_this_link_only(net: Net, connect: Connect) -> None:
    sock, other = (connect(net.client_ports[broker]) for broker in BROKERS)
    echoed(sock)
    net.links.link(1).delay(100, jitter=20)
    assert 0.2 <= echoed(sock) < 5.0
    assert echoed(other) < 0.2
    assert echoed(connect(net.client_ports[1])) >= 0.2
    net.links.link(1).heal()
    assert echoed(sock) < 0.2


def test_bandwidth_is_shared_by_all_connections(net: Net, connect: Connect) -> None:
    net.links.link(1).bandwidth(200_000)
    socks = [connect(net.client_ports[1]) for _ in range(2)]
    began = time.monotonic()
    for sock in socks:
        sock.sendall(bytes(50_000))
    for sock in socks:
        assert len(received(sock, 50_000)) == 50_000
    assert time.monotonic() - began >= 0.45


def test_a_black_hole_is_silent_and_what_has_lost_something_is_reset_by_healing(
    net: Net, connect: Connect
) -> None:
    busy, idle = (connect(net.client_ports[1]) for _ in range(2))
    echoed(busy)
    echoed(idle)
    net.links.link(1).blackhole()
    late = connect(net.client_ports[1])
    assert_silent(busy)
    assert_silent(late)
    assert bytes(net.echoes[1].got) == b"hello" * 2
    net.links.link(1).heal()
    assert_reset(busy)
    assert_reset(late)
    echoed(idle)


def test_one_way(net: Net, connect: Connect) -> None:
    sock = connect(net.client_ports[1])
    link = net.links.link(1)
    link.one_way("to_client")
    assert_silent(sock)
    waiting(LIMIT_S, 0.01)(lambda: len(net.echoes[1].got) >= 8, "the broker has all of it")
    link.one_way("to_broker")  # the answer is lost already: the connection can't go on
    assert_reset(sock)
    net.echoes[1].got.clear()
    assert_silent(connect(net.client_ports[1]))
    assert not net.echoes[1].got
    with pytest.raises(ValueError, match='"to_broker" or "to_client", not 2'):
        link.one_way(2)
    with pytest.raises(ValueError, match=r"1 or 2, not 'to_client'"):
        net.links.link(1, 2).one_way("to_client")


def test_refused_until_healed(net: Net, connect: Connect) -> None:
    sock = connect(net.client_ports[1])
    echoed(sock)
    net.links.link(1).refuse()
    assert_reset(sock)
    with pytest.raises(ConnectionRefusedError):
        connect(net.client_ports[1])
    net.links.link(1).heal()
    echoed(connect(net.client_ports[1]))


def test_drop_again_and_again(net: Net, connect: Connect) -> None:
    link = net.links.link(1)
    link.drop(every=0.1)
    for _ in range(2):
        assert_reset(connect(net.client_ports[1]))
    link.heal()
    sock = connect(net.client_ports[1])
    time.sleep(0.2)
    echoed(sock)


def test_a_dead_broker_resets(net: Net, connect: Connect, tmp_path: Path) -> None:
    [nobody, port] = free_ports(2)
    with contextlib.closing(Links({1: (port, nobody)}, {}, log=tmp_path / "log")) as links:
        with pytest.raises(ConnectionResetError):  # by then, or while it connects
            connect(port).recv(1)
        links.link(1).blackhole()
        assert_silent(connect(port))
        with pytest.raises(KitError, match='links="all"'):
            links.link(1, 2)


def test_brokers_are_told_apart_by_their_first_request(net: Net, connect: Connect) -> None:
    from_1, unknown = (connect(net.broker_ports[2]) for _ in range(2))
    from_2 = connect(net.broker_ports[1])
    for part in (GREETING[:9], GREETING[9:] % 1):  # it may come in pieces
        from_1.sendall(part)
    assert received(from_1, 32) == GREETING % 1
    echoed(from_2, GREETING % 2)
    echoed(unknown, GREETING.replace(b"broker-%d-fetcher-0", b"a client, we think"))
    net.links.cut({1}, {2})
    assert_silent(from_1)
    assert_silent(from_2)
    echoed(unknown)
    echoed(connect(net.client_ports[2]))
    net.links.heal()
    assert_reset(from_1)
    net.links.link(1, 2).one_way(2)
    assert_silent(connect(net.broker_ports[2]), GREETING % 1)
    net.links.link(2, 1).refuse()
    refused = connect(net.broker_ports[1])
    refused.sendall(GREETING % 2)
    assert_reset(refused)
    with pytest.raises(KitError, match="no link to itself"):
        net.links.cut({1}, {1, 2})


def test_the_end_of_the_process_is_told(tmp_path: Path) -> None:
    [nobody, port] = free_ports(2)
    with contextlib.closing(Links({1: (port, nobody)}, {}, log=tmp_path / "log")) as links:
        os.kill(links._process.pid, signal.SIGKILL)
        while links._process.alive:
            time.sleep(0.01)
        with pytest.raises(KitError, match="the links' process"):
            links.heal()
    with socket.create_server((HOST, port)), pytest.raises(KitError, match=r"(?s)did not start.*in use"):
        Links({1: (port, nobody)}, {}, log=tmp_path / "log")
