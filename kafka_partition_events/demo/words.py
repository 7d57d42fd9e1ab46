"""What the demo says in more than one place."""

from typing import Final

THE_CHANGE: Final = "The same load on each producer; the change from the first to the last is one line:"
DIFF: Final = (
    "- producer = Producer(conf)",
    '+ producer = PartitioningProducer(conf, rescue="hedge")',
)
NEXT: Final = (
    ("on your cluster (it only reads)", "kpe watch -b HOST:9092"),
    ("what can be written if a broker hangs", "kpe doctor replicas -b HOST:9092"),
    ("grow a topic, lose nothing", "kpe demo growth"),
)
