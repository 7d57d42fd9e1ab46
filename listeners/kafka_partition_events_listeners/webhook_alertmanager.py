"""News in the form in which Alertmanager tells its webhook receivers, so that those receivers understand it.

One alert for each incident. What comes and goes without being an incident (a broker is suspected, a cap is
reached) is an alert, too; what merely happens (a topic was created) is one that ends when it begins, and no
"resolved" follows.

Source: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.vocabulary import Severity
from kafka_partition_events_listeners.webhook_news import (
    ENDS,
    News,
    affected,
    fitting,
    headline,
    read,
    sentences,
)
from kafka_partition_events_listeners.webhook_payload import Payload

_NOT_YET: Final = "0001-01-01T00:00:00Z"
_LONGEST_ANNOTATION: Final = 1_000
_SAME_ALERT: Final = {**ENDS, "incident.updated": "incident.opened", "metadata.stale": "metadata.unavailable"}
_GRAVE: Final = frozenset({"partition.offline", "broker.left"})
_LASTING: Final = _SAME_ALERT.keys() | _SAME_ALERT.values()


def alertmanager(
    entries: Sequence[Entry], /, *, receiver: str = "webhook", runbook_url: str | None = None
) -> Payload:
    """Return a webhook body of Alertmanager's version 4.

    Args:
        entries: One entry.
        receiver: The name of the receiver, by which some choose what to do.
        runbook_url: Where it is written what to do, for the annotation of that name.
    """
    (entry,) = entries
    news = read(entry)
    labels, annotations = _labels(news), _annotations(news, runbook_url)
    alert = {
        "status": "resolved" if news.closed else "firing",
        "labels": labels,
        "annotations": annotations,
        **_times(news),
        "generatorURL": "",
        "fingerprint": _fingerprint(news),
    }
    body = {
        "version": "4",
        "groupKey": f"kpe:{alert['fingerprint']}",
        "truncatedAlerts": 0,
        "status": alert["status"],
        "receiver": receiver,
        "groupLabels": {name: labels[name] for name in ("alertname", "kafka_cluster")},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [alert],
    }
    return Payload(body=json.dumps(body).encode(), content_type="application/json")


def _labels(news: News) -> dict[str, str]:
    about = {kind: str(name) for kind, name in news.cause.items() if kind in {"topic", "broker"}}
    who = {"alertname": _alertname(news), "kafka_cluster": news.cluster}
    # An end must have the labels of its beginning, and one of them may be planned without the other.
    happens = news.name not in _LASTING and "planned" in news.data
    planned = {"planned": str(news.data["planned"]).lower()} if happens else {}
    return {**who, **about, "severity": _severity(news), **planned}


def _alertname(news: News) -> str:
    if news.name.startswith("incident."):
        if "broker" in news.cause:
            return "KafkaBrokerLost"
        return "KafkaPartitionsOffline" if "topic" in news.cause else "KafkaMetadataUnavailable"
    words = _SAME_ALERT.get(news.name, news.name).split(".")
    return "Kafka" + "".join(word.capitalize() for word in words)


def _severity(news: News) -> str:
    number = news.severity
    if news.closed:  # as grave as its beginning was: receivers find the alert by its labels
        number = Severity.ERROR if ENDS[news.name] in _GRAVE else Severity.WARN
    number = news.data.get("worst") or number
    if number >= Severity.ERROR:
        return "critical"
    return "warning" if number >= Severity.WARN else "info"


def _annotations(news: News, runbook_url: str | None) -> dict[str, str]:
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


def _times(news: News) -> dict[str, str]:
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


def _fingerprint(news: News) -> str:
    if (incident := news.data.get("incident_id")) is not None:
        return str(incident)
    identity = [news.cluster, _SAME_ALERT.get(news.name, news.name), news.event.get("subject")]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
