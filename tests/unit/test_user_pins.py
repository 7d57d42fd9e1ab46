"""Pins when no store is given: whose file it is, that it outlives a restart, and what is refused."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from structlog.testing import capture_logs

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.partitioners import user_pins
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import Pin
from kafka_partition_events.partitioners.user_pins import UserPinStore
from kafka_partition_events.testing.clock import ManualClock
from kafka_partition_events.testing.scripted import cluster_of
from tests.growth_kit import modulo, places

ON_DISK = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw"
SIX = (Pin(1, 6, 100.0),)
Start = Callable[..., GrowthSafePartitioner]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the user's state be here, on a disk; return the directory of the pins, which is not there yet."""
    monkeypatch.setattr(user_pins, "_MOUNTS", tmp_path / "mounts")
    (tmp_path / "mounts").write_text(ON_DISK)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "kafka-partition-events"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def start(clock: ManualClock) -> Iterator[Start]:
    """Start a program that writes to topic t, as it was told of nothing but the cluster."""
    with ExitStack() as running:

        def start(partitions: int | None = 6, cluster_id: str | None = "c-1") -> GrowthSafePartitioner:
            instance = running.enter_context(closing(GrowthSafePartitioner(mapping="pinned", clock=clock)))
            if partitions is not None:
                instance.adopt(cluster(partitions, cluster_id))
            return instance

        yield start


def cluster(partitions: int, cluster_id: str | None = "c-1") -> Any:
    return cluster_of({"t": [1] * partitions}, cluster_id=cluster_id)


def in_the_store(instance: GrowthSafePartitioner) -> None:
    """Do what the instance's thread does a moment after a topic was pinned."""
    assert instance._topics is not None
    instance._topics.step()
    assert instance.last_error is None


class TestAFile:
    def test_keeps_keys_over_a_restart(self, start: Start) -> None:
        first = start(6)
        assert places(first) == modulo(6)
        in_the_store(first)
        first.close()
        assert places(start(12)) == modulo(6)

    def test_is_made_with_the_first_pin_in_a_directory_of_the_users_own(
        self, start: Start, state: Path
    ) -> None:
        instance = start(6)
        assert os.listdir(state) == []  # noqa: PTH208
        places(instance)
        in_the_store(instance)
        assert FilePinStore(state / "pins-c-1.json").read() == instance.pins
        assert state.stat().st_mode & 0o777 == 0o700

    def test_is_shared_by_all_programs_of_the_user(self, start: Start) -> None:
        first = start(6)
        places(first)
        in_the_store(first)
        second = start(12)
        assert second.pins == first.pins
        assert places(second) == modulo(6)

    def test_is_of_one_cluster(self, start: Start) -> None:
        here, there = start(6, "c-1"), start(12, "c-2")
        assert (places(here), places(there)) == (modulo(6), modulo(12))
        for instance in (here, there):
            in_the_store(instance)
        assert (places(start(24, "c-1")), places(start(24, "c-2"))) == (modulo(6), modulo(12))

    def test_is_told_once(self, start: Start, state: Path) -> None:
        with capture_logs() as logs:
            instance = start(6)
            instance.adopt(cluster(12))
        assert [(log["event"], log["path"]) for log in logs] == [("pins_kept", f"{state}/pins-c-1.json")]

    def test_has_a_name_that_leads_nowhere_else(self, state: Path) -> None:
        store = UserPinStore()
        store.bind("../../etc/x")
        store.replace("t", None, SIX)
        assert {path.parent for path in state.rglob("*.json")} == {state}
        again = UserPinStore()
        assert again.bind("../../etc/x") == {"t": SIX}

    def test_is_in_place_before_the_first_key_on_kafka_python_too(self, start: Start) -> None:
        first = start(None)
        assert places(first, cluster=cluster(6)) == modulo(6)
        in_the_store(first)
        assert places(start(None), cluster=cluster(12)) == modulo(6)

    def test_may_be_renewed_before_the_cluster_is_known(self, start: Start, clock: ManualClock) -> None:
        early = start(None)
        first = start(6)
        places(first)
        in_the_store(first)
        in_the_store(early)
        early.adopt(cluster(12))
        assert places(early) == modulo(6)

    def test_can_be_cut_over(self, start: Start, clock: ManualClock, state: Path) -> None:
        instance = start(6)
        places(instance)
        instance.adopt(cluster(12))
        pin = instance.cut_over("t")
        assert FilePinStore(state / "pins-c-1.json").read()["t"][-1] == pin
        clock.advance(60)
        in_the_store(instance)
        assert places(instance) == modulo(12)


class TestACluster:
    def test_without_an_id_has_pins_in_memory_and_that_is_told(self, start: Start, state: Path) -> None:
        instance = start(6, None)
        assert places(instance) == modulo(6)
        assert instance._topics is not None
        instance._topics.step()
        assert instance.last_error is not None
        assert instance.last_error.startswith(f"{state}: the cluster has not told its id")
        instance.adopt(cluster(12))
        in_the_store(instance)
        assert places(instance) == modulo(6)
        assert places(start(24)) == modulo(6)


