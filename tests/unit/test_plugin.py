"""The pytest plugin: cheap to load, and strict about Java under CI."""

import pytest

from kafka_partition_events import jvm
from kafka_partition_events.testing import plugin


def test_without_java_a_test_skips_and_under_ci_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "java", lambda: None)
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match=r"^Java 17 or newer is not installed$"):
        plugin.require_java()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="under CI no test may skip"):
        plugin.require_java()
