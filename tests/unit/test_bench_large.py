"""The fake cluster of `benchmarks.large`, as kafka-python understands it; and what polls have found."""

from typing import Any

import pytest
from kafka.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
)

from benchmarks import fake_answers
from benchmarks.fake_answers import BROKERS, LOST, SPOKEN, Scene, answer
from benchmarks.fake_broker import Note, costs, findings

PORTS = range(9001, 9007)
VERSIONS = SPOKEN[MetadataRequest]


@pytest.fixture(autouse=True)
def _few_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_answers, "TOPICS", 12)


def encoded(request: Any) -> bytes:
    request.with_header(correlation_id=7, client_id="test")
    return bytes(request.encode(header=True))


def asking(version: int, *names: str) -> bytes:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names] or MetadataRequest.ALL_TOPICS
    return encoded(MetadataRequest(topics=topics, version=version))


def asked(version: int, *names: str, scene: Scene | None = None) -> Any:
    found = answer(asking(version, *names), scene or Scene(), PORTS)
    assert found is not None
    return MetadataResponse.decode(found, version=version, header=True)


def partitions(response: Any) -> list[Any]:
    return [partition for topic in response.topics for partition in topic.partitions]


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_in_any_version(version: int) -> None:
    response = asked(version)
    assert [(b.node_id, b.port) for b in response.brokers] == list(zip(BROKERS, PORTS, strict=True))
    assert len(response.topics) == 12
    found = partitions(response)
    assert len(found) == 12 * 40
    assert {(p.error_code, len(p.replica_nodes), len(p.isr_nodes)) for p in found} == {(0, 3, 3)}
    assert all(p.leader_id == p.replica_nodes[0] for p in found)


def test_a_lost_broker_takes_a_sixth_of_the_leaders_along_and_its_return_raises_epochs() -> None:
    lost = Scene().after("lose")
    response = asked(12, scene=lost)
    assert LOST not in {broker.node_id for broker in response.brokers}
    offline = [partition for partition in partitions(response) if partition.leader_id == -1]
    assert len(offline) == 12 * 40 // 6
    assert {(p.error_code, p.leader_epoch, p.replica_nodes[0]) for p in offline} == {(5, 1, LOST)}
    back = partitions(asked(12, scene=lost.after("return")))
    assert {(p.leader_id, p.leader_epoch) for p in back if p.leader_id == LOST} == {(LOST, 2)}


def notes() -> list[Note]:
    lost = Scene().after("lose")
    back = lost.after("return")
    scenes = [Scene(), Scene(), lost, lost, lost, back, back, back.after("grow"), back.after("grow")]
    cpu = [0.0, 1.0, 2.0, 7.0, 9.0, 10.0, 13.0, 14.0, 17.0]
    return [
        Note(at=0.0, scene=scene, cpu_s=cpu_s, rss_mib=0.0, received=0, sent=0)
        for scene, cpu_s in zip(scenes, cpu, strict=True)
    ]


def test_what_polls_have_found_is_told_by_how_answers_differ() -> None:
    assert [kind for kind, _ in findings(notes())] == [
        *("unchanged", "unchanged", "lose", "unchanged", "unchanged", "return", "unchanged", "grow"),
    ]
    assert costs(notes()) == {
        "unchanged": [1.0, 1.0, 2.0, 1.0, 1.0],
        "lose": [5.0],
        "return": [3.0],
        "grow": [3.0],
    }


def test_a_change_may_take_some_polls_more_whose_usual_cost_is_not_its_own() -> None:
    assert [kind for kind, _ in findings(notes(), 1)] == [
        *("unchanged", "unchanged", "lose", "unchanged", "return", "grow"),
    ]
    assert costs(notes()[:7], 1) == {"unchanged": [1.0, 1.0, 1.0], "lose": [6.0], "return": [3.0]}