class TestANewStore:
    def test_is_a_warning_because_it_may_be_one_that_was_lost(self, start: Start) -> None:
        instance = start(None)
        instance.adopt(cluster_of({"t": [1] * 6, "u": [1] * 3}, cluster_id="c-1"))
        with capture_logs() as logs:
            places(instance), places(instance, "u")
            places(instance)
        told = [log for log in logs if log["event"] == "topic_pinned"]
        assert told == [
            {
                "event": "topic_pinned",
                "log_level": "warning",
                "topic": "t",
                "partitions": 6,
                "new_store": True,
            },
            {"event": "topic_pinned", "log_level": "info", "topic": "u", "partitions": 3, "new_store": False},
        ]

    def test_is_none_after_a_restart(self, start: Start) -> None:
        first = start(6)
        places(first)
        in_the_store(first)
        with capture_logs() as logs:
            places(start(6))
        assert [log["event"] for log in logs] == ["pins_kept"]


class TestTheDirectory:
    @pytest.mark.parametrize(
        ("variables", "directory"),
        [
            ({"STATE_DIRECTORY": "/srv/a:/srv/b", "XDG_STATE_HOME": "/srv/x"}, "/srv/a"),
            ({"XDG_STATE_HOME": "/srv/x"}, "/srv/x"),
            ({"XDG_STATE_HOME": ""}, "/home/ada/.local/state"),
            ({"XDG_STATE_HOME": "not/absolute"}, "/home/ada/.local/state"),
        ],
        ids=["of a systemd unit", "of the user", "by default", "a relative one is ignored"],
    )
    def test_is_where_programs_keep_their_state(
        self, variables: dict[str, str], directory: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in {"HOME": "/home/ada", **variables}.items():
            monkeypatch.setenv(name, value)
        assert user_pins._state_directory() == Path(directory) / "kafka-partition-events"

    def test_that_would_not_outlive_a_restart_is_refused(self, tmp_path: Path, state: Path) -> None:
        (tmp_path / "mounts").write_text("27 1 0:50 / / rw - overlay overlay rw,lowerdir=/a")
        with pytest.raises(PinStoreError, match=r"pins would be lost .* overlay\. .* store=FilePinStore"):
            GrowthSafePartitioner(mapping="pinned")
        assert not state.exists()

    def test_on_a_volume_of_a_container_is_fine(self, tmp_path: Path, state: Path) -> None:
        volume = str(tmp_path).replace(" ", "\\040")
        (tmp_path / "mounts").write_text(
            "27 1 0:50 / / rw - overlay overlay rw\n"
            f"28 27 254:1 /data {volume} rw shared:1 - ext4 /dev/vdb rw\n"
            f"29 27 0:51 / {volume}-other rw - tmpfs tmpfs rw"
        )
        assert UserPinStore().directory == state
        (tmp_path / "mounts").write_text(
            f"28 27 254:1 /data {volume} rw - ext4 /dev/vdb rw\n"
            f"30 28 0:52 / {volume}/state rw - tmpfs none rw"
        )
        with pytest.raises(PinStoreError, match="tmpfs"):
            UserPinStore()

    def test_is_taken_for_one_on_a_disk_where_nobody_tells(self, tmp_path: Path, state: Path) -> None:
        (tmp_path / "mounts").unlink()
        assert UserPinStore().directory == state

    def test_that_can_not_be_made_is_told_with_the_cure(self, state: Path) -> None:
        state.parent.write_text("a file")
        with pytest.raises(
            PinStoreError, match=r"can't write pins: .*\. .* let XDG_STATE_HOME name"
        ) as refusal:
            GrowthSafePartitioner(mapping="pinned")
        assert str(state) in str(refusal.value)

    def test_that_may_not_be_written_is_told_at_once(
        self, state: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
        with pytest.raises(PinStoreError, match="can't write pins: it may not be written"):
            UserPinStore()

    def test_is_nowhere_without_a_home(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("XDG_STATE_HOME")
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
        with pytest.raises(PinStoreError, match="there is no home directory"):
            UserPinStore()

    def test_with_a_file_of_something_else_refuses_that_clusters_keys_until_it_is_mended(
        self, state: Path
    ) -> None:
        """Another cluster's file, of a newer version say, is not this producer's affair."""
        state.mkdir(parents=True)
        file = state / "pins-c-1.json"
        file.write_text("{")
        partitioners = [GrowthSafePartitioner(mapping="pinned") for _ in range(2)]
        for partitioner, cluster_id in zip(partitioners, ("c-1", "c-2"), strict=True):
            partitioner.adopt(evolve(cluster_of({"t": [1, 1]}), cluster_id=cluster_id))
        ours, others = partitioners
        for _ in range(2):
            with pytest.raises(PinStoreError, match=r"pins-c-1\.json holds no pins"):
                ours.partition("t", None, b"k", None, None, None)
        assert ours.partition("t", None, None, None, None, None) in {0, 1}, "it has no key"
        assert others.partition("t", None, b"k", None, None, None) in {0, 1}
        file.write_text('{"format": "kpe.pins", "version": 1, "topics": {}}')
        assert ours._topics is not None
        ours._topics.step()
        assert ours.partition("t", None, b"k", None, None, None) in {0, 1}
        for partitioner in partitioners:
            partitioner.close()
