"""What is wrong with a cluster, told as alerts: by its snapshot and how long each state has stood."""

from typing import Any

import pytest
import yaml

from docs.generate.shipped import rules_yaml
from kafka_partition_events.diagnose.replicas import exposure_of
from kafka_partition_events.metadata.cluster import Cluster
from kafka_partition_events.observe.alerts import (
    CONDITION,
    MOST_TOPICS,
    OTHER,
    RULES,
    Alert,
    Cause,
    Wrong,
    alerts,
    series_of,
    wrong_in,
)
from kafka_partition_events.testing.scripted import cluster_of


def part(leader: int | None, replicas: list[int], isr: list[int] | None = None) -> dict[str, Any]:
    return {"leader": leader, "replicas": replicas, "isr": replicas if isr is None else isr}


def cluster(brokers: list[int], **topics: list[dict[str, Any]]) -> Cluster:
    found: dict[str, Any] = {name: {"partitions": parts} for name, parts in topics.items()}
    return cluster_of(found, brokers)


def wrong(found: Cluster, **more: Any) -> dict[Cause, Wrong]:
    return wrong_in(found, exposure_of(found), **{"were_safe": frozenset(), **more})


def values(found: dict[Cause, Wrong]) -> dict[str, int]:
    return {" ".join(filter(None, cause)): each.value for cause, each in found.items()}


WELL = cluster([1, 2, 3], orders=[part(1, [1, 2]), part(2, [2, 3])])
LOST = cluster(
    [1, 3],
    orders=[part(1, [1, 2], [1]), part(3, [2, 3], [3])],
    alone=[part(None, [2], [2]), part(3, [3]), part(None, [2], [2])],
)
TIED = cluster([1, 2], orders=[part(1, [1, 2]), part(2, [2, 1])])
TABLE = {rule.name: rule for rule in RULES}


# -- what is wrong -----------------------------------------------------------------------------------------


def test_a_broker_that_left_is_one_alert_that_explains_its_partitions() -> None:
    found = wrong(LOST)
    assert values(found) == {"KafkaBrokerMissing 2": 4}
    (each,) = found.values()
    assert each.offline == {"alone": (0, 2)}
    assert each.behind == {"orders": (0, 1)}


CASES: dict[str, tuple[Cluster, dict[str, Any], dict[str, int]]] = {
    "a cluster that is well": (WELL, {}, {}),
    "a broker that is missing while it is still in sync": (
        cluster([1], orders=[part(1, [1, 2], [1, 2])]), {}, {"KafkaBrokerMissing 2": 1},
    ),
    "a broker that holds nothing is not missed": (cluster([1, 2], orders=[part(1, [1, 2])]), {}, {}),
    "partitions that no missing broker explains, by topic": (
        cluster(
            [1, 2, 3],
            down=[part(None, [1], [1]), part(None, [2], [2]), part(3, [3])],
            late=[part(1, [1, 2], [1])],
        ),
        {},
        {"KafkaPartitionsOffline down": 2, "KafkaPartitionsUnderReplicated late": 1},
    ),
    "of replicas out of sync a missing broker explains its own only": (
        cluster([1, 3], orders=[part(1, [1, 2, 3], [1])]),
        {},
        {"KafkaBrokerMissing 2": 1, "KafkaPartitionsUnderReplicated orders": 1},
    ),
    "no safe alternative, where there was none": (TIED, {}, {}),
    "no safe alternative, where there was one": (
        TIED, {"were_safe": frozenset({"orders", "gone"})}, {"KafkaSafeAlternativeLost orders": 2},
    ),
    "while a broker is missing it is the reason": (
        LOST, {"were_safe": frozenset(LOST.by_topic)}, {"KafkaBrokerMissing 2": 4},
    ),
    "a topic that was created anew, as long as it is there": (
        WELL, {"recreated": ["orders", "gone"]}, {"KafkaTopicRecreated orders": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("found", "more", "expected"), CASES.values(), ids=CASES)
def test_what_is_wrong(found: Cluster, more: dict[str, Any], expected: dict[str, int]) -> None:
    assert values(wrong(found, **more)) == expected


def test_beyond_a_number_of_topics_the_rest_is_one() -> None:
    topics = {f"t{n}": [part(None, [1], [1])] * (2 if n == 250 else 1) for n in range(MOST_TOPICS + 100)}
    found = wrong(cluster([1], **topics))
    assert len(found) == MOST_TOPICS + 1
    assert found[Cause("KafkaPartitionsOffline", OTHER)].value == 100
    assert Cause("KafkaPartitionsOffline", "t250") in found


# -- what fires --------------------------------------------------------------------------------------------

MISSING, OFFLINE = Cause("KafkaBrokerMissing", "2"), Cause("KafkaPartitionsOffline", "orders")
FOUND = {MISSING: Wrong(value=4), OFFLINE: Wrong(value=2)}


def named(fired: tuple[Alert, ...]) -> list[str]:
    return [alert.labels["alertname"] for alert in fired]


def test_a_state_fires_when_it_has_stood_for_its_hold_down_which_is_a_setting() -> None:
    since, holds = {MISSING: 100.0, OFFLINE: 105.0}, {"broker_hold_down": 5.0, "hold_down": 60.0}
    both = ["KafkaBrokerMissing", "KafkaPartitionsOffline"]
    assert [named(alerts("c", FOUND, since, now)) for now in (129.9, 130.0, 135.0)] == [[], both[:1], both]
    assert [named(alerts("c", FOUND, since, now, holds)) for now in (105.0, 165.0)] == [both[:1], both]


def test_labels_say_what_it_is_about() -> None:
    first, second = alerts("prod", FOUND, dict.fromkeys(FOUND, 0.0), 90.0)
    assert first.labels == {
        "alertname": "KafkaBrokerMissing", "kafka_cluster": "prod", "broker": "2", "severity": "critical",
    }  # fmt: skip
    assert second.labels["topic"] == "orders"
    assert (first.stood, second.stood) == (90.0, 90.0)
    assert first.annotations["summary"] == "prod: broker 2 is missing"
    assert "holds 4 replicas" in first.annotations["description"]
    assert first.annotations["runbook_url"].endswith("/runbooks.md#kafkabrokermissing")


# -- the same for Prometheus -------------------------------------------------------------------------------


def test_the_metric_has_a_series_for_each_cause() -> None:
    assert series_of({MISSING: Wrong(value=4), OFFLINE: Wrong(value=2)}) == {
        ("KafkaBrokerMissing", "2", ""): 4,
        ("KafkaPartitionsOffline", "", "orders"): 2,
    }


@pytest.mark.parametrize("name", TABLE)
def test_a_rule_has_the_names_and_labels_of_what_is_posted(name: str) -> None:
    rules = {rule["alert"]: rule for rule in yaml.safe_load(f"rules:\n{rules_yaml()}")["rules"]}
    rule, row = rules[name], TABLE[name]
    cause = Cause(name, "x" if row.about else "")
    (alert,) = alerts("c", {cause: Wrong(value=7)}, {cause: 0.0}, 1e6)
    by = rule["expr"].partition("max by (")[2].partition(")")[0].split(", ")
    assert {*by, *rule["labels"], "alertname"} == alert.labels.keys()
    assert rule["labels"]["severity"] == alert.labels["severity"]
    assert f'{CONDITION}{{alert="{name}"}}' in rule["expr"]
    assert rule.get("for", "0s") == f"{row.hold_s:g}s"
    assert rule["annotations"].keys() == alert.annotations.keys()
    assert not [text for text in alert.annotations.values() if "{{" in text]
