"""Change control: who has followed a change, and producers that wait for consumers (KIP-34's feedback loop).

Six rooms; what is in one may use those named before it only:

- `protocol`: what is on the wire, and what it means;
- `groups`: what brokers report of consumer groups and of writers;
- `changes`: what becomes of a change;
- `agents` (of `protocol` alone): in an application, what follows changes;
- `operate`: what an operator's commands need;
- `tracker`: the service that decides.

An application imports its agent from here, and `ControlLink` and `RebalanceHook` from `agents.confluent`.
Importing this imports no Kafka client.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_partition_events.control.agents.consumer_agent import ConsumerAgent
    from kafka_partition_events.control.agents.producer_agent import ProducerAgent

__all__ = ["ConsumerAgent", "ProducerAgent"]

_HOME = {"ConsumerAgent": "consumer_agent", "ProducerAgent": "producer_agent"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.agents.{_HOME[name]}"), name)
