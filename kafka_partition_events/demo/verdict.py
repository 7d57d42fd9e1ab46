"""The last thing that is printed: the verdict, the account, the change, and what to do next."""

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_partition_events.demo.figures import percent
from kafka_partition_events.demo.story import UNKEYED, Performance, Story

_NEXT: Final = (
    ("on your cluster", "kpe watch -b HOST:9092 (it only reads)"),
    ("if a broker hangs", "kpe doctor replicas -b HOST:9092 (likewise)"),
    ("grow, lose nothing", "kpe change plan -b HOST:9092 --topic T --to N (likewise)"),
)
COLUMNS = ("stall: late", "kill: late", "longest wait", "failed, no answer", "stall noticed", "kill noticed")
"""Late is over 100 ms, or failed."""


def cells(story: Story, each: Performance) -> tuple[str, ...]:
    """Return a producer's row of the verdict, one text for each of `COLUMNS`."""
    whole = story.figures(each, *UNKEYED)
    return (
        percent(story.figures(each, "brown-out").late_share),
        percent(story.figures(each, "kill").late_share),
        f"{whole.longest_ms / 1000:.2f} s",
        f"{story.lost(each):,}",
        story.noticed(each.part, "brown-out"),
        story.noticed(each.part, "kill"),
    )


def keys_in_words(story: Story) -> str:
    """Return what became of records with keys."""
    shares = (
        f"{each.part.title} {percent(story.figures(each, 'keys').late_share)}" for each in story.performances
    )
    return "Keyed records over 100 ms, one broker killed: " + ", ".join(shares) + "."


def show_verdict(console: Console, story: Story, page: str) -> None:
    """Print it, and nothing after it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("late: over 100 ms", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right")
    for each in story.performances:
        table.add_row(each.part.title, *cells(story, each), style="green" if each.part.ours else "default")
    console.print(table)
    for each in story.performances:
        early = each.account.failed + each.account.unanswered - story.lost(each)
        sooner = [f"{early:,} failed before the first scene, under too much load"] if early else []
        for said in [*sooner, *each.account.differences()]:
            console.print(f"- {each.part.title}: {said}", soft_wrap=True, style="dim")
    if story.adds_up:
        console.print(f"Accounted for: {story.accounted}", style="green", soft_wrap=True)
    else:
        console.print(f"The account does NOT add up: {story.accounted}", style="red", soft_wrap=True)
    console.print(keys_in_words(story), soft_wrap=True)
    style = "green" if story.key_order.holds else "red"
    console.print(f"{story.order_in_words}\n", style=style, soft_wrap=True)
    rows = Table.grid(padding=(0, 2))
    before, after = story.change
    rows.add_row("  the change", Text(before, style="dim"))
    rows.add_row("", Text(after, style="green"))
    rows.add_row("  the page", page)
    for what, command in _NEXT:
        rows.add_row(f"  {what}", command)
    console.print(rows)
