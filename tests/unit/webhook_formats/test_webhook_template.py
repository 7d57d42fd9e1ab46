"""Templates: they word what they are given, and reach no farther."""

import contextlib
import json
import tracemalloc

import pytest

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.outbox import Entry
from kafka_partition_events_listeners.webhook.formats import writer_of
from tests.unit.webhook_formats.entries import CLOSED, OPEN, incident, stamped


def rendered(source: str, entry: Entry) -> str:
    return writer_of("template", template=source)([entry]).body.decode()


def test_a_template_can_word_beginning_and_end_differently() -> None:
    source = (
        '{% if opened %}{"alarm": {{ data.partitions | tojson }}}'
        '{% elif closed %}{"over": {{ data.closed_at | tojson }}}'
        "{% else %}{{ name }} {{ event.id }}{% endif %}"
    )
    opened = rendered(source, incident("opened", OPEN))
    closed = rendered(source, incident("closed", CLOSED))
    assert json.loads(opened) == {"alarm": OPEN["partitions"]}
    assert json.loads(closed) == {"over": CLOSED["closed_at"]}
    assert rendered(source, incident("updated", OPEN)) == "incident.updated id-updated"


def test_a_template_writes_text_as_it_is() -> None:
    entry = stamped(ev.MetadataUnavailable, error="a < b & 'c'\n")
    assert rendered("{{ data.error }}", entry) == "a < b & 'c'\n"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{{ data.topic", "line 1"),
        ("\n{% if name %}", "line 2"),
        ("{{ data | no_such_filter }}", "no_such_filter"),
        ("{{ topic }}", "uses topic, but there is only closed, data, event, name, opened"),
        ('{% include "/etc/passwd" %}', "stand alone"),
        ('{% extends "base" %}', "stand alone"),
        ('{% import "macros" as m %}', "stand alone"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_once(source: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        writer_of("template", template=source)


def test_jinjas_own_functions_may_be_used() -> None:
    assert rendered("{% for n in range(3) %}{{ n }}{% endfor %}", incident("opened", OPEN)) == "012"


@pytest.mark.parametrize(
    "source",
    [
        "{{ data.no_such_field }}",
        "{{ event.__class__.__mro__ }}",
        "{{ event.update({'id': 1}) }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% for n in range(100000) %}0123456789{% endfor %}",
        "{% for n in range(10000000) %}{% endfor %}",
    ],
    ids=["missing", "python", "changing", "subclasses", "too large", "too long"],
)
def test_a_template_that_reaches_too_far_renders_nothing(source: str) -> None:
    write = writer_of("template", template=source)
    with pytest.raises(Exception, match=r"no attribute|unsafe|not safe|more than|too big"):
        write([incident("opened", OPEN)])


@pytest.mark.parametrize(
    "source",
    [
        '{{ "x" * 300000000 }}',
        '{{ 300000000 * "x" }}',
        "{{ [0] * 300000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 9 ** 99999999 }}",
        '{% set wide = "x" * 300000000 %}',
        '{{ "%300000000d" % 1 }}',
        '{{ "x" | center(300000000) }}',
    ],
)
def test_what_would_fill_the_memory_is_not_made_when_a_template_is_loaded(source: str) -> None:
    tracemalloc.start()
    try:
        with contextlib.suppress(ConfigurationError):
            writer_of("template", template=source)
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "source",
    ['{{ "x" * 300000000 }}', "{{ [0] * 300000000 }}", "{{ 9 ** 99999999 }}", '{{ "%300000000d" % 1 }}'],
)
def test_a_template_that_multiplies_without_measure_is_refused_at_once(source: str) -> None:
    with pytest.raises(ConfigurationError, match=r"line 1: .*more than \d+ (characters|bits)"):
        writer_of("template", template=source)


@pytest.mark.parametrize(
    "source",
    [
        '{% set n = 300000000 %}{{ "x" * n }}',
        "{% set n = 99999999 %}{{ 9 ** n }}",
        '{% set form = "%" ~ "300000000d" %}{{ form % 1 }}',
        '{% set form = "%*d" %}{{ form % (300000000, 1) }}',
    ],
)
def test_or_when_it_is_rendered_if_it_is_not_seen_before(source: str) -> None:
    write = writer_of("template", template=source)
    with pytest.raises(Exception, match=r"more than \d+ (characters|bits)"):
        write([incident("opened", OPEN)])


def test_small_sums_are_still_done() -> None:
    source = (
        '{{ "=" * 3 }} {{ 2 ** 10 }} {{ 6 * 7.5 }} {{ 7 % 4 }} {{ "%s of %05.1f" % (1, 2) }} {{ [1] * 2 }}'
    )
    source += '{{ " 99999999 %% %s" % 5 }}'
    assert rendered(source, incident("opened", OPEN)) == "=== 1024 45.0 3 1 of 002.0 [1, 1] 99999999 % 5"
