"""The shipped rules and dashboards, and every query in them."""

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

ASSETS = Path(str(files("kafka_partition_events"))) / "assets"
RULES = ASSETS / "prometheus" / "rules.yml"
DASHBOARDS = sorted((ASSETS / "grafana").glob("*.json"))


def all_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_queries(dashboard: dict[str, Any]) -> Iterator[str]:
    """Yield every query of a dashboard, its variables filled in as Grafana does."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield filled_in(target["expr"])
    for annotation in dashboard["annotations"]["list"]:
        yield filled_in(annotation["expr"])
    for variable in dashboard["templating"]["list"]:
        selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
        yield f"group by ({label}) ({filled_in(selector)})"


def filled_in(query: str) -> str:
    query = re.sub(r"\$__(rate_interval|interval|range)\b", "5m", query)
    query = query.replace("$kafka_cluster", "prod|test").replace("$topic", ".*")
    assert "$" not in query, f"an unknown variable in {query}"
    return query


def loaded(path: Path) -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return dashboard


QUERIES = {
    **{f"{path.name} {n}": q for path in DASHBOARDS for n, q in enumerate(dashboard_queries(loaded(path)))},
    **{f"rules.yml {n}": rule["expr"] for n, rule in enumerate(all_rules())},
}
"""All queries, by where they are."""
