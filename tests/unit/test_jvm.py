"""The store of the JVM jars: nothing unverified is ever used, and every fault is named. No network."""

import hashlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from attrs import evolve

from kafka_partition_events import jvm
from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm import ivy
from kafka_partition_events.jvm.java import find_java
from kafka_partition_events.jvm.store import RETRY, JarStore, find_faults
from kafka_partition_events.testing import KafkaCluster
from tests.threads_kit import together

JARS = {"kafka/server-1.jar": b"server", "kafka/clients-1.jar": b"clients", "spark/connector-2.jar": b"spark"}


class FakeFetch:
    """Writes jars as a download would; counts its calls."""

    def __init__(self, jars: dict[str, bytes]) -> None:
        self.jars = jars
        self.calls = 0

    def __call__(self, _ivy_file: Path, into: Path, cache: Path) -> str:
        self.calls += 1
        cache.mkdir(exist_ok=True)
        for name, content in self.jars.items():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(content)
        return "what Ivy said"


@pytest.fixture
def store(tmp_path: Path) -> JarStore:
    (tmp_path / "ivy.xml").write_text("<ivy-module/>")
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in JARS.items()]
    (tmp_path / "jars.sha256").write_text("".join(lines))
    return JarStore.of(
        ivy_file=tmp_path / "ivy.xml", checksums_file=tmp_path / "jars.sha256", parent=tmp_path / "cache"
    )


def test_jars_are_fetched_once(store: JarStore) -> None:
    fetch = FakeFetch(JARS)
    assert not store.is_complete()

    assert store.ensure(fetch) == store.directory
    assert store.ensure(fetch) == store.directory

    assert fetch.calls == 1
    assert store.is_complete()
    assert (store.directory / "spark/connector-2.jar").read_bytes() == b"spark"
    # No scratch directory and no Ivy cache stay behind.
    assert sorted(path.suffix for path in store.directory.parent.iterdir()) == ["", ".lock"]


def test_many_threads_fetch_once(store: JarStore) -> None:
    fetch = FakeFetch(JARS)
    together(*[lambda: store.ensure(fetch)] * 8)
    assert fetch.calls == 1
    assert store.is_complete()


def test_missing_jars_are_named_and_what_has_arrived_is_kept(store: JarStore) -> None:
    fetch = FakeFetch({"kafka/clients-1.jar": b"clients"})
    with pytest.raises(JvmError) as failure:
        store.ensure(fetch)

    message = str(failure.value)
    assert "2 of 3 missing: kafka/server-1.jar, spark/connector-2.jar" in message
    assert "kafka/clients-1.jar" not in message
    assert "what Ivy said" in message
    assert RETRY in message
    assert not store.directory.exists()
    assert store.directory.with_suffix(".ivy").exists()


def test_a_corrupt_jar_is_named_and_not_kept(store: JarStore) -> None:
    fetch = FakeFetch({**JARS, "kafka/clients-1.jar": b"clientz"})
    with pytest.raises(JvmError, match=r"sha256 differs from the lock's: kafka/clients-1\.jar;"):
        store.ensure(fetch)
    assert not store.directory.exists()
    assert not store.directory.with_suffix(".ivy").exists()  # else Ivy would hand it out again

    store.ensure(FakeFetch(JARS))
    assert store.is_complete()


@pytest.mark.parametrize(
    "damage",
    [
        lambda jar: jar.unlink(),
        lambda jar: jar.write_bytes(b"clie"),
        lambda jar: (jar.parent.parent / "verified.txt").unlink(),
        lambda jar: shutil.rmtree(jar.parent),
    ],
    ids=["a jar is gone", "a jar is truncated", "the stamp is gone", "a folder is gone"],
)
def test_a_damaged_directory_is_fetched_again(store: JarStore, damage: Callable[[Path], None]) -> None:
    store.ensure(FakeFetch(JARS))
    damage(store.directory / "kafka/clients-1.jar")
    assert not store.is_complete()

    store.ensure(FakeFetch(JARS))
    assert find_faults(store.directory, store.checksums) == ([], [])


