"""How the Java client's process is started."""

from pathlib import Path

from kafka_partition_events.demo.plan import (
    DELIVERY_LIMIT_MS,
    LINGER_MS,
    REQUEST_LIMIT_MS,
    VALUE_BYTES,
    Part,
)
from kafka_partition_events.jvm import java, kafka_classpath

_SOURCE = Path(__file__).with_name("DemoLoad.java")


def java_command(part: Part, bootstrap_servers: str, rate: int, tape: Path) -> list[str]:
    """Return a command that does what `load` does, with Apache Kafka's own producer. It takes a JDK.

    Java compiles the one file itself when it starts.
    """
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "acks": "all",
        "linger.ms": LINGER_MS,
        "delivery.timeout.ms": DELIVERY_LIMIT_MS,
        "request.timeout.ms": REQUEST_LIMIT_MS,
        "max.block.ms": DELIVERY_LIMIT_MS,
    }
    return [
        str(java()),
        "-Xmx256m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "-cp",
        kafka_classpath(),
        str(_SOURCE),
        part.topic,
        str(rate),
        str(tape),
        str(VALUE_BYTES),
        *(f"{name}={value}" for name, value in settings.items()),
    ]
