"""`kpe change limits`: the orders that hold now, which may be of changes that are over for long."""

import pytest

from tests.change_kit import StoryDesk, documents
from tests.control_kit import ONE, Story, draining, gated, growth, shrinking

Captured = pytest.CaptureFixture[str]


def after(*specs: object) -> StoryDesk:
    story = Story()
    for number, spec in enumerate(specs, 1):
        story.request(spec, change_id=f"chg-{number}")  # type: ignore[arg-type]
    return StoryDesk(story)


def told(desk: StoryDesk, capsys: Captured) -> list[dict[str, object]]:
    assert desk.kpe("change", "limits") == 0
    return documents(capsys.readouterr().out)


def test_a_gate_that_is_held_is_a_limit(capsys: Captured) -> None:
    (row,) = told(after(gated()), capsys)
    assert (row["topic"], row["limit"], row["change_id"]) == ("orders", 6, ONE)


def test_an_order_outlasts_its_change(capsys: Captured) -> None:
    story = Story()
    story.request(shrinking())
    while not story.tick(60).final:
        pass
    (row,) = told(StoryDesk(story), capsys)
    assert (row["limit"], row["offline"]) == (4, "")


def test_a_line_tells_what_is_left_and_by_which_change(capsys: Captured) -> None:
    story = Story()
    story.request(draining())
    story.tick()
    assert StoryDesk(story).kpe("change", "limits", "--output", "table") == 0
    headers, line = capsys.readouterr().out.splitlines()
    assert headers.split() == ["SUBJECT", "ORDER", "SINCE", "CHANGE", "STATE"]
    assert line.startswith("orders ")
    assert "leave 1,4" in line
    assert ONE in line


def test_where_nothing_holds_it_says_so(capsys: Captured) -> None:
    assert after(growth()).kpe("change", "limits", "--output", "table") == 0
    assert "note: no order is in force" in capsys.readouterr().err
