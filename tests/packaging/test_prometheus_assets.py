"""The shipped rules and dashboards: Prometheus' own tool accepts them, and they name what exists."""

import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kafka_partition_events.links import DOCUMENTATION
from kafka_partition_events.outbox import DeliveryStats, ReaderStats
from kafka_partition_events.spark.progress import Progress
from kafka_partition_events_listeners.prometheus import families as fam
from kafka_partition_events_listeners.prometheus.pipeline import PipelineReading, pipeline_readings
from tests.prometheus_kit import ASSETS, DASHBOARDS, QUERIES, RULES, all_rules, loaded

RULES_TEST = RULES.with_name("rules_test.yml")
ROUTES = ASSETS / "alertmanager" / "alertmanager.yml"
DOCS = Path(__file__).resolve().parents[2] / "docs"
RUNBOOKS = DOCS / "runbooks.md"

FAMILIES = (
    *fam.OBSERVER, *fam.CLUSTER, *fam.BY_TOPIC, *fam.LISTENERS, *fam.PARTITIONERS, *fam.PIPELINE,
    fam.PIPELINE_ERRORS, *fam.TRACKER, *fam.OPEN_CHANGE,
)  # fmt: skip
"""Those that are there by default."""
HISTOGRAM = {"_bucket": {"le"}, "_count": set[str](), "_sum": set[str]()}
SERIES = {
    family.full_name + suffix: {"kafka_cluster", *family.labels, *more}
    for family in FAMILIES
    for suffix, more in (HISTOGRAM if family.histogram else {"": set[str]()}).items()
}
"""The labels of their series, by name."""
FLEET = re.findall(
    r"^\| `(kpe_spark_\w+)` \|([^|]*)\|", (DOCS / "fleet.md").read_text(encoding="utf-8"), re.MULTILINE
)
SERIES |= {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in FLEET}
OF_THE_SCRAPE = {"instance", "job"}

ALERTS = {rule["alert"]: rule for rule in all_rules() if "alert" in rule}
RECORDED = {rule["record"] for rule in all_rules() if "record" in rule}


def run(promtool: str, *arguments: str | Path, cwd: Path) -> None:
    done = subprocess.run(
        [promtool, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_accepts_the_rules(promtool: str) -> None:
    run(promtool, "check", "rules", RULES.name, cwd=RULES.parent)


def test_the_rules_behave_as_their_tests_say(promtool: str) -> None:
    run(promtool, "test", "rules", RULES_TEST.name, cwd=RULES.parent)


def test_every_alert_fires_in_a_test() -> None:
    tests = RULES_TEST.read_text(encoding="utf-8")
    assert {name for name in ALERTS if not re.search(f'alertname(="|: ){name}\\b', tests)} == set()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_it_is_and_what_to_do(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    annotations = alert["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook_url"}
    assert len(annotations["summary"]) <= 100
    assert annotations["runbook_url"] == f"{DOCUMENTATION}/runbooks.md#{name.lower()}"


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert re.findall(r"^## (.+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE) == [*ALERTS]


def test_the_routes_are_about_alerts_that_exist() -> None:
    routes = yaml.safe_load(ROUTES.read_text(encoding="utf-8"))
    named = re.findall(r"K(?:afka|pe)[A-Z]\w+", ROUTES.read_text(encoding="utf-8"))
    assert named
    assert set(named) <= ALERTS.keys()
    receivers = {receiver["name"] for receiver in routes["receivers"]}

    def used(route: dict[str, Any]) -> Iterator[str]:
        yield route["receiver"]
        for child in route.get("routes", ()):
            yield from used(child)

    assert set(used(routes["route"])) == receivers


# -- what is written about metrics ---------------------------------------------------------------------


def test_the_documentation_describes_every_metric_and_no_other() -> None:
    described = (DOCS / "observe.md").read_text(encoding="utf-8").partition("\n## Metrics\n")[2]
    there = described.partition("\n### What is not there\n")[0]
    rows = dict(re.findall(r"^\| `(kpe_\w+)` \|([^|]*)\|", there, re.MULTILINE))
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows.items()} == {
        family.full_name: set(family.labels) for family in FAMILIES
    }


def test_so_does_that_of_the_fleet_pipeline() -> None:
    from kafka_partition_events.spark.ingest.metrics import IngestMetrics  # noqa: PLC0415 - PySpark takes a second

    IngestMetrics(registry := CollectorRegistry(), Progress())
    suffixes = {"counter": ["_total"], "gauge": [""], "summary": ["_count", "_sum"]}
    there = {f.name + end for f in registry.collect() for end in suffixes.get(f.type, ())}
    there = {name for name in there if not name.endswith("_created")}
    assert {name for name, _ in FLEET} == there


def test_a_runbook_tells_of_each_reason_that_its_metric_has_and_of_no_other() -> None:
    sinks = {"pager": (ReaderStats(), DeliveryStats())}
    readings = dict(pipeline_readings(PipelineReading(at=datetime.now(UTC), sinks=sinks)))
    section = RUNBOOKS.read_text(encoding="utf-8").partition("## KpeEventsDropped\n")[2].partition("\n## ")[0]
    bullets = re.findall(r"^- (?:`\w+` with )?`([a-z_]+)`:", section, re.MULTILINE)
    told = {reason for reason in bullets if not reason.startswith("kpe_")}
    assert told == {labels[-1] for labels in readings[fam.OUTBOX_DROPPED]}


def test_the_runbooks_name_metrics_that_exist() -> None:
    named = re.findall(r"kpe_\w+", RUNBOOKS.read_text(encoding="utf-8"))
    assert named
    assert set(named) <= SERIES.keys()


# -- queries -------------------------------------------------------------------------------------------


def test_there_are_four_dashboards() -> None:
    assert [path.stem for path in DASHBOARDS] == ["changes", "cluster-now", "events", "kpe-itself"]


def test_every_query_of_the_dashboards_parses(promtool: str, tmp_path: Path) -> None:
    rules = [{"record": f"query:{n}", "expr": query} for n, query in enumerate(QUERIES.values())]
    document = {"groups": [{"name": "queries", "rules": rules}]}
    (tmp_path / "queries.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    run(promtool, "check", "rules", "queries.yml", cwd=tmp_path)


@pytest.mark.parametrize("where", QUERIES)
def test_a_query_names_metrics_and_labels_that_exist(where: str) -> None:
    query = QUERIES[where]
    bare = re.sub(r'"[^"]*"', '""', query)
    named = set(re.findall(r"\bkpe_\w+|\w+(?::\w+)+", bare))
    assert named, f"no metric in {query}"
    assert named <= SERIES.keys() | RECORDED
    for metric, selected in re.findall(r"(\bkpe_\w+)\{([^}]*)\}", bare):
        assert set(re.findall(r"(\w+)\s*[=!]", selected)) <= SERIES[metric] | OF_THE_SCRAPE
    for grouped in re.findall(r"\bby \(([^)]*)\)", bare):
        for metric in named & SERIES.keys():
            assert set(re.findall(r"\w+", grouped)) <= SERIES[metric] | OF_THE_SCRAPE


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_imported_anywhere(path: Path) -> None:
    dashboard = loaded(path)
    assert dashboard["schemaVersion"] >= 39
    assert [each["name"] for each in dashboard["__inputs"]] == ["DS_PROMETHEUS"]
    sources = set(re.findall(r'"uid": "([^"]+)"', path.read_text(encoding="utf-8"))) - {dashboard["uid"]}
    assert sources == {"${DS_PROMETHEUS}"}
    assert dashboard["templating"]["list"][0]["name"] == "kafka_cluster"
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
