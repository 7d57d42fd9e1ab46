"""The pytest plugin: cheap to load, and strict about Java under CI."""

import subprocess
import sys

import pytest

from kafka_partition_events import jvm
from kafka_partition_events.testing import plugin

HEAVY = ("confluent_kafka", "pyspark", "kafka", "ctypes.util", "kafka_partition_events.testing.kafka_cluster")


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    script = f"import sys, {plugin.__name__}; print([m for m in {HEAVY!r} if m in sys.modules])"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_java_a_test_skips_and_under_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "java", lambda: None)
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match=r"^Java 17 or newer is not installed$"):
        plugin.require_java()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="under CI no test may skip"):
        plugin.require_java()
