"""A web service that turns requests into records, and keeps answering while a broker is dead or slow.

    python examples/web_service.py --bootstrap-servers 127.0.0.1:9092 --topic orders --port 8080
    curl -d 'three pens' http://127.0.0.1:8080/orders     # 202: taken; 503: the producer's queue is full
    curl http://127.0.0.1:8080/health

Requests only call ``produce``, which never waits. One thread calls ``poll``: there delivery reports arrive,
by which a silent broker is found out within tens of milliseconds, and from there records that were stuck are
sent again (``rescue``). Consumers drop the second one: see ordered_consumer.py.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from confluent_kafka import KafkaError, Message

from kafka_partition_events import BrokerCleared, BrokerSuspected, PartitionChangeListener
from kafka_partition_events.clients.confluent import PartitioningProducer


class Operator(PartitionChangeListener):
    """Tells whoever is on call what the producer has found out."""

    def on_broker_suspected(self, event: BrokerSuspected) -> None:
        """Tell that a broker is avoided."""
        found = f"{event.reason} as a {event.role} for {event.silence_ms:.0f} ms"
        print(f"broker {event.broker} is avoided: {found}", flush=True)

    def on_broker_cleared(self, event: BrokerCleared) -> None:
        """Tell that it is used again."""
        print(f"broker {event.broker} is used again after {event.suspected_ms:.0f} ms", flush=True)


class Service(ThreadingHTTPServer):
    """The server, its producer and the thread that listens to the producer."""

    def __init__(self, port: int, servers: str, topic: str) -> None:
        self.topic = topic
        self.delivered = 0
        self.failed = 0
        config = {"bootstrap.servers": servers, "message.timeout.ms": 10_000}
        self.producer = PartitioningProducer(config, rescue="hedge")
        self.producer.poller.register(Operator())
        self._stopping = threading.Event()
        self._listening = threading.Thread(target=self._listen)
        self._listening.start()
        super().__init__(("127.0.0.1", port), Handler)  # calls server_close if the port is taken

    def _listen(self) -> None:
        while not self._stopping.is_set():
            self.producer.poll(0.05)

    def on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        """Count the outcome of one record. Runs in the listening thread."""
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1

    def server_close(self) -> None:
        """Stop; what was taken is sent before."""
        super().server_close()
        self._stopping.set()
        self._listening.join()
        self.producer.close()
        print(f"delivered {self.delivered}, failed {self.failed}", flush=True)


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Service

    def do_POST(self) -> None:
        """Take an order."""
        order = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self.server.producer.produce(self.server.topic, order, on_delivery=self.server.on_delivery)
        except BufferError:  # Kafka is unreachable for long: say so instead of waiting
            self._answer(503, {"error": "try again later"})
        else:
            self._answer(202, {"taken": len(order)})

    def do_GET(self) -> None:
        """Tell how the service is doing."""
        stats = self.server.producer.stats
        self._answer(
            200,
            {
                "delivered": self.server.delivered,
                "failed": self.server.failed,
                "suspect_brokers": sorted(stats.deliveries.suspects),
                "copies": stats.rescue.copies,
            },
        )

    def _answer(self, status: int, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: object) -> None:
        """Keep quiet about single requests."""


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    arguments = parser.parse_args()
    with Service(arguments.port, arguments.bootstrap_servers, arguments.topic) as service:
        print(f"listening on http://127.0.0.1:{service.server_port}", flush=True)
        try:
            service.serve_forever()
        except KeyboardInterrupt:
            print("stopping", flush=True)


if __name__ == "__main__":
    main()
