"""A report's page as one self-contained HTML file: no script, no request to anywhere. Pure; knows no Spark.

What is called a text is escaped here. All else is HTML already, and its caller's matter.
"""

from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files


def page(
    package: str, *, title: str, heading: str, under: str, figures: Mapping[str, str], sections: Iterable[str]
) -> str:
    """Return the whole page.

    Args:
        package: Where `page.css` has what the page's own sections need beside the common style.
        title: A text for the browser's tab.
        heading: The answer in a sentence or two, as a text.
        under: What stands under it.
        figures: The numbers to begin with, by what they are; both are texts.
        sections: What `section` returned.
    """
    style = "".join(
        files(place).joinpath("page.css").read_text(encoding="utf-8")
        for place in ("kafka_partition_events.spark", package)
    )
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<header><h1>{escape(heading)}</h1><p>{under}</p></header>"
        f'<dl class="figures">{cells}</dl>{"".join(sections)}</main></body></html>\n'
    )


def section(title: str, body: str, caption: str = "") -> str:
    """Return one section of a page."""
    intro = f"<p>{caption}</p>" if caption else ""
    return f"<section><h2>{escape(title)}</h2>{intro}{body}</section>"


def table(head: str, rows: Iterable[str], *, kind: str = "") -> str:
    """Return a table that is scrolled where the page is too narrow for it. Rows begin with ``<tr>``."""
    named = f' class="{kind}"' if kind else ""
    return (
        f'<div class="scroll"><table{named}><thead><tr>{head}</thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def legend(keys: Iterable[tuple[str, str]]) -> str:
    """Return what styles of a picture mean: the name of each, and its meaning."""
    items = "".join(f'<li><span class="key {style}"></span>{meaning}</li>' for style, meaning in keys)
    return f'<ul class="legend">{items}</ul>'
