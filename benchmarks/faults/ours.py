"""Our producer for confluent-kafka, and what it thinks of brokers."""

from collections import Counter
from typing import Any

from benchmarks.faults.senders import ConfluentSender
from benchmarks.faults.spec import Values
from benchmarks.faults.tape import EXCLUSIONS, Tape, exclusions_of
from kafka_partition_events import BrokerSuspected, PartitionChangeListener
from kafka_partition_events.clients.confluent import PartitioningProducer


class OursSender(ConfluentSender):
    """A `PartitioningProducer`, whose measures are how often it excluded a broker, and which."""

    def __init__(
        self, config: dict[str, Any], options: dict[str, Any], topic: str, values: Values, tape: Tape
    ) -> None:
        self._ours = PartitioningProducer(config, **options)
        self._suspicions = _Suspicions()
        self._ours.poller.register(self._suspicions, replay=False)
        super().__init__(self._ours, topic, values, tape)

    def measures(self) -> dict[str, float]:
        by_broker = {exclusions_of(broker): count for broker, count in self._suspicions.brokers.items()}
        return {EXCLUSIONS: self._ours.stats.deliveries.exclusions, **by_broker}


class _Suspicions(PartitionChangeListener):
    def __init__(self) -> None:
        self.brokers: Counter[int] = Counter()

    def on_broker_suspected(self, event: BrokerSuspected) -> None:
        self.brokers[event.broker] += 1
