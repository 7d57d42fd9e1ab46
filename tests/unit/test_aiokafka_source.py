"""Metadata over an aiokafka client, without a broker: the request, whom it asks, and how it ends."""

import asyncio
import threading
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaClient, errors
from aiokafka.conn import CloseReason

from kafka_partition_events import ConfigurationError, MetadataFetchError
from kafka_partition_events.clients.aiokafka import AiokafkaMetadataSource
from kafka_partition_events.clients.aiokafka.metadata_request import AskMetadata
from kafka_partition_events.clients.aiokafka.private import watch_connections
from kafka_partition_events.clients.aiokafka.source import OWN_GROUP
from tests.loop_kit import on_a_loop
from tests.poller_kit import until
from tests.unit.aiokafka_kit import a_producer, learn

ID = uuid.UUID("6d0d4e4a-8cf5-44cc-b7b1-6f7d2a3fd0c1")
LIMIT_S = 10


def an_answer(partitions: int = 2) -> Any:
    """Return what a broker answers, as it comes over the wire."""
    rows: list[Any] = [(0, n, n + 1 if n < 2 else -1, 5 + n, [1, 2], [1], [2], {}) for n in range(partitions)]
    kind = AskMetadata(None).prepare({3: (0, 13)}).RESPONSE_TYPE
    brokers: Any = [(1, "a", 1, "r", {}), (2, "b", 2, None, {})]
    topics: Any = [(0, "t", ID, False, rows, 0, {}), (3, "gone", uuid.UUID(int=0), False, [], 0, {})]
    said = kind(0, brokers, "the cluster", 1, topics, {})
    return kind.decode(said.encode())


