"""What an entry says as an alert of Prometheus' kind: labels, annotations, times. Pure.

Shared by the webhook format of Alertmanager and by the sinks of those who page people.
"""

import hashlib
import json
from typing import Final

from kafka_partition_events.events.names import Severity
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events_listeners.webhook.wording import (
    ENDS,
    News,
    affected,
    fitting,
    headline,
    sentences,
)

_NOT_YET: Final = "0001-01-01T00:00:00Z"
_LONGEST_ANNOTATION: Final = 1_000
_SAME_ALERT: Final = {
    **ENDS,
    "incident.updated": "incident.opened",
    "incident.acknowledged": "incident.opened",
    "metadata.stale": "metadata.unavailable",
}
_BROKERS: Final = {
    "broker": "KafkaBrokerLost",
    "partition": "KafkaPartitionsOffline",
    "suspicion": "KafkaBrokerSuspected",
}
"""How an incident of a broker is called, by the gravest kind of what it concerns."""
_GRAVE: Final = frozenset({"partition.offline", "broker.left"})
_LASTING: Final = _SAME_ALERT.keys() | _SAME_ALERT.values()
_STANDING: Final = frozenset({"incident", "flapping"})


def subject_of(news: News) -> str | None:
    """Return the id of the incident or flapping that is told of, the same to its end; None for all else."""
    if news.name.partition(".")[0] not in _STANDING:
        return None
    return news.data.get("incident_id") or news.data.get("flapping_id")


def labels_of(news: News) -> dict[str, str]:
    """Return labels: the same for the beginning of something and for its end."""
    about = {kind: str(name) for kind, name in news.cause.items() if kind in {"topic", "broker"}}
    who = {"alertname": _alertname(news), "kafka_cluster": news.cluster}
    # An end must have the labels of its beginning, and one of them may be planned without the other.
    happens = news.name not in _LASTING and "planned" in news.data
    planned = {"planned": str(news.data["planned"]).lower()} if happens else {}
    test = {"test": "true"} if news.data.get("test") else {}
    return {**who, **about, "severity": severity_of(news), **planned, **test}


def _alertname(news: News) -> str:
    if news.name.startswith("incident."):
        if "broker" in news.cause:
            kinds = news.data.get("kinds") or _BROKERS  # earlier versions did not say
            return next((name for kind, name in _BROKERS.items() if kind in kinds), "KafkaBrokerLost")
        return "KafkaPartitionsOffline" if "topic" in news.cause else "KafkaMetadataUnavailable"
    words = _SAME_ALERT.get(news.name, news.name).split(".")
    return "Kafka" + "".join(word.capitalize() for word in words)


def severity_of(news: News) -> str:
    """Return ``critical``, ``warning`` or ``info``; of an end what its beginning was."""
    number = news.severity
    if news.closed:  # as grave as its beginning was: receivers find the alert by its labels
        number = Severity.ERROR if ENDS[news.name] in _GRAVE else Severity.WARN
    number = news.data.get("worst") or number
    if number >= Severity.ERROR:
        return "critical"
    return "warning" if number >= Severity.WARN else "info"


def annotations_of(news: News, runbook_url: str | None) -> dict[str, str]:
    """Return annotations for people; ``runbook_url`` is one if it is given."""
    annotations = {"summary": f"{headline(news)} ({news.cluster})"}
    if times := sentences(news):
        annotations["description"] = " ".join(times)
    if lines := affected(news):
        annotations["partitions"] = "; ".join(fitting(lines, _LONGEST_ANNOTATION))
    if (change_id := news.data.get("change_id")) is not None:
        annotations["change_id"] = change_id
    if runbook_url is not None:
        annotations["runbook_url"] = runbook_url
    return annotations


def times_of(news: News) -> dict[str, str]:
    """Return ``startsAt`` and ``endsAt``; what is not over ends in the year 1."""
    begin = news.data.get("opened_at") or news.data.get("since") or news.event["time"]
    end = _NOT_YET
    if news.began is not None:
        begin = encode_time(news.began.by)
    if news.ended is not None:
        end = encode_time(news.ended.by)
    elif news.closed:
        end = news.data.get("closed_at") or news.event["time"]
    elif news.name not in _LASTING:
        end = begin
    return {"startsAt": begin, "endsAt": end}


def fingerprint_of(news: News) -> str:
    """Return what identifies an alert from its beginning to its end."""
    if (incident := news.data.get("incident_id")) is not None:
        return str(incident)
    identity = [news.cluster, _SAME_ALERT.get(news.name, news.name), news.event.get("subject")]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
