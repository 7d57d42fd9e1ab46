"""The examples of frameworks, each with the real framework on a real Kafka (docs/frameworks.md)."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.ports import HOST, free_ports
from kafka_partition_events.testing.processes import SupervisedProcess
from tests.integration.programs import ended
from tests.waiting_kit import waiting

pytestmark = [pytest.mark.kafka, pytest.mark.weekly]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "frameworks"
BESIDE = Path(sys.prefix) / "frameworks"
"""Where `make frameworks` puts them."""
LIMIT_S = 60.0
wait_until = waiting(LIMIT_S)

Start = Callable[..., SupervisedProcess]
Count = Callable[[], int]
RUNS_BY_ITSELF = {
    "aiokafka": "import asyncio, faststream_aiokafka as example; asyncio.run(example.app.run())",
    "confluent": "import asyncio, faststream_confluent as example; asyncio.run(example.app.run())",
    "kstreams": "import asyncio, kstreams_app; asyncio.run(kstreams_app.main())",
    "taskiq": "import asyncio, taskiq_app; asyncio.run(taskiq_app.main())",
    "django": """
import os
import django
from django.conf import settings
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(DATABASES={"default": database}, DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()
from django.db import connection
from django_outbox import Outbox, relay
from kafka_partition_events.clients.confluent import PartitioningProducer
with connection.schema_editor() as editor:
    editor.create_model(Outbox)
for value in ("three pens", "two pens"):
    Outbox.objects.create(key="42", value=value)
with PartitioningProducer({"bootstrap.servers": os.environ["KAFKA"]}) as producer:
    for left in (1, 0):  # of a key one row each time: the first may have failed
        relay(producer)
        assert Outbox.objects.filter(delivered=False).count() == left
""",
}
CELERY = """
from celery_app import app, order
box = %r
app.conf.broker_transport_options = {"data_folder_in": box, "data_folder_out": box, "control_folder": box}
"""


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    if not BESIDE.is_dir():
        pytest.skip("the frameworks are not installed; `make frameworks` does that")
    cluster = own_kafka_cluster(1)
    cluster.create_topic("orders", 3)
    return cluster


@pytest.fixture
def environment(cluster: KafkaCluster, tmp_path: Path) -> dict[str, str]:
    path = [BESIDE, ROOT, ROOT / "listeners", EXAMPLES, tmp_path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "KAFKA": cluster.bootstrap_servers}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start `python -m` something, and kill it afterwards."""
    with contextlib.ExitStack() as ending:

        def start(*words: str, **more: str) -> SupervisedProcess:
            settings = [f"{name}={value}" for name, value in {**environment, **more}.items()]
            command = ["/usr/bin/env", "-C", str(tmp_path), *settings, sys.executable, "-m", *words]
            process = SupervisedProcess(command, log=tmp_path / "log")
            ending.callback(process.kill)
            return process

        yield start


@pytest.fixture
def pens(cluster: KafkaCluster) -> Iterator[Count]:
    """Return how many orders of three pens have come since the test began."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "test"})
    places = [TopicPartition("orders", number) for number in range(3)]
    ends = [consumer.get_watermark_offsets(place, LIMIT_S)[1] for place in places]
    consumer.assign([TopicPartition("orders", number, end) for number, end in enumerate(ends)])
    found = 0

    def pens() -> int:
        nonlocal found
        found += sum(b"three pens" in (message.value() or b"") for message in consumer.consume(100, 0.5))
        return found

    yield pens
    consumer.close()


def post(port: int) -> int:
    with urllib.request.urlopen(f"http://{HOST}:{port}/orders", b"three pens", timeout=LIMIT_S) as answer:
        return int(answer.status)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1.0):
        return True
    return False


@pytest.mark.parametrize("name", RUNS_BY_ITSELF)
def test_it_sends_by_its_own_means(
    name: str, environment: dict[str, str], tmp_path: Path, pens: Count
) -> None:
    done = ended(sys.executable, "-c", RUNS_BY_ITSELF[name], env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wait_until(lambda: pens() == 1, "an order")


def test_uvicorn_has_a_producer_for_the_life_of_the_application(start: Start, pens: Count) -> None:
    (port,) = free_ports(1)
    server = start("uvicorn", "fastapi_app:app", "--port", str(port))
    wait_until(lambda: listens(port), "uvicorn listens")
    assert post(port) == 200
    wait_until(lambda: pens() == 1, "an order")
    server.send_signal(signal.SIGTERM)
    server.wait(LIMIT_S)


@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["", "preload"])
def test_gunicorn_makes_a_producer_in_each_worker_and_loses_nothing_when_it_ends(
    preload: list[str], start: Start, pens: Count
) -> None:
    (port,) = free_ports(1)
    config = EXAMPLES / "gunicorn_conf.py"
    options = ["-c", str(config), *preload, "-w", "2", "-b", f"{HOST}:{port}"]
    server = start("gunicorn", *options, "wsgi_orders:app")
    wait_until(lambda: listens(port), "gunicorn listens")
    assert [post(port) for _ in range(10)] == [202] * 10
    server.send_signal(signal.SIGTERM)  # at once: what is queued goes first
    assert server.wait(LIMIT_S) == 0
    wait_until(lambda: pens() == 10, "ten orders")


def test_celery_makes_a_producer_in_each_process_of_its_pool(
    start: Start, environment: dict[str, str], tmp_path: Path, pens: Count
) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "shop.py").write_text(CELERY % str(tmp_path / "box"))
    broker = {"BROKER": "filesystem://"}
    worker = start("celery", "-A", "shop", "worker", "-c", "2", **broker)
    send = [sys.executable, "-c", "from shop import order; order.delay('three pens')"]
    subprocess.run(send, env={**environment, **broker}, cwd=tmp_path, timeout=LIMIT_S, check=True)
    wait_until(lambda: pens() == 1, "an order")
    worker.send_signal(signal.SIGTERM)
    worker.wait(LIMIT_S)


def test_celery_runs_a_task_again_whose_record_kafka_refuses(
    cluster: KafkaCluster, start: Start, environment: dict[str, str], tmp_path: Path, pens: Count
) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "shop.py").write_text(CELERY % str(tmp_path / "box"))
    broker = {"BROKER": "filesystem://"}
    cluster.set_config({"max.message.bytes": "100"}, topic="orders")
    try:
        worker = start("celery", "-A", "shop", "worker", "-c", "1", "-l", "info", **broker)
        send = [sys.executable, "-c", "from shop import order; order.delay('three pens' * 100)"]
        subprocess.run(send, env={**environment, **broker}, cwd=tmp_path, timeout=LIMIT_S, check=True)
        wait_until(lambda: "MSG_SIZE_TOO_LARGE" in worker.log.read_text(), "a refusal")
    finally:
        cluster.set_config({"max.message.bytes": None}, topic="orders")
    wait_until(lambda: pens() == 1, "an order")
    worker.send_signal(signal.SIGTERM)
    worker.wait(LIMIT_S)


def test_faust_has_a_class_of_producers(start: Start, pens: Count) -> None:
    worker = start("faust", "-A", "faust_app", "worker", "--without-web")
    wait_until(lambda: pens() == 1, "an order")
    worker.send_signal(signal.SIGTERM)
    worker.wait(LIMIT_S)