class Client(AIOKafkaClient):  # type: ignore[misc]
    """A client whose brokers answer as the test says."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = dict(enumerate(answers, 1))
        self.asked: list[tuple[int, Any]] = []
        known = [(node, "a", node, None) for node in self.answers]
        answer = SimpleNamespace(API_VERSION=5, brokers=known, controller_id=1, topics=[])
        self.cluster.update_metadata(answer)

    async def send(self, node_id: int, request: Any, *, group: Any = None) -> Any:
        assert group == OWN_GROUP
        self.asked.append((node_id, request))
        answer = self.answers[node_id]
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.Event().wait()
        return answer


async def fetched(source: Any, within: float = LIMIT_S, topics: frozenset[str] | None = None) -> Any:
    return await asyncio.to_thread(source.fetch, topics, timeout=within)


# -- the request ---------------------------------------------------------------------------------------


@on_a_loop
async def test_a_producer_learns_new_partitions_and_keeps_what_it_knows() -> None:
    producer = await a_producer()
    producer.client.add_topic("u").cancel()
    learn(producer, {"t": [1], "u": [1, 2]})
    client: Any = producer.client
    asked: list[Any] = []

    async def send(_node: int, request: Any, **_group: Any) -> Any:
        asked.append(request.prepare({3: (0, 12)}).topics)
        return an_answer(3)

    client.send = send
    source = AiokafkaMetadataSource(client)
    await fetched(source, topics=frozenset({"t"}))
    assert [name for _, name, _ in asked[0]] == ["t", "u"]
    assert client.cluster.partitions_for_topic("t") == {0, 1, 2}
    assert client.cluster.available_partitions_for_topic("t") == {0, 1}
    await producer.stop()


# -- whom it asks --------------------------------------------------------------------------------------


@on_a_loop
async def test_suspects_are_asked_last_and_one_that_hangs_has_half_of_the_time() -> None:
    client = Client(None, an_answer(), errors.NodeNotReadyError("not ready"))
    source = AiokafkaMetadataSource(client, lambda: {2})
    assert (await fetched(source, 1.0)).answered_by == 2
    assert sorted(node for node, _ in client.asked[:2]) == [1, 3]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((errors.KafkaConnectionError("refused"),), "no broker answers .*1: .*refused"),
        ((None,), "no broker answers .*1: no answer"),
        ((NotImplementedError("v3"),), "older than Kafka 3.1"),
        ((), "none is known"),
    ],
)
@on_a_loop
async def test_why_there_is_no_answer(answers: tuple[Any, ...], why: str) -> None:
    with pytest.raises(MetadataFetchError, match=why):
        await fetched(AiokafkaMetadataSource(Client(*answers)), 0.4)


@on_a_loop
async def test_a_source_is_made_of_what_has_a_client_on_its_loop() -> None:
    nothing: Any = {"bootstrap_servers": "a:1"}
    with pytest.raises(ConfigurationError, match="not a dict"):
        AiokafkaMetadataSource(nothing)
    client, why = Client(), []
    try:
        await asyncio.to_thread(AiokafkaMetadataSource, client)
    except ConfigurationError as error:
        why.append(str(error))
    assert why == ["make it on the event loop of its client: in a coroutine"]


# -- how it ends ---------------------------------------------------------------------------------------


@on_a_loop
async def test_who_waits_for_a_loop_that_is_busy_gives_up_in_time() -> None:
    source = AiokafkaMetadataSource(Client(an_answer()))
    failed: list[str] = []

    def fetch() -> None:
        try:
            source.fetch(None, timeout=0.05)
        except MetadataFetchError as error:
            failed.append(str(error))

    thread = threading.Thread(target=fetch)
    thread.start()
    thread.join(LIMIT_S)  # it blocks the loop
    assert failed == ["no answer within 0.05 s"]


@on_a_loop
async def test_who_waits_for_an_answer_is_let_go_when_the_producer_is_stopped() -> None:
    client = Client(None)
    source = AiokafkaMetadataSource(client)
    waiting = asyncio.ensure_future(fetched(source, 100))
    await until(lambda: bool(client.asked))
    source.close()
    with pytest.raises(MetadataFetchError, match="was stopped"):
        await asyncio.wait_for(waiting, LIMIT_S)
    with pytest.raises(MetadataFetchError, match="was stopped"):
        await fetched(source, 100)


def test_nothing_is_asked_on_a_loop_that_has_ended() -> None:
    async def make() -> Any:
        return AiokafkaMetadataSource(Client(an_answer()))

    source = asyncio.run(make())
    with pytest.raises(MetadataFetchError, match="event loop is closed"):
        source.fetch(None, timeout=1.0)


# -- connections ---------------------------------------------------------------------------------------


class Connected:
    """A client whose connections the test makes."""

    def __init__(self) -> None:
        self.cluster = SimpleNamespace(broker_metadata=lambda node: None if node == 9 else node)
        self.next: Callable[[], Any] = lambda: None
        self.connecting = 0
        self._get_conn_lock_value: Any = None

    async def _get_conn(self, node_id: int, *, group: int = 0, no_hint: bool = False) -> Any:
        self.connecting += 1
        async with self._get_conn_lock_value:
            return self.next()

    async def close(self) -> None:
        pass


class Connection:
    closed: Any = None

    def __init__(self) -> None:
        self.closings: list[Any] = []
        self._on_close_cb: Any = lambda _connection, reason: self.closings.append(reason)

    def close(self, reason: Any) -> None:
        self.closed = reason


@on_a_loop
async def test_a_connection_that_can_not_be_made_or_breaks_in_use_is_a_sign() -> None:
    client, waited_for = Connected(), {1}
    lost: list[int] = []
    watch_connections(client, lost.append, waited_for.__contains__)
    assert await client._get_conn(1) is None
    assert await client._get_conn(9) is None, "which is not known"
    assert lost == [1]
    client.next = Connection
    one, other = await client._get_conn(1), await client._get_conn(2)
    for connection in (one, other):
        for reason in CloseReason:
            connection._on_close_cb(connection, reason)
    assert lost == [1, 1], "in use and broken, not what was idle, too slow, or closed by us"
    assert one.closings == other.closings == list(CloseReason), "and aiokafka knows as ever"


@on_a_loop
async def test_a_broker_that_hangs_holds_up_no_connection_to_others() -> None:
    client: Any = Connected()
    hangs, lost = asyncio.Event(), list[int]()
    get = Connected._get_conn

    async def slow(client: Any, node_id: int, **more: Any) -> Any:
        if node_id == 1:
            client.connecting += 1
            await hangs.wait()
        return await get(client, node_id, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connected, "_get_conn", slow)
        watch_connections(client, lost.append, lost.__contains__)
        client.next = Connection
        default = {"group": 0}  # some of aiokafka's own calls name it, some do not
        first, second = (asyncio.ensure_future(client._get_conn(1, **named)) for named in ({}, default))
        assert await client._get_conn(2) is not None
        await asyncio.sleep(0)
        assert client.connecting == 2, "and it is connected to once"
        hangs.set()
        await asyncio.gather(first, second)


@on_a_loop
async def test_what_is_connected_to_while_the_client_closes_is_closed() -> None:
    """A poller may ask in that moment; aiokafka closes what it has, and no more."""
    client: Any = Connected()
    slow, get, made, lost = asyncio.Event(), Connected._get_conn, Connection(), list[int]()

    async def later(client: Any, node_id: int, **more: Any) -> Any:
        await slow.wait()
        return await get(client, node_id, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connected, "_get_conn", later)
        watch_connections(client, lost.append, lost.__contains__)
        client.next = lambda: made
        asking = asyncio.ensure_future(client._get_conn(1))
        await asyncio.sleep(0)
        await client.close()
        slow.set()
        assert await asking is None
        assert made.closed is CloseReason.SHUTDOWN
        assert await client._get_conn(2) is None
        assert client.connecting == 1
        assert lost == []
