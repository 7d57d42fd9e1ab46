"""The demo's page: one HTML file, no script, no request to anywhere. Pure."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final

from kafka_partition_events.demo.chart import strips
from kafka_partition_events.demo.figures import percent
from kafka_partition_events.demo.plan import FROZEN_S, SESSION_MS, THAWED_S
from kafka_partition_events.demo.story import Performance, Story
from kafka_partition_events.demo.verdict import COLUMNS, cells, keys_in_words
from kafka_partition_events.spark.page import page, section, table


def render(story: Story, settings: Mapping[str, str]) -> str:
    """Return the whole page.

    Args:
        story: What happened.
        settings: What it was run with, to be shown at the end.
    """
    return page(
        __package__,
        title="kpe demo: " + story.finding,
        heading=story.finding,
        under=f"{_cast(story)}: the same load and faults, a process each.{_diff(*story.change)}",
        figures=_figures(story),
        sections=(
            section("Every record", strips(story), _DOTS),
            section("The verdict", _verdict(story), _VERDICT),
            section("Records with a key", _keys(story), _KEYS),
            section("The account", _account(story), _ACCOUNT),
            section("Run with", _settings(settings)),
        ),
    )


def _cast(story: Story) -> str:
    names = [escape(each.part.title) for each in story.performances]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _diff(before: str, after: str) -> str:
    return f'</p><pre class="diff"><del>{escape(before)}</del>\n<ins>{escape(after)}</ins></pre><p>'


def _figures(story: Story) -> dict[str, str]:
    return {
        f"{each.part.title}: over 100 ms during the stall": percent(
            story.figures(each, "brown-out").late_share
        )
        for each in story.performances
    }


_DOTS: Final = (
    "A dot is a record: when it was sent, and how long it took until the callback (logarithmic; the dashed "
    "line is 100 ms). A cross was given up, or never answered."
)
_VERDICT: Final = (
    f"Shares are of the records sent during the scene: a broker frozen {FROZEN_S} s of each "
    f"{FROZEN_S + THAWED_S} s, then another one killed with <code>kill -9</code>. A producer without this "
    f"library can know of a dead broker when metadata does, by default {SESSION_MS / 1000:.0f} s later. "
    "Late: over 100 ms, or failed. Longest wait and failed: records without a key, and all."
)
_KEYS: Final = (
    "A key belongs to its partition, or its order is lost. So records whose partition needs the dead broker "
    'wait with every producer until Kafka elects another leader. With <code>keys="move"</code> a key leaves '
    "as soon as nothing of it is outstanding, and its records name the offset that they come after. In the "
    "end an <code>OrderedConsumer</code> has read them: the last sentence counts what it was handed."
)
_ACCOUNT: Final = (
    "Each record carries its number. On the left what callbacks said, on the right what reading the topics "
    "from beginning to end shows. Rescue is at-least-once: copies carry an id to drop them by."
)


def _verdict(story: Story) -> str:
    head = "<th>Producer" + "".join(f'<th class="n">{escape(name.capitalize())}' for name in COLUMNS)
    return table(head, (_row(each, cells(story, each)) for each in story.performances))


def _row(each: Performance, values: Iterable[str]) -> str:
    kind = ' class="ours"' if each.part.ours else ""
    texts = "".join(f'<td class="n">{escape(value)}' for value in values)
    return f"<tr><th scope=row{kind}>{escape(each.part.title)}{texts}</tr>"


def _keys(story: Story) -> str:
    kind = "" if story.key_order.holds else ' class="bad"'
    return f"<p>{escape(keys_in_words(story))}</p><p{kind}>{escape(story.order_in_words)}</p>"


def _account(story: Story) -> str:
    names = ("Sent", "Delivered", "Failed", "No answer", "Found", "Copies")
    head = "<th>Producer" + "".join(f'<th class="n">{name}' for name in names) + "<th>Difference"

    def row(each: Performance) -> str:
        a = each.account
        counts = (a.sent, a.delivered, a.failed, a.unanswered, a.found, a.copies)
        bad = "" if a.adds_up else ' class="bad"'
        causes = [f"{count:,} x {cause}" for cause, count in each.causes.items()]
        said = "<br>".join(map(escape, [*a.differences(), *causes])) or "none"
        numbers = "".join(f'<td class="n">{count:,}' for count in counts)
        return f"<tr><th scope=row>{escape(each.part.title)}{numbers}<td{bad}>{said}</tr>"

    verdict = f"<p>{escape(story.accounted)} {'It adds up.' if story.adds_up else 'It does NOT add up.'}</p>"
    return verdict + table(head, map(row, story.performances), kind="what")


def _settings(settings: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(name)}<dd>{escape(value)}" for name, value in settings.items())
    return f'<dl class="settings">{rows}</dl>'
