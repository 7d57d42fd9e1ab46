"""Build the wheel, install it into a clean environment, and use it there, away from the checkout.

Run by ``make wheel``; not a pytest file, because it must not see the checkout's own packages.
"""

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {"kafka_partition_events", "kafka_partition_events_listeners"}
NEEDED = {
    "kafka_partition_events/py.typed",
    "kafka_partition_events/assets/container/Containerfile",
    "kafka_partition_events/assets/grafana/cluster-now.json",
    "kafka_partition_events/assets/kpe.example.toml",
    "kafka_partition_events/assets/kubernetes/observer.yaml",
    "kafka_partition_events/assets/prometheus/rules.yml",
    "kafka_partition_events/assets/schemas/common.json",
    "kafka_partition_events/assets/systemd/kpe-tracker.service",
    "kafka_partition_events/assets/systemd/kpe.service",
    "kafka_partition_events/jvm/kafka-4.1.sha256",
    "kafka_partition_events/jvm/kafka-4.1.xml",
    "kafka_partition_events/jvm/spark.sha256",
    "kafka_partition_events/jvm/spark.xml",
    "kafka_partition_events/spark/log4j2.properties",
    "kafka_partition_events/spark/submit/kpe_spark.py",
    "kafka_partition_events_listeners/py.typed",
}
USE = """
import importlib, pkgutil, sys
import kafka_partition_events as kpe
import kafka_partition_events.listeners, kafka_partition_events_listeners
for name in kpe.__all__:
    getattr(kpe, name)
loaded = {module.partition(".")[0] for module in sys.modules}
assert not loaded & {"kafka", "confluent_kafka", "pyspark", "typer"}, loaded
assert "site-packages" in kpe.__file__, kpe.__file__
partitioner = kpe.DefaultPartitioner()
partitioner.apply_snapshot(kpe.Cluster(
    nodes=[kpe.Node(1, "localhost", 9092)],
    by_topic=[kpe.TopicInfo("orders", tuple(kpe.PartitionInfo("orders", i, 1) for i in range(12)))],
    generation=1,
))
assert partitioner.partition("orders", None, b"foobar", None, b"", None) == 6
print("version", kpe.__version__)
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kpe-wheel-") as folder:
        clean = Path(folder)
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", clean, cwd=ROOT)
        (wheel,) = clean.glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        top_level = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
        if top_level != TOP_LEVEL:
            sys.exit(f"the wheel installs {sorted(top_level)}, not {sorted(TOP_LEVEL)}")
        if missing := NEEDED - names:
            sys.exit(f"the wheel lacks {sorted(missing)}")
        venv.create(clean / "venv", with_pip=True)
        python = clean / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", wheel, cwd=clean)
        print(wheel.name, run(python, "-W", "error", "-c", USE, cwd=clean))
        without_cli = subprocess.run(
            [str(clean / "venv" / "bin" / "kpe"), "--help"],
            cwd=clean,
            capture_output=True,
            text=True,
            check=False,
        )
        if without_cli.returncode != 2 or "kafka-partition-events[cli]" not in without_cli.stderr:
            sys.exit(f"kpe without its extra should name it and exit 2: {without_cli}")


if __name__ == "__main__":
    main()
