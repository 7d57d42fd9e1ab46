"""What pictures are made of: self-contained SVG for light and dark pages. Pure."""

from collections.abc import Sequence
from html import escape

WIDTH, LEFT, TOP = 860, 64, 56

_STYLE = """<style>
svg { --back: #ffffff; --ink: #1f2328; --faint: #d8dee4; --fault: #d1242f14 }
@media (prefers-color-scheme: dark) {
svg { --back: #0d1117; --ink: #e6edf3; --faint: #30363d; --fault: #f8514926 }
}
text { font: 12px system-ui, sans-serif; fill: var(--ink) }
.title { font-size: 15px; font-weight: 600 }
.back { fill: var(--back) }
.fault { fill: var(--fault) }
.grid { stroke: var(--faint) }
.whisker { stroke: var(--ink) }
</style>"""


def svg(height: float, title: str, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">'
    )
    back = box(0, 0, WIDTH, height, 'class="back"')
    return "\n".join([head, _STYLE, back, text(LEFT, 26, title, "title"), *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{css}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, look: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {look}/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'
