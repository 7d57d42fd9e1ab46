"""What a fake cluster of 200,000 partitions answers, encoded by kafka-python's own codec. Pure."""

import struct
import uuid
from collections.abc import Collection, Sequence
from typing import Any, Final

from attrs import evolve, frozen
from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)

from kafka_partition_events.testing.ports import HOST

TOPICS, PARTITIONS, REPLICAS = 5_000, 40, 3
BROKERS: Final = (1, 2, 3, 4, 5, 6)
LOST: Final = 3
"""The broker that comes and goes; it leads a sixth of all partitions."""
GROWS_AT_ONCE: Final = 40
CLUSTER_ID: Final = "Yk3bQ0x7T5mVb1c2d3e4fg"
SPOKEN: Final = {ApiVersionsRequest: range(5), MetadataRequest: range(1, 13)}
"""Which versions of a request are known: those of Kafka 3.9, without Metadata 0, which can't ask for none."""

_UNKNOWN_TOPIC, _NO_LEADER = 3, 5

_Topic = MetadataResponse.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_Broker = MetadataResponse.MetadataResponseBroker


@frozen
class Scene:
    """How the cluster is.

    Attributes:
        lost: Whether broker `LOST` is gone, and what it led is offline: nobody else was in sync.
        elections: How often that has changed, which raises the leader epochs of these partitions.
        grown: How many topics have one partition more.
    """

    lost: bool = False
    elections: int = 0
    grown: int = 0

    def after(self, change: str) -> "Scene":
        """Return how it is after ``lose``, ``return`` or ``grow``."""
        if change == "grow":
            return evolve(self, grown=self.grown + GROWS_AT_ONCE)
        return evolve(self, lost=change == "lose", elections=self.elections + 1)


def answer(request: bytes, scene: Scene, ports: Sequence[int]) -> bytes | None:
    """Return the answer to a request, both without their size; None for a request that is not known.

    The answer's first four bytes are for the request's correlation id, whichever that is.
    """
    key, version = struct.unpack_from(">hh", request)
    if key == ApiVersionsRequest.API_KEY:
        spoken = [
            ApiVersionsResponse.ApiVersion(
                api_key=api.API_KEY, min_version=versions[0], max_version=versions[-1]
            )
            for api, versions in SPOKEN.items()
        ]
        return _encoded(ApiVersionsResponse(error_code=0, api_keys=spoken, version=version))
    if key == MetadataRequest.API_KEY:
        asked = MetadataRequest.decode(request, version=version, header=True).topics
        names = None if asked is None else [topic.name for topic in asked]
        return _encoded(metadata(scene, ports, version, names))
    return None


def metadata(scene: Scene, ports: Sequence[int], version: int, names: Collection[str] | None) -> Any:
    """Return a ``MetadataResponse`` for some topics; None: for all."""
    known = {_name(number): number for number in range(TOPICS)}
    return MetadataResponse(
        brokers=[
            _Broker(node_id=broker, host=HOST, port=port, rack=f"rack-{broker % 3}")
            for broker, port in zip(BROKERS, ports, strict=True)
            if not (scene.lost and broker == LOST)
        ],
        cluster_id=CLUSTER_ID,
        controller_id=BROKERS[0],
        topics=[_topic(scene, name, known.get(name)) for name in (known if names is None else names)],
        version=version,
    )


def asks_for_all(request: bytes) -> bool:
    """Tell whether it is a Metadata request for all topics."""
    key, version = struct.unpack_from(">hh", request)
    if key != MetadataRequest.API_KEY:
        return False
    return MetadataRequest.decode(request, version=version, header=True).topics is None


def _name(number: int) -> str:
    return f"topic-{number:04d}"


def _topic(scene: Scene, name: str, number: int | None) -> Any:
    if number is None:
        return _Topic(error_code=_UNKNOWN_TOPIC, name=name, topic_id=uuid.UUID(int=0), partitions=[])
    count = PARTITIONS + (number < scene.grown)
    return _Topic(
        error_code=0,
        name=name,
        topic_id=uuid.UUID(int=number + 1),
        is_internal=False,
        partitions=[_partition(scene, number, index) for index in range(count)],
    )


def _partition(scene: Scene, topic: int, index: int) -> Any:
    first = topic * PARTITIONS + index
    replicas = [BROKERS[(first + i) % len(BROKERS)] for i in range(REPLICAS)]
    led_by_lost = replicas[0] == LOST
    offline = led_by_lost and scene.lost
    return _Partition(
        error_code=_NO_LEADER if offline else 0,
        partition_index=index,
        leader_id=-1 if offline else replicas[0],
        leader_epoch=scene.elections if led_by_lost else 0,
        replica_nodes=replicas,
        isr_nodes=replicas,
        offline_replicas=[LOST] if scene.lost and LOST in replicas else [],
    )


def _encoded(response: Any) -> bytes:
    response.with_header(correlation_id=0)
    encoded: bytes = response.encode(header=True)
    return encoded
