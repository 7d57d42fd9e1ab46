"""FastAPI: ``KAFKA=localhost:9092 uvicorn fastapi_app:app``. Starlette and Litestar have lifespans, too."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from kafka_partition_events.clients.confluent import AsyncPartitioningProducer


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    config = {"bootstrap.servers": os.environ["KAFKA"]}
    async with AsyncPartitioningProducer(config, rescue="hedge") as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def order(request: Request) -> dict[str, int]:
    message = await request.app.state.producer.send("orders", await request.body())
    return {"partition": message.partition(), "offset": message.offset()}
