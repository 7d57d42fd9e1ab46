"""Metrics of what lies between events and targets."""

from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import evolve
from prometheus_client import CollectorRegistry, generate_latest

from kafka_partition_events.durations import NO_DELAYS
from kafka_partition_events.outbox import DeliveryStats, ReaderStats
from kafka_partition_events_listeners.journal import JournalStats
from kafka_partition_events_listeners.prometheus.pipeline import PipelineCollector, PipelineReading
from tests.scrape_kit import Scrape

DELAY = "kpe_sink_delivery_delay_seconds"
LABELS = 'alert="KafkaBrokerMissing",broker="2",kafka_cluster="prod",topic=""'
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


READING = PipelineReading(
    at=NOW,
    sinks={
        "pager": (
            ReaderStats(waiting=3, oldest=ago(12.5), dropped=2),
            DeliveryStats(
                state="backing_off",
                delivered=40,
                failures={"http_503": 4},
                delays=NO_DELAYS.plus(0.25, 0.25, 7.0),
            ),
        ),
        "archive": (ReaderStats(), DeliveryStats()),
    },
    journal=JournalStats(waiting=5, lost=1, holds_to=ago(2)),
    conditions={("KafkaBrokerMissing", "2", ""): 9},
    fit=False,
    ended=("labels",),
)


def exposed(read: Any) -> list[str]:
    registry = CollectorRegistry()
    PipelineCollector(read, kafka_cluster=lambda: "prod", registry=registry)
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


def test_everything_is_told_and_known_reasons_are_there_at_0() -> None:
    told = sorted(line for line in exposed(lambda: READING) if DELAY not in line)
    assert told == [
        f"kpe_alert_condition{{{LABELS}}} 9.0",
        'kpe_journal_behind_seconds{kafka_cluster="prod"} 2.0',
        'kpe_journal_events_lost_total{kafka_cluster="prod"} 1.0',
        'kpe_journal_events_waiting{kafka_cluster="prod"} 5.0',
        'kpe_observer_fit{kafka_cluster="prod"} 0.0',
        'kpe_outbox_dropped_total{kafka_cluster="prod",reason="bounds",sink="archive"} 0.0',
        'kpe_outbox_dropped_total{kafka_cluster="prod",reason="bounds",sink="pager"} 2.0',
        'kpe_outbox_dropped_total{kafka_cluster="prod",reason="dead_letter",sink="archive"} 0.0',
        'kpe_outbox_dropped_total{kafka_cluster="prod",reason="dead_letter",sink="pager"} 0.0',
        'kpe_outbox_oldest_record_age_seconds{kafka_cluster="prod",sink="archive"} 0.0',
        'kpe_outbox_oldest_record_age_seconds{kafka_cluster="prod",sink="pager"} 12.5',
        'kpe_outbox_records{kafka_cluster="prod",sink="archive"} 0.0',
        'kpe_outbox_records{kafka_cluster="prod",sink="pager"} 3.0',
        'kpe_pipeline_scrape_errors_total{kafka_cluster="prod"} 0.0',
        'kpe_sink_deliveries_total{kafka_cluster="prod",sink="archive"} 0.0',
        'kpe_sink_deliveries_total{kafka_cluster="prod",sink="pager"} 40.0',
        'kpe_sink_delivery_failures_total{kafka_cluster="prod",reason="http_503",sink="pager"} 4.0',
        *(
            f'kpe_sink_state{{kafka_cluster="prod",sink="{sink}",state="{state}"}} {float(state == its)}'
            for sink, its in (("archive", "idle"), ("pager", "backing_off"))
            for state in ("backing_off", "delivering", "idle")
        ),
        'kpe_threads_ended{kafka_cluster="prod"} 1.0',
    ]


def test_what_has_not_looked_yet_is_not_said_to_be_up_to_date() -> None:
    assert not [line for line in exposed(lambda: PipelineReading(at=NOW)) if "journal_behind" in line]


def test_labels_are_told_where_events_are_labelled() -> None:
    labelled = {("partitions.added", "false"): 2}
    told = [line for line in exposed(lambda: evolve(READING, labelled=labelled)) if "events_labelled" in line]
    assert len(told) == 3
    series = 'kpe_events_labelled_total{event="partitions.added",kafka_cluster="prod",planned="%s"} %s'
    assert {series % ("false", "2.0"), series % ("true", "0.0"), series % ("unknown", "0.0")} <= set(told)


def test_how_long_records_took_is_told_for_each_sink() -> None:
    registry = CollectorRegistry()
    PipelineCollector(lambda: READING, kafka_cluster=lambda: "test", registry=registry)
    assert Scrape(registry).histogram(DELAY, sink="pager") == ({"0.3": 2, "10.0": 1}, 7.5)


def test_a_reading_that_fails_is_counted_and_breaks_no_scrape() -> None:
    def read() -> PipelineReading:
        raise OSError("the outbox is locked")

    assert exposed(read) == ['kpe_pipeline_scrape_errors_total{kafka_cluster="prod"} 1.0']
