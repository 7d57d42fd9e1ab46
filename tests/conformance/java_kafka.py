"""Apache Kafka's Java classes in a JVM of their own, driven over Py4J. No Java is compiled: a JRE will do.

A call into the JVM takes about 0.1 ms, too long for 100,000 records. So what is to be done with each is put
together from method handles (``java.lang.invoke``) to one function, which the JVM applies to a whole list.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from py4j.java_gateway import (  # type: ignore[import-untyped]
    GatewayParameters,
    JavaGateway,
    find_jar_path,
)

from kafka_partition_events.jvm import java, kafka_classpath

CLIENTS = "org.apache.kafka.clients.producer"
_STOP_LIMIT_S = 20.0


class JavaKafka:
    """One JVM with Kafka's clients. It ends with the context manager, and when this process ends."""

    def __enter__(self) -> Self:
        classpath = os.pathsep.join((find_jar_path(), kafka_classpath()))
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        command = [
            str(java()), "-Xmx512m", quiet, "-cp", classpath,
            "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        said = self._process.stdout
        assert said is not None
        port, token = int(said.readline()), said.readline().strip()
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        self._jvm = self._gateway.jvm
        self._mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()  # Kafka brings it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gateway.shutdown()
        self._process.communicate(timeout=_STOP_LIMIT_S)  # it ends with its standard input

    def partitions_for(self, keys: Iterable[bytes], partitions: int) -> list[int]:
        """Return where the built-in partitioner places keys (``BuiltInPartitioner.partitionForKey``)."""
        places = self.list_of_bytes(keys)
        for_key = self.method(f"{CLIENTS}.internals.BuiltInPartitioner", "partitionForKey", "[B", int)
        self.apply(self.given(for_key, 1, partitions), places)
        computed: list[int] = json.loads(self._mapper.writeValueAsString(places))
        return computed

    def producer(self, settings: Mapping[str, str]) -> "JavaProducer":
        """Return a new ``KafkaProducer`` of bytes."""
        config = self._jvm.java.util.HashMap()
        serializer = "org.apache.kafka.common.serialization.ByteArraySerializer"
        for name, value in {"key.serializer": serializer, "value.serializer": serializer, **settings}.items():
            config.put(name, value)
        return JavaProducer(self, self._jvm.org.apache.kafka.clients.producer.KafkaProducer(config))

    # -- functions of one element --------------------------------------------------------------------

    def apply(self, function: Any, elements: Any) -> None:
        """Replace each element of a Java list by the function's answer."""
        operator = self._class("java.util.function.UnaryOperator")
        elements.replaceAll(
            self._jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(operator, function)
        )

    def method(self, owner: str, name: str, *parameters: str | type[int]) -> Any:
        """Return a method; for one that is not static, the object is the first argument."""
        found = self._class(owner).getMethod(name, self._classes(*parameters))
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup().unreflect(found)

    def constructor(self, owner: str, *parameters: str) -> Any:
        found = self._class(owner).getConstructor(self._classes(*parameters))
        return self._jvm.java.lang.invoke.MethodHandles.publicLookup().unreflectConstructor(found)

    def given(self, function: Any, position: int, argument: Any) -> Any:
        """Return the function with one argument given."""
        arguments = self._gateway.new_array(self._jvm.java.lang.Object, 1)
        arguments[0] = argument
        return self._jvm.java.lang.invoke.MethodHandles.insertArguments(function, position, arguments)

    def then(self, first: Any, second: Any) -> Any:
        return self._jvm.java.lang.invoke.MethodHandles.filterReturnValue(first, second)

    def _class(self, name: str | type[int]) -> Any:
        return self._jvm.java.lang.Integer.TYPE if name is int else self._jvm.java.lang.Class.forName(name)

    def _classes(self, *names: str | type[int]) -> Any:
        classes = self._gateway.new_array(self._jvm.java.lang.Class, len(names))
        for i, name in enumerate(names):
            classes[i] = self._class(name)
        return classes

    # -- lists ---------------------------------------------------------------------------------------

    def list_of_bytes(self, elements: Iterable[bytes]) -> Any:
        """Return a Java list of byte arrays, brought there as one text."""
        text = json.dumps([element.hex() for element in elements])
        made = self._mapper.readValue(text, self._class("java.util.ArrayList"))
        parse = self.method("java.util.HexFormat", "parseHex", "java.lang.CharSequence")
        self.apply(self.given(parse, 0, self._jvm.java.util.HexFormat.of()), made)
        return made

    def list_of_nulls(self, count: int) -> Any:
        return self._jvm.java.util.ArrayList(self._jvm.java.util.Collections.nCopies(count, None))


class JavaProducer:
    """A Java ``KafkaProducer``."""

    def __init__(self, kafka: JavaKafka, producer: Any) -> None:
        self._kafka = kafka
        self._producer = producer

    def unkeyed(self, topic: str, value: bytes) -> Callable[[int], None]:
        """Return what sends a number of records without a key."""
        send = self._sending(topic, value)
        return lambda count: self._kafka.apply(send, self._kafka.list_of_nulls(count))

    def close(self) -> None:
        """Wait until all is sent."""
        self._producer.close()

    def _sending(self, topic: str, value: bytes) -> Any:
        """Return key -> ``producer.send(new ProducerRecord(topic, key, value))``."""
        kafka, record, anything = self._kafka, f"{CLIENTS}.ProducerRecord", "java.lang.Object"
        made = kafka.constructor(record, "java.lang.String", anything, anything)
        send = kafka.method(f"{CLIENTS}.KafkaProducer", "send", record)
        return kafka.then(
            kafka.given(kafka.given(made, 2, value), 0, topic), kafka.given(send, 0, self._producer)
        )