def test_other_checksums_invalidate_the_directory(store: JarStore) -> None:
    store.ensure(FakeFetch(JARS))
    assert not evolve(store, checksums={**store.checksums, "spark/connector-2.jar": "0" * 64}).is_complete()


def test_kafka_is_the_newest_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KPE_KAFKA_VERSION", raising=False)
    assert jvm.kafka_lock() == "kafka-4.1"
    monkeypatch.setenv("KPE_KAFKA_VERSION", "3.9")
    assert jvm.kafka_lock() == "kafka-3.9"
    assert jvm.kafka_lock("3.7") == "kafka-3.7"
    with pytest.raises(JvmError, match=r"no jars of Kafka 2\.8, only of 3\.7, 3\.9, 4\.0, 4\.1"):
        KafkaCluster(version="2.8").start()


def make_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def test_java_comes_from_java_home_then_from_path(tmp_path: Path) -> None:
    newer, older = make_java(tmp_path / "21", "21.0.2"), make_java(tmp_path / "11", "11.0.22")
    oldest = make_java(tmp_path / "8", "1.8.0_402")
    path = os.pathsep.join
    assert find_java({"JAVA_HOME": str(tmp_path / "21"), "PATH": str(older.parent)}) == newer
    assert find_java({"JAVA_HOME": str(tmp_path / "11"), "PATH": str(newer.parent)}) == newer
    assert find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(newer.parent)}) == newer
    assert find_java({"PATH": path([str(older.parent), str(tmp_path)])}) is None
    assert find_java({"PATH": str(oldest.parent)}) is None
    assert find_java({"PATH": ""}) is None


def test_without_java_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert jvm.java() is None
    with pytest.raises(JvmError, match="Java 17 or newer is not installed: install it, or let JAVA_HOME"):
        jvm.ensure_jars(jvm.SPARK)


@pytest.fixture
def no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


def test_without_pyspark_and_jgo_the_error_names_the_extra(
    no_pyspark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jgo.maven", None)
    with pytest.raises(JvmError, match=r"kafka-partition-events\[demo\]"):
        ivy.ivy_jar(tmp_path)


class FakeJgo(ModuleType):
    """Stands for ``jgo.maven``: writes a jar, or fails."""

    def __init__(self, content: bytes | None) -> None:
        super().__init__("jgo.maven")
        self.content = content

    def MavenContext(self, repo_cache: Path) -> "FakeJgo":  # noqa: N802 - its name there
        self.jar = repo_cache / "ivy.jar"
        return self

    def create_dependency(self, coordinate: str) -> "FakeJgo":
        assert coordinate.startswith("org.apache.ivy:ivy:2.")
        self.artifact = self
        return self

    def resolve(self) -> Path:
        if self.content is None:
            raise OSError("no route to host")
        self.jar.parent.mkdir(parents=True)
        self.jar.write_bytes(self.content)
        return self.jar


@pytest.mark.parametrize(
    ("content", "trouble"),
    [
        (b"ivy", ""),
        (b"another", r"sha256 of ivy\.jar differs"),
        (None, "could not be fetched: no route to host"),
    ],
    ids=["the pinned one", "not the pinned one", "no network"],
)
def test_without_pyspark_jgo_fetches_ivy_which_is_used_if_it_is_the_pinned_one(
    content: bytes | None, trouble: str, no_pyspark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jgo = FakeJgo(content)
    monkeypatch.setitem(sys.modules, "jgo.maven", jgo)
    monkeypatch.setattr(ivy, "_IVY_SHA256", hashlib.sha256(b"ivy").hexdigest())
    if not trouble:
        assert ivy.ivy_jar(tmp_path).read_bytes() == b"ivy"
        return
    with pytest.raises(JvmError, match=trouble):
        ivy.ivy_jar(tmp_path)
    assert not jgo.jar.exists()
