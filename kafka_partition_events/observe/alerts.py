"""What is wrong with a cluster now, as alerts: a function of its snapshot, not of its history. Pure.

`RULES` is the one table: the alerts that are posted to Alertmanager, Prometheus' rules
(docs/generate/shipped.py) and the sections of docs/runbooks.md have their names and labels from it. So
Prometheus and Alertmanager show one thing.

A broker that left is one alert: the partitions that it explains are in its annotations, and no alert of their
own. What one alert name says of more than `MOST_TOPICS` topics is said of ``__other__`` beyond these.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from attrs import field, frozen

from kafka_partition_events.diagnose.replicas import Exposure
from kafka_partition_events.links import DOCUMENTATION
from kafka_partition_events.metadata.cluster import Cluster, PartitionInfo
from kafka_partition_events.ranges import ranges

MOST_TOPICS: Final = 200
OTHER: Final = "__other__"
RECREATED_S: Final = 600.0
"""How long an alert reports that a topic was recreated."""
_LONGEST: Final = 1_000


@frozen(kw_only=True)
class Rule:
    """One row of the table.

    Attributes:
        name: The label ``alertname``; also the heading in docs/runbooks.md.
        about: The label that names what it is about: ``broker``, ``topic``, or empty for the whole cluster.
        severity: ``critical``, ``warning`` or ``info``.
        hold_s: Seconds that the state must have stood.
        setting: The setting in ``[alerts]`` that replaces ``hold_s``, if there is one.
        summary: For people, in Prometheus' notation of labels and value.
        description: The same in a sentence or two.
    """

    name: str
    about: str = ""
    severity: str
    hold_s: float
    setting: str | None = None
    summary: str
    description: str


_BROKER, _TOPIC, _CLUSTER = "{{ $labels.broker }}", "{{ $labels.topic }}", "{{ $labels.kafka_cluster }}"
RULES: Final = (
    Rule(
        name="KafkaBrokerMissing",
        about="broker",
        severity="critical",
        hold_s=30.0,
        setting="broker_hold_down",
        summary=f"{_CLUSTER}: broker {_BROKER} is missing",
        description=f"Broker {_BROKER} of {_CLUSTER} holds {{{{ $value }}}} replicas and is not listed.",
    ),
    Rule(
        name="KafkaPartitionsOffline",
        about="topic",
        severity="critical",
        hold_s=30.0,
        setting="hold_down",
        summary=f"{_CLUSTER}: {{{{ $value }}}} partitions of {_TOPIC} have no leader",
        description=f"{{{{ $value }}}} partitions of {_TOPIC} can neither be written nor read, and no "
        "missing broker explains it. Records without a key of producers that run this library go elsewhere.",
    ),
    Rule(
        name="KafkaPartitionsUnderReplicated",
        about="topic",
        severity="warning",
        hold_s=900.0,
        summary=f"{_CLUSTER}: {{{{ $value }}}} partitions of {_TOPIC} are under-replicated",
        description=f"Replicas of {{{{ $value }}}} partitions of {_TOPIC} have been out of sync for 15 "
        "minutes, and no missing broker explains it. The next broker that fails may take partitions offline.",
    ),
    Rule(
        name="KafkaSafeAlternativeLost",
        about="topic",
        severity="info",
        hold_s=3_600.0,
        summary=f"{_CLUSTER}: one broker can block all of {_TOPIC} now",
        description=f"If it hangs, none of the {{{{ $value }}}} partitions of {_TOPIC} can be written with "
        "acks=all until it is out of sync. Before, others could have been written meanwhile.",
    ),
    Rule(
        name="KafkaTopicRecreated",
        about="topic",
        severity="warning",
        hold_s=0.0,
        summary=f"{_CLUSTER}: {_TOPIC} was deleted and created again under its name",
        description="Its records are gone, and committed offsets of groups belong to another topic.",
    ),
    Rule(
        name="KpePollerBlind",
        severity="critical",
        hold_s=120.0,
        summary=f"{_CLUSTER}: an observer gets no answer",
        description=f"For 2 minutes an observer has not known the state of {_CLUSTER}. All other alerts of "
        "that observer are blind as well.",
    ),
)
BY_NAME: Final = MappingProxyType({rule.name: rule for rule in RULES})
BLIND: Final = "KpePollerBlind"


class Cause(NamedTuple):
    """What an alert is about: its name, and the broker or topic; empty for the whole cluster."""

    alert: str
    subject: str = ""


@frozen(kw_only=True)
class Wrong:
    """What is wrong for one cause.

    Attributes:
        value: How many partitions or replicas it concerns; what the metric says.
        offline: Partitions without a leader, by topic.
        behind: Partitions that have one, and replicas out of sync, by topic.
    """

    value: int
    offline: Mapping[str, tuple[int, ...]] = field(factory=dict)
    behind: Mapping[str, tuple[int, ...]] = field(factory=dict)


@frozen(kw_only=True)
class Alert:
    """An alert that fires.

    Attributes:
        labels: What identifies it, and routes it; the same from every observer.
        annotations: What it says to people.
        stood: For how many seconds its state has stood.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    stood: float = field(eq=False)


