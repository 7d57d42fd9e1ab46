"""An outbox of which some bytes are others, and requests that are none: one clear error, nothing else."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import create_connection

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from kafka_partition_events.errors import OutboxError
from kafka_partition_events.observe.http import HttpServer
from kafka_partition_events.observe.settings import Http
from kafka_partition_events.outbox import SqliteOutbox
from tests.odd_kit import mutated
from tests.outbox_kit import append, entry
from tests.property.examples import scaled

REQUEST = (
    b"GET /livez?name[]=a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic YW5uOng=\r\nAccept: */*\r\n\r\n"
)
ODD_COLUMNS = {
    "at": "9999999999999999999",
    "recorded_at": "'soon'",
    "body": "'text'",
    "name": "x'ff'",
    "subject": "x'00'",
    "key": "x'00'",
}


def filled(path: Path) -> bytes:
    with closing(SqliteOutbox(path)) as outbox:
        outbox.subscribe("a")
        append(outbox, *(entry(str(number), body=b"x" * 500) for number in range(30)))
        outbox.write(values={"small/a": b"{}"})
        outbox.refuse("a", outbox.read("a", 1)[0])
    return path.read_bytes()


def use(path: Path) -> None:
    """Read and write all of it."""
    with closing(SqliteOutbox(path)) as outbox:
        outbox.subscribe("a")
        outbox.readers()
        list(outbox.history())
        outbox.read("a", 100)
        outbox.stats("a")
        assert all(isinstance(value, bytes) for value in outbox.values("").values())
        outbox.dead_letters()
        append(outbox, "new")


def is_used_or_refused(path: Path) -> None:
    try:
        use(path)
    except OutboxError as error:
        refusal = str(error)
        assert refusal.startswith(str(path))
        assert len(refusal) < 1_000
        assert "\n" not in refusal


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return filled(tmp_path_factory.mktemp("outbox") / "outbox.db")


def changed(sound: bytes, directory: Path, statement: str) -> SqliteOutbox:
    """Return a filled outbox after a statement that another program has executed."""
    (path := directory / "outbox.db").write_bytes(sound)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)
    return SqliteOutbox(path)


@settings(max_examples=scaled(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dice=st.randoms(use_true_random=False))
def test_an_outbox_with_other_bytes(dice: random.Random, sound: bytes, tmp_path: Path) -> None:
    content = bytearray(sound)
    for _ in range(dice.randint(1, 8)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path = tmp_path / "outbox.db"
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path.write_bytes(content[: dice.choice((len(content), dice.randrange(len(content))))])
    is_used_or_refused(path)


@pytest.mark.parametrize("column", ODD_COLUMNS)
def test_a_row_with_another_type_or_what_is_no_moment(column: str, sound: bytes, tmp_path: Path) -> None:
    statement = f"UPDATE entries SET {column} = {ODD_COLUMNS[column]} WHERE id = '7'"  # noqa: S608
    outbox = changed(sound, tmp_path, statement)
    with closing(outbox), pytest.raises(OutboxError, match="damaged") as refused:
        list(outbox.history())
    assert str(outbox.path) in str(refused.value)


def test_a_small_state_is_bytes_whatever_it_is_stored_as(sound: bytes, tmp_path: Path) -> None:
    with closing(changed(sound, tmp_path, "UPDATE small_states SET value = 12")) as outbox:
        assert outbox.values("small/") == {"small/a": b"12"}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    made = HttpServer(("127.0.0.1", 0), CollectorRegistry(), {"/livez": lambda: (None, "ok")}, Http())
    made.start()
    yield made
    made.close()


def ask(server: HttpServer, request: bytes) -> bytes:
    with create_connection(server.address, 5) as connection:
        connection.sendall(request + b"\r\n\r\n")
        answer = b""
        try:
            while more := connection.recv(65_536):
                answer += more
        except ConnectionResetError:  # it has answered before it has read all
            pass
    return answer


@settings(max_examples=scaled(100))
@given(dice=st.randoms(use_true_random=False))
def test_a_request_that_is_none_is_answered_and_so_is_the_next_one(
    dice: random.Random, server: HttpServer
) -> None:
    ask(server, mutated(dice, REQUEST))
    assert ask(server, REQUEST).startswith(b"HTTP/1.0 200 ")


def test_a_path_that_is_no_url_is_answered(server: HttpServer) -> None:
    assert ask(server, b"GET http://[ HTTP/1.0").startswith(b"HTTP/1.0 404 ")
