"""Which classes a cluster's JVMs share, and that nothing but a whole file is ever used."""

import os
from pathlib import Path

import pytest

from kafka_partition_events.testing.cluster.class_archive import ClassArchive


@pytest.fixture
def java(tmp_path: Path) -> Path:
    java = tmp_path / "jdk" / "java"
    java.parent.mkdir()
    java.write_text("a JVM")
    return java


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (jars := tmp_path / "jars").mkdir()
    return jars


def written(archive: ClassArchive) -> None:
    assert archive.draft is not None
    archive.draft.write_text("classes")


def test_the_first_cluster_writes_and_later_ones_map_that(tmp_path: Path, java: Path, jars: Path) -> None:
    first = ClassArchive.of(java, jars, tmp_path)
    assert first.options == ()
    assert first.options_of_writer == (f"-XX:ArchiveClassesAtExit={first.draft}",)
    written(first)
    assert ClassArchive.of(java, jars, tmp_path).options == (), "a file that may not be whole is not used"
    first.keep()
    later = ClassArchive.of(java, jars, tmp_path)
    assert later.options == later.options_of_writer
    assert later.options[0] == f"-XX:SharedArchiveFile={first.path}"
    assert first.path.read_text() == "classes"
    assert [path.name for path in tmp_path.glob("*.jsa")].count(first.path.name) == 1
    assert len(list(tmp_path.iterdir())) == 4, "the JDK, the jars, the draft, and the file"


def test_other_jars_and_another_jdk_have_classes_of_their_own(tmp_path: Path, java: Path, jars: Path) -> None:
    paths = {ClassArchive.of(java, of, tmp_path).path for of in (jars, tmp_path / "4.0")}
    os.utime(java, ns=(1, 1))  # an update
    paths.add(ClassArchive.of(java, jars, tmp_path).path)
    assert len(paths) == 3


def test_a_writer_that_was_killed_leaves_nothing_to_keep(tmp_path: Path, java: Path, jars: Path) -> None:
    archive = ClassArchive.of(java, jars, tmp_path)
    archive.keep()
    assert not archive.path.exists()


def test_where_nothing_can_be_kept_clusters_work_all_the_same(tmp_path: Path, java: Path) -> None:
    archive = ClassArchive.of(java, tmp_path / "gone" / "jars", tmp_path)
    written(archive)
    archive.keep()
    assert not archive.path.exists()