def wrong_in(
    cluster: Cluster, exposure: Exposure, were_safe: frozenset[str], recreated: Iterable[str] = ()
) -> dict[Cause, Wrong]:
    """Return all that is wrong in a snapshot, whatever its age.

    Args:
        cluster: The snapshot.
        exposure: Its partitions without a safe alternative.
        were_safe: The topics that had one before.
        recreated: The topics that were recreated lately.
    """
    tally = _Tally(cluster)
    by_alert: dict[str, dict[str, Wrong]] = {
        "KafkaBrokerMissing": tally.missing(),
        "KafkaPartitionsOffline": _of_topics("offline", tally.offline[None]),
        "KafkaPartitionsUnderReplicated": _of_topics("behind", tally.behind[None]),
        "KafkaTopicRecreated": {name: Wrong(value=1) for name in recreated if name in cluster.by_topic},
    }
    if not tally.holds:  # else the missing broker is the reason
        lost = were_safe & exposure.by_topic.keys()
        by_alert["KafkaSafeAlternativeLost"] = {n: Wrong(value=exposure.by_topic[n]) for n in sorted(lost)}
    return {
        Cause(alert, subject): wrong
        for alert, found in by_alert.items()
        for subject, wrong in _bounded(found).items()
    }


def alerts(
    cluster: str,
    wrong: Mapping[Cause, Wrong],
    since: Mapping[Cause, float],
    now: float,
    holds: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Alert, ...]:
    """Return what has been wrong for as long as its hold-down.

    Args:
        cluster: What the cluster is called, for ``kafka_cluster``.
        wrong: What is wrong now.
        since: Since when, in monotonic seconds; what is not in it has just begun.
        now: The same clock now.
        holds: Hold-downs in place of the table's, by the name of their setting.
    """
    return tuple(
        _alert(cluster, cause, found, stood)
        for cause, found in wrong.items()
        if (stood := now - since.get(cause, now)) >= hold_of(BY_NAME[cause.alert], holds)
    )


def hold_of(rule: Rule, holds: Mapping[str, float]) -> float:
    """Return the hold-down of a rule in seconds."""
    return rule.hold_s if rule.setting is None else holds.get(rule.setting, rule.hold_s)


def labels_of(cluster: str, cause: Cause) -> dict[str, str]:
    """Return the labels of an alert."""
    rule = BY_NAME[cause.alert]
    about = {rule.about: cause.subject} if rule.about else {}
    return {"alertname": rule.name, "kafka_cluster": cluster, **about, "severity": rule.severity}


