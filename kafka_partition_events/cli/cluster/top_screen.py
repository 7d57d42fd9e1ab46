"""The screen of ``kpe top``, by Textual: four tables under the lines that say what is known."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static

from kafka_partition_events.cli.cluster.top_view import LEGEND, NOTHING, Look, Row, Tone, view

_REFRESH_S: Final = 1.0
_COLOURS: Final[dict[Tone, str]] = {"bad": "bold red", "warn": "yellow", "good": "green", "plain": ""}
_TABLES: Final = {
    "wrong": ("what is wrong", ("severity", "alert", "for", "what")),
    "brokers": ("brokers", ("broker", "state", "leaders", "replicas", "behind", "address")),
    "topics": (f"topics by broker:  {LEGEND}", ("topic", "partitions", "no leader", "brokers")),
    "events": ("events, the latest first", ("between, UTC", "what")),
}


class Top(App[None]):
    """The whole screen. Reads clusters once a second, and whenever `show` is called."""

    TITLE = "kpe top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #honesty { height: auto; }
    DataTable { height: 1fr; border-top: solid; scrollbar-size: 1 1; }
    #wrong { height: 2fr; }
    #said { height: auto; display: none; }
    #filter { display: none; height: 1; border: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "app.focus_next", "next table"),
        Binding("slash", "filter", "filter"),
        Binding("c,enter", "command", "kpe command"),
        Binding("escape", "all", "all rows", show=False),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, looks: Callable[[], Sequence[Look]]) -> None:
        """Make it; nothing is read before it runs.

        Args:
            looks: Returns what is known of each cluster; called on the screen's thread.
        """
        super().__init__()
        self._looks, self._pattern, self._view = looks, "", NOTHING
        self._several = False

    def compose(self) -> ComposeResult:
        """Make the tables."""
        yield Static(id="honesty", markup=False)
        for name, (title, _) in _TABLES.items():
            table: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=False)
            table.border_title = title
            yield table
        yield Static(id="said", markup=False)
        yield Input(id="filter", placeholder="only rows with this text; empty: all", compact=True)
        yield Footer()

    def on_mount(self) -> None:
        """Show what is known, and go on."""
        looks = self._looks()
        self._several = len(looks) > 1
        for name, (_, columns) in _TABLES.items():
            self._table(name).add_columns(*(("cluster",) if self._several else ()), *columns)
        self.show()
        self.set_interval(_REFRESH_S, self.show)
        self._table("wrong").focus()

    def show(self) -> None:
        """Read the clusters and show what is known of them now."""
        if not self.query("#honesty"):
            return  # it is being closed
        before, self._view = self._view, view(self._looks(), self._pattern, self._view)
        self.query_one("#honesty", Static).update("\n".join(self._view.honesty))
        for name in _TABLES:
            rows: tuple[Row, ...] = getattr(self._view, name)
            if rows != getattr(before, name):
                self._fill(self._table(name), rows)

    def action_filter(self) -> None:
        """Ask for a text."""
        asked = self.query_one("#filter", Input)
        asked.display = True
        asked.focus()

    def action_all(self) -> None:
        """Show all rows, and nothing else."""
        self.query_one("#said", Static).display = False
        asked = self.query_one("#filter", Input)
        asked.value = ""
        self._filter(asked)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Show the rows that have the text."""
        self._filter(event.input)

    def action_command(self) -> None:
        """Show the command that says more of the row, and copy it where the terminal can do that."""
        if (row := self._row()) is not None:
            said = self.query_one("#said", Static)
            said.update(f"$ {row.command}")
            said.display = True
            self.copy_to_clipboard(row.command)

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        """Show it for enter in a table, too."""
        self.action_command()

    def _filter(self, asked: Input) -> None:
        asked.display = False
        self._pattern = asked.value.strip()
        self._table("wrong").focus()
        self.query_one("#wrong", DataTable).border_subtitle = self._pattern and f"filter: {self._pattern}"
        self.show()

    def _table(self, name: str) -> "DataTable[Text]":
        return self.query_one(f"#{name}", DataTable)

    def _row(self) -> Row | None:
        for name in _TABLES:
            table, rows = self._table(name), getattr(self._view, name)
            if table.has_focus and table.cursor_row < len(rows):
                found: Row = rows[table.cursor_row]
                return found
        return None

    def _fill(self, table: "DataTable[Text]", rows: Sequence[Row]) -> None:
        at, table_y = table.cursor_row, table.scroll_y
        table.clear()
        for row in rows:
            cells = row.cells if self._several else row.cells[1:]
            table.add_row(*(Text(cell, _COLOURS[row.tone]) for cell in cells))
        table.move_cursor(row=min(at, max(0, len(rows) - 1)), animate=False)
        table.scroll_to(y=table_y, animate=False)
