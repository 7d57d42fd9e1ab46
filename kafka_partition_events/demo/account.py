"""The end of the demo: what the producers counted beside what the topics hold."""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from kafka_partition_events.demo.display import figures
from kafka_partition_events.demo.ledger import Reconciliation, TopicLedger, Totals

_LEGEND = (
    "Producers count what they were told; topics are counted by the numbers that their records carry: sent "
    "is the highest, acknowledged are those that are there, failed those that are not. Rerouted (around an "
    "offline partition) and capped (kept off partitions by the budget) are counted among the acknowledged."
)


def show_accounts(
    console: Console,
    accounts: Sequence[Reconciliation],
    ledgers: Mapping[str, TopicLedger],
    remarks: Sequence[str],
) -> None:
    """Show the table, every difference and why records failed."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("topic")
    table.add_column("counted by", no_wrap=True)
    for name in ("sent", "acknowledged", "failed", "rerouted", "capped"):
        table.add_column(name, justify="right")
    for account in accounts:
        table.add_row(account.topic, account.producer, *figures(account.told))
        table.add_row("", "the topic", *figures(account.found))
    table.add_section()
    table.add_row("all", "the producers", *figures(sum((a.told for a in accounts), Totals())))
    table.add_row("", "the topics", *figures(sum((a.found for a in accounts), Totals())))
    console.print(table)
    console.print(_LEGEND, style="dim")
    for topic, ledger in ledgers.items():
        for cause, count in ledger.causes.most_common():
            console.print(f"- {topic}: {count:,} failed: {cause}", soft_wrap=True)
    differences = [f"{account.topic}: {said}" for account in accounts for said in account.differences()]
    for remark in [*differences, *remarks]:
        console.print(f"- {remark}", soft_wrap=True)
    if all(account.agrees for account in accounts):
        console.print(
            "Every acknowledged record is in its topic, apart from the deleted topic.", style="green"
        )
    else:
        console.print("The counts do NOT agree: see above.", style="red")
