"""What the demo says in more than one place."""

from typing import Final

THE_CHANGE: Final = "The same load on each producer; the change from the first to the last is one line:"
DIFF: Final = (
    "- Producer(conf)",
    '+ PartitioningProducer(conf, rescue="hedge", keys="move")',
)
NEXT: Final = (
    ("on your cluster", "kpe watch -b HOST:9092 (it only reads)"),
    ("if a broker hangs", "kpe doctor replicas -b HOST:9092 (likewise)"),
    ("grow, lose nothing", "kpe change plan -b HOST:9092 --topic T --to N (likewise)"),
)
