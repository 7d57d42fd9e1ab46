"""Writes events to standard output, in words or as JSON."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kafka_partition_events.cli.common.event_text import styled, table_line, totals
from kafka_partition_events.cli.common.output import Output, write_json_line
from kafka_partition_events.events.event_json import encode_event
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import Cluster


class Printer:
    """Writes events to standard output, each at once, so that a pipe's reader sees it."""

    def __init__(self, output: Output, *, timed: bool = True) -> None:
        """Make a printer.

        Args:
            output: The form.
            timed: Whether table lines begin with the time.
        """
        self._table = output is Output.TABLE
        self._timed = timed
        # Rich itself leaves colours out where there is no terminal, or where NO_COLOR is set.
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

    def event(self, event: ev.Event) -> None:
        """Write one event."""
        if self._table:
            self._line(table_line(event, timed=self._timed))
        else:
            write_json_line(encode_event(event))

    def state(self, cluster: Cluster, initial: Sequence[ev.Event]) -> None:
        """Write what the cluster is now: in the table a summary and what is offline, else every event."""
        if not self._table:
            for event in initial:
                self.event(event)
            return
        self._line(styled((f"cluster {cluster.cluster_id or '(id unknown)'}: {totals(cluster)}", "bold")))
        for event in initial:
            if isinstance(event, ev.PartitionOffline):
                self.event(event)

    def _line(self, text: Text) -> None:
        self._console.print(text)
        sys.stdout.flush()
