"""The page of alerts, from the rules that ship."""

from importlib.resources import files

import yaml

from docs.generate.markdown import fenced
from kafka_partition_events import assets

_INTRODUCTION = """# Alerts

`kpe assets export DIRECTORY` writes them for Prometheus (`prometheus/rules.yml`), with tests for `promtool`.
"""


def page() -> str:
    """Return the page."""
    document = yaml.safe_load((files(assets) / "prometheus" / "rules.yml").read_text(encoding="utf-8"))
    parts = [_INTRODUCTION]
    for rule in (rule for group in document["groups"] for rule in group["rules"] if "alert" in rule):
        name, annotations = rule["alert"], rule["annotations"]
        known = f"*{rule['labels']['severity']}*, after {rule.get('for', '0s')}."
        parts += [
            f"## {name}\n",
            f"{known} [What to do](../runbooks.md#{name.lower()})\n",
            f"{_placeholders(annotations['description'])}\n",
            fenced("promql", rule["expr"]),
        ]
    return "\n".join(parts)


def _placeholders(text: str) -> str:
    """Return a template's text with its parts as code: the site's own templates must not take them."""
    return text.replace("{{", "`{{").replace("}}", "}}`")
