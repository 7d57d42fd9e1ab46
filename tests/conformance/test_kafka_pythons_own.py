"""kafka-python's own tests of its producer, from its source distribution, with our partitioners in it.

The distribution has those with real brokers, but not all that they import: `kafka_pythons_own` has it.
"""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from kafka_partition_events.testing import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.weekly]
LIMIT_S = 120.0
HERE = Path(__file__).parent
LOCK = HERE.parents[1] / "requirements" / "dev.txt"
TESTS, THEIR_KIT = "test/integration/test_producer_integration.py", "test/testutil.py"


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests of the release that is installed lie; checked by the hashes that we install by."""
    where = tmp_path_factory.mktemp("kafka-python")
    name = f"kafka-python=={version('kafka-python')}"
    entries = re.split(r"\n(?=\S)", LOCK.read_text())
    (locked,) = (entry for entry in entries if entry.startswith(name))
    (where / "wanted.txt").write_text(locked)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "-r", "wanted.txt"], cwd=where, check=True, timeout=LIMIT_S)
    (archive,) = where.glob("kafka_python-*.tar.gz")
    root = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(
            where, [packed.getmember(f"{root}/{file}") for file in (TESTS, THEIR_KIT)], filter="data"
        )
    (where / root / "test" / "__init__.py").touch()  # else Python's own package of that name is found
    return where / root


@pytest.fixture(scope="module")
def cluster(own_kafka_cluster: Callable[..., KafkaCluster]) -> KafkaCluster:
    cluster = own_kafka_cluster(brokers=1, broker_config={"auto.create.topics.enable": "true"})
    cluster.create_topic("transactional_test_topic", 2)  # by two partitions of which its last test goes
    return cluster


@pytest.mark.parametrize(
    ("partitioner", "attached"),
    [
        ("AdaptivePartitioner", "yes"),
        ("RoundRobinPartitioner", "yes"),
        ("UniformStickyPartitioner", "no"),
        ("GrowthSafePartitioner", "no"),
    ],
)
def test_they_pass(suite: Path, cluster: KafkaCluster, partitioner: str, attached: str) -> None:
    environment = {
        "KAFKA_VERSION": "4.0",
        "KPE_BROKERS": cluster.bootstrap_servers,
        "KPE_PARTITIONER": partitioner,
        "KPE_ATTACH": attached,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "yes",
        "PYTHONPATH": str(HERE),
    }
    options = ["-c", os.devnull, f"--rootdir={suite}", "-p", "no:cacheprovider", "-p", "kafka_pythons_own"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, TESTS],
        cwd=suite,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"1\d passed", done.stdout), "they were skipped"