def _alert(cluster: str, cause: Cause, found: Wrong, stood: float) -> Alert:
    rule, labels = BY_NAME[cause.alert], labels_of(cluster, cause)
    annotations = {
        "summary": _filled(rule.summary, labels, found.value),
        "description": _filled(rule.description, labels, found.value),
        "runbook_url": runbook_of(rule),
    }
    for name, topics in (("partitions_offline", found.offline), ("partitions_out_of_sync", found.behind)):
        if topics:
            annotations[name] = _listed(topics)
    return Alert(labels=labels, annotations=annotations, stood=stood)


def _filled(text: str, labels: Mapping[str, str], value: int) -> str:
    for name, label in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", label)
    return text.replace("{{ $value }}", str(value))


def _listed(topics: Mapping[str, tuple[int, ...]]) -> str:
    """Return partitions as ranges, shortened where no one would read on."""
    total = sum(map(len, topics.values()))
    text = "; ".join(f"{name} {ranges(ids)}" for name, ids in sorted(topics.items()))
    return f"{total}: {text}" if len(text) <= _LONGEST else f"{total}: {text[:_LONGEST]}..."


def _bounded(found: dict[str, Wrong]) -> dict[str, Wrong]:
    if len(found) <= MOST_TOPICS:
        return found
    ranked = sorted(found, key=lambda name: (-found[name].value, name))
    kept = {name: found[name] for name in sorted(ranked[:MOST_TOPICS])}
    return {**kept, OTHER: Wrong(value=sum(found[name].value for name in ranked[MOST_TOPICS:]))}


class _Tally:
    """The partitions that are not well, by the missing broker that explains them; None: none does."""

    def __init__(self, cluster: Cluster) -> None:
        self.holds: dict[int, int] = defaultdict(int)
        self.offline: dict[int | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.behind: dict[int | None, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        listed = frozenset(cluster.nodes)
        for info in cluster.by_topic.values():
            for p in info.partitions:
                if p.leader is None or len(p.isr) < len(p.replicas) or not listed.issuperset(p.replicas):
                    self._take(p, cluster)

    def _take(self, p: PartitionInfo, cluster: Cluster) -> None:
        missing = [broker for broker in p.replicas if broker not in cluster.nodes]
        for broker in missing:
            self.holds[broker] += 1
        if p.leader is None:
            explained: Iterable[int] = missing
        else:
            behind = set(p.replicas) - set(p.isr)
            explained = behind & set(missing)
            if behind - set(missing):
                self.behind[None][p.topic].append(p.partition)
        into = self.offline if p.leader is None else self.behind
        for broker in explained:
            into[broker][p.topic].append(p.partition)
        if p.leader is None and not missing:
            self.offline[None][p.topic].append(p.partition)

    def missing(self) -> dict[str, Wrong]:
        return {
            str(broker): Wrong(
                value=count, offline=_frozen(self.offline[broker]), behind=_frozen(self.behind[broker])
            )
            for broker, count in sorted(self.holds.items())
        }


def _of_topics(field_: str, topics: Mapping[str, list[int]]) -> dict[str, Wrong]:
    return {
        name: Wrong(value=len(ids), **{field_: {name: tuple(ids)}}) for name, ids in sorted(topics.items())
    }


def _frozen(topics: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(ids) for name, ids in topics.items()}


# -- the same for Prometheus -------------------------------------------------------------------------------

CONDITION: Final = "kpe_alert_condition"
"""The metric that says what is wrong, before any hold-down."""


def series_of(wrong: Mapping[Cause, Wrong]) -> dict[tuple[str, ...], int]:
    """Return the series of `CONDITION`, by its labels."""
    series: dict[tuple[str, ...], int] = {}
    for cause, found in wrong.items():
        about = BY_NAME[cause.alert].about
        broker, topic = (cause.subject if about == label else "" for label in ("broker", "topic"))
        series[cause.alert, broker, topic] = found.value
    return series


def runbook_of(rule: Rule) -> str:
    """Return where it is said what to do."""
    return f"{DOCUMENTATION}/runbooks.md#{rule.name.lower()}"
