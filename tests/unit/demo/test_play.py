"""When the demo takes its producers for as fast as usual."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events.demo.play import Play
from kafka_partition_events.demo.progress import DemoProgress
from kafka_partition_events.demo.tape import Tape


def test_a_producer_that_hangs_in_send_has_not_settled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tape.create(tmp_path / "tape", 1_000)
    load: Any = SimpleNamespace(tape=Tape(tmp_path / "tape"), order=lambda _line: None)
    load.tape._cells[0] = time.monotonic_ns() - 5_000_000_000
    play = Play(None, [load], DemoProgress(), 40.0, 250)  # type: ignore[arg-type]
    monkeypatch.setattr(play, "_rest_until", lambda _moment: None)
    assert not play._settles(20)
