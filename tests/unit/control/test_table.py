"""The page on change control shows the states as the code has them."""

from pathlib import Path

from docs.generate.states import table
from kafka_partition_events.control.changes.transitions import TABLE
from kafka_partition_events.control.protocol.vocabulary import State

PAGE = Path(__file__).resolve().parents[3] / "docs" / "change-control.md"


def test_the_page_shows_the_table() -> None:
    assert "\n".join(table()) in PAGE.read_text(encoding="utf-8")


def test_nothing_leaves_a_final_state_and_each_state_is_reached() -> None:
    assert not {source for row in TABLE for source in row.sources if source.final}
    assert {row.target for row in TABLE} | {State.REQUESTED} == set(State)
