"""FastStream on confluent-kafka: its client makes a ``Producer``, and this is one."""

import os
from functools import partial

from faststream import FastStream
from faststream.confluent import KafkaBroker
from faststream.confluent.helpers import client

from kafka_partition_events.clients.confluent import PartitioningProducer

client.Producer = partial(PartitioningProducer, rescue="hedge")

broker = KafkaBroker(os.environ["KAFKA"])
app = FastStream(broker)


@app.after_startup
async def order() -> None:
    await broker.publish("three pens", "orders")
    app.exit()
