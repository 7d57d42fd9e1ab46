"""The metric families: name, help and labels of each, and how readings of them become metrics. Pure.

Names and units follow https://prometheus.io/docs/practices/naming/. The label ``kafka_cluster`` comes first
everywhere and is not listed here. States that overlap are families of their own: a partition that is offline
is under-replicated too, so the values of a label would not sum up.

What this library does not know has no family; docs/observe.md lists it, with the reasons.
"""

import math
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, cast

from attrs import frozen
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from kafka_partition_events.durations import Durations
from kafka_partition_events.log import get_logger

Values = Mapping[tuple[str, ...], float | Durations]
"""The value of each series of one family by its label values, so none is there twice; or each histogram."""

NO_LABELS: Final = ()
_NO_VALUES: Final[Values] = MappingProxyType({})


@frozen
class Family:
    """A metric family: a histogram, or a counter if its name ends in ``_total``, or else a gauge.

    Attributes:
        name: The name without ``kpe_``.
        help: What it says, for ``# HELP``.
        labels: The labels besides ``kafka_cluster``.
        histogram: Whether its values are `Durations`.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    histogram: bool = False

    @property
    def full_name(self) -> str:
        """The name as it is exposed."""
        return f"kpe_{self.name}"

    def metric(self, kafka_cluster: str = "", values: Values = _NO_VALUES) -> Metric:
        """Return the family with these series."""
        name, names = self.full_name, ("kafka_cluster", *self.labels)
        if self.histogram:
            histogram = HistogramMetricFamily(name, self.help, labels=names)
            for labels, durations in cast("Mapping[tuple[str, ...], Durations]", values).items():
                buckets = [(_as_text(bound), count) for bound, count in durations.at_most()]
                histogram.add_metric((kafka_cluster, *labels), buckets, durations.total)
            return histogram
        kind = CounterMetricFamily if self.name.endswith("_total") else GaugeMetricFamily
        metric = kind(name, self.help, labels=names)
        for labels, value in cast("Mapping[tuple[str, ...], float]", values).items():
            metric.add_metric((kafka_cluster, *labels), value)
        return metric


def _as_text(bound: float) -> str:
    return "+Inf" if bound == math.inf else str(bound)


Reading = tuple[Family, Values]


def single(family: Family, value: float | Durations) -> Reading:
    """Return the reading of a family that has no labels of its own."""
    return family, {NO_LABELS: value}


# -- the observer itself: always there -----------------------------------------------------------------

UP = Family("up", "Whether the last poll succeeded and the snapshot is recent enough to be trusted.")
BUILD_INFO = Family("build_info", "What runs.", ("version", "python"))
POLLS = Family("polls_total", "Metadata fetches that were begun.")
POLL_FAILURES = Family("poll_failures_total", "Metadata fetches that failed.")
POLL_DURATION = Family(
    "poll_duration_seconds", "How long metadata fetches took, failed ones too.", histogram=True
)
LAST_SUCCESS = Family("last_successful_poll_timestamp_seconds", "When the last good answer came.")
STALE_IGNORED = Family(
    "stale_metadata_ignored_total",
    "Answers, or parts of answers, that the staleness gate refused.",
    ("reason",),
)
INTERNAL_ERRORS = Family("internal_errors_total", "Bugs of this library that were contained.")
EVENTS = Family("events_total", "Events; those of the state at the start are not counted.", ("event",))
SCRAPE_ERRORS = Family("scrape_errors_total", "Parts of a scrape that failed and were left out.")

OBSERVER: Final = (
    UP, BUILD_INFO, POLLS, POLL_FAILURES, POLL_DURATION, LAST_SUCCESS,
    STALE_IGNORED, INTERNAL_ERRORS, EVENTS, SCRAPE_ERRORS,
)  # fmt: skip

# -- the cluster: withheld while the last poll failed --------------------------------------------------

BROKERS = Family("brokers", "Brokers that the cluster lists.")
TOPICS = Family("topics", "Topics.")
PARTITIONS = Family("partitions", "Partitions.")
OFFLINE = Family("partitions_offline", "Partitions without a leader.")
UNDER_REPLICATED = Family("partitions_under_replicated", "Partitions with a replica out of sync.")
NOT_PREFERRED = Family("partitions_not_preferred_leader", "Partitions that the first replica does not lead.")
BROKER_LEADERS = Family("broker_leader_partitions", "Partitions that the broker leads.", ("broker",))
BROKER_REPLICAS = Family("broker_replicas", "Replicas that are assigned to the broker.", ("broker",))
BROKER_OFFLINE = Family(
    "broker_offline_replicas",
    "Replicas that are assigned to the broker while the cluster does not list it.",
    ("broker",),
)

CLUSTER: Final = (
    BROKERS, TOPICS, PARTITIONS, OFFLINE, UNDER_REPLICATED, NOT_PREFERRED, BROKER_LEADERS, BROKER_REPLICAS,
    BROKER_OFFLINE,
)  # fmt: skip

TOPIC_PARTITIONS = Family("topic_partitions", "Partitions of the topic.", ("topic",))
TOPIC_OFFLINE = Family("topic_partitions_offline", "Partitions of the topic without a leader.", ("topic",))
WITHOUT_ALTERNATIVE = Family(
    "partitions_without_safe_alternative",
    "Partitions that a broker that hangs can block together with all others of the topic.",
    ("topic",),
)

BY_TOPIC: Final = (TOPIC_PARTITIONS, TOPIC_OFFLINE, WITHOUT_ALTERNATIVE)

# -- listeners, and what there is in a producer's process ----------------------------------------------

LISTENER_EVENTS = Family("listener_events_total", "Events that the listener has handled.", ("listener",))
LISTENER_ERRORS = Family("listener_errors_total", "Events that the listener raised on.", ("listener",))
LISTENER_DROPPED = Family(
    "listener_events_dropped_total", "Events that the listener was too slow for.", ("listener",)
)
LISTENER_WAITING = Family("listener_events_waiting", "Events that wait for the listener.", ("listener",))
LISTENER_DURATION = Family(
    "listener_duration_seconds",
    "How long the listener took for all that one change, or one event from elsewhere, delivered.",
    ("listener",),
    histogram=True,
)

LISTENERS: Final = (
    LISTENER_EVENTS, LISTENER_ERRORS, LISTENER_DROPPED, LISTENER_WAITING, LISTENER_DURATION
)  # fmt: skip

USABLE = Family(
    "partitioner_usable_partitions",
    "Partitions that records without a key go to; the least of this process's partitioners.",
    ("topic",),
)
CAPPED = Family(
    "partitioner_capped_partitions",
    "Partitions that the buffer budget leaves out; the most of this process's partitioners.",
    ("topic",),
)
SUSPECTS = Family("partitioner_suspect_brokers", "Brokers that a partitioner avoids.")
REROUTES = Family(
    "partitioner_reroutes_total",
    "Records without a key that were placed while partitions were left out.",
    ("reason",),
)

PARTITIONERS: Final = (USABLE, CAPPED, SUSPECTS, REROUTES)

# -- outbox, sinks, alerts --------------------------------------------------------------------------

OUTBOX_RECORDS = Family("outbox_records", "Records that wait for the sink.", ("sink",))
OUTBOX_AGE = Family("outbox_oldest_record_age_seconds", "Age of the oldest one that waits.", ("sink",))
OUTBOX_DROPPED = Family(
    "outbox_dropped_total", "Records that went before the sink had them.", ("sink", "reason")
)
DELIVERIES = Family("sink_deliveries_total", "Records that were taken, or not asked for.", ("sink",))
DELIVERY_FAILURES = Family("sink_delivery_failures_total", "Attempts that failed.", ("sink", "reason"))
DELIVERY_DELAY = Family(
    "sink_delivery_delay_seconds",
    "How long records took from their recording until the target had them.",
    ("sink",),
    histogram=True,
)
EVENTS_LABELLED = Family(
    "events_labelled_total",
    "Events that a change can have planned, by whether one had.",
    ("event", "planned"),
)
ALERT_CONDITION = Family(
    "alert_condition",
    "What is wrong, before any hold-down: how many partitions or replicas it concerns.",
    ("alert", "broker", "topic"),
)
JOURNAL_BEHIND = Family("journal_behind_seconds", "Age of the latest poll that the outbox has all of.")
JOURNAL_WAITING = Family("journal_events_waiting", "Events that the outbox has not taken yet.")
JOURNAL_LOST = Family("journal_events_lost_total", "Events that had to go while it took none.")
SINK_STATE = Family("sink_state", "1 for the state that the sink is in.", ("sink", "state"))
FIT = Family("observer_fit", "Whether this observer is live and ready.")
THREADS_ENDED = Family("threads_ended", "Threads that have ended and should not have.")
PIPELINE_ERRORS = Family("pipeline_scrape_errors_total", "Scrapes of the pipeline that failed.")

PIPELINE: Final = (
    OUTBOX_RECORDS, OUTBOX_AGE, OUTBOX_DROPPED, DELIVERIES, DELIVERY_FAILURES, DELIVERY_DELAY,
    EVENTS_LABELLED, ALERT_CONDITION, JOURNAL_BEHIND, JOURNAL_WAITING, JOURNAL_LOST, SINK_STATE, FIT,
    THREADS_ENDED,
)  # fmt: skip

# -- changes: in the tracker -----------------------------------------------------------------------------

TRACKER_ELECTED = Family("tracker_elected", "Whether this is the tracker; else it stands by.")
TRACKER_SETBACKS = Family("tracker_setbacks_total", "How often the tracker had to begin again.")
CHANGES = Family("changes", "Changes that are kept.", ("state",))
COMMANDS_REFUSED = Family("commands_refused_total", "Commands that were refused.")
CONTROL_SKIPPED = Family(
    "control_records_skipped_total", "Records of control topics that were not understood.", ("reason",)
)
INSTANCES = Family("instances", "Processes that have leases.", ("role",))

TRACKER: Final = (
    TRACKER_ELECTED, TRACKER_SETBACKS, CHANGES, COMMANDS_REFUSED, CONTROL_SKIPPED, INSTANCES,
)  # fmt: skip

_CHANGE = ("change_id",)
CHANGE_INFO = Family("change_info", "What the change is, and where it is.", ("change_id", "topic", "state"))
CHANGE_AGE = Family("change_age_seconds", "How long ago the change was requested, or noticed.", _CHANGE)
CHANGE_DEADLINE = Family("change_deadline_timestamp_seconds", "When all must have followed.", _CHANGE)
CHANGE_GATE_HELD = Family(
    "change_gate_held_seconds", "For how long producers have waited for consumers; 0 if they do not.", _CHANGE
)
CHANGE_PENDING = Family(
    "change_pending_instances", "Producers that have not followed: silent, observing or waiting.", _CHANGE
)
CHANGE_APPLIED = Family("change_applied_instances", "Producers that use what they are to use.", _CHANGE)
CHANGE_CAPPED = Family("change_capped_instances", "Producers that can't afford all partitions.", _CHANGE)
CHANGE_UNCOVERED = Family("change_uncovered_groups", "Groups without a position on what is new.", _CHANGE)

OPEN_CHANGE: Final = (
    CHANGE_INFO, CHANGE_AGE, CHANGE_DEADLINE, CHANGE_GATE_HELD, CHANGE_PENDING, CHANGE_APPLIED, CHANGE_CAPPED,
    CHANGE_UNCOVERED,
)  # fmt: skip
"""There only as long as the change is open."""

_log = get_logger(__name__)

Part = Callable[[], Iterable[Reading | Metric]]
"""Reads some families; a `Metric` has been made before."""


class Scraper:
    """Runs the parts of scrapes and counts those that failed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._errors = 0

    @property
    def errors(self) -> int:
        """How many parts have failed so far."""
        with self._lock:
            return self._errors

    def run(self, parts: Iterable[Part], kafka_cluster: str) -> list[Metric]:
        """Return the metrics of all parts but those that fail."""
        metrics: list[Metric] = []
        for part in parts:
            try:
                metrics += [
                    found if isinstance(found, Metric) else found[0].metric(kafka_cluster, found[1])
                    for found in part()
                ]
            except Exception as error:  # noqa: BLE001 - one family's bug must not take the others along
                with self._lock:
                    self._errors += 1
                _log.error("scrape_part_failed", error=repr(error), exception=traceback.format_exc())
        return metrics
