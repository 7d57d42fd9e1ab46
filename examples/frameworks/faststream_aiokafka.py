"""FastStream on aiokafka: attach to the producer that its broker has started."""

import os

from faststream import FastStream
from faststream.kafka import KafkaBroker

from kafka_partition_events.clients.aiokafka import attach

broker = KafkaBroker(os.environ["KAFKA"])
app = FastStream(broker)


@app.after_startup
async def order() -> None:
    attach(broker.config.producer._producer.producer, rescue="hedge")
    await broker.publish("three pens", "orders")
    app.exit()
