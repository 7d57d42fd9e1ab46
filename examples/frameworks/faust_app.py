"""faust-streaming: ``faust -A faust_app worker``: its driver takes a class of producers."""

import os

import faust
from faust.transport.drivers import aiokafka

from kafka_partition_events import AdaptivePartitioner
from kafka_partition_events.clients.aiokafka import PartitioningAIOKafkaProducer


class Producer(aiokafka.Producer):
    _producer_type = PartitioningAIOKafkaProducer


aiokafka.Transport.Producer = Producer
app = faust.App("orders", broker=f"kafka://{os.environ['KAFKA']}", producer_partitioner=AdaptivePartitioner())
topic = app.topic("orders", value_serializer="raw")


@app.task
async def order() -> None:
    await (await topic.send(value=b"three pens"))
