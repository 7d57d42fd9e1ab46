"""The service's configuration: sinks and windows have names; what has none is looked at, too."""

import pytest

from kafka_partition_events.incidents.reader import READER
from tests.config_kit import Writer

A_NAME = "a name of letters, digits, - and _"


def test_what_a_sink_needs_is_missed(config: Writer) -> None:
    assert config.problems('[[sinks]]\nname = "pager"\ntype = "webhook"\n') == [
        "sinks.pager.url: is missing; it has to be an http:// or https:// URL"
    ]


@pytest.mark.parametrize("name", ["", 'name = ""\n', 'name = "a b"\n', "name = 5\n"])
def test_a_sink_needs_a_name(name: str, config: Writer) -> None:
    assert config.problems(f'[[sinks]]\ntype = "kafka"\n{name}') == [
        f"kpe.toml: sinks.#1.name: has to be {A_NAME}"
    ]


def test_so_does_a_window(config: Writer) -> None:
    window = '[[windows]]\nreason = "r"\nweekly = "sun 02:30"\nlasts = "1h"\n'
    assert config.problems(window) == [f"kpe.toml: windows.#1.name: has to be {A_NAME}"]


def test_two_sinks_can_not_be_told_apart(config: Writer) -> None:
    sinks = '[[sinks]]\nname = "a-b"\ntype = "kafka"\n[[sinks]]\nname = "A_b"\ntype = "kafka"\n'
    assert config.problems(sinks) == ["kpe.toml: sinks.A_b: there are two sinks of that name"]


def test_a_sink_can_not_have_the_name_of_another_reader_of_the_outbox(config: Writer) -> None:
    assert READER == "incidents"
    assert config.problems(f'[[sinks]]\nname = "{READER}"\ntype = "kafka"\n') == [
        "kpe.toml: sinks.incidents: the outbox has a reader of that name already"
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", f"sinks.#2.name: has to be {A_NAME}"),
        ('name = "journal"\n', "sinks.journal: there are two sinks of that name"),
        (f'name = "{READER}"\n', "sinks.incidents: the outbox has a reader of that name already"),
    ],
)
def test_a_name_of_no_use_hides_nothing_else_that_is_wrong(name: str, told: str, config: Writer) -> None:
    file = (
        '[[sinks]]\nname = "journal"\ntype = "kafka"\n'
        f'[[sinks]]\n{name}type = "webhook"\nformat = "slak"\nurls = "https://x.example/"\n'
    )
    assert config.problems(file) == [
        f"kpe.toml: {told}",
        "kpe.toml: sinks.#2.urls: there is no such setting; did you mean sinks.#2.url?",
        "sinks.#2.url: is missing; it has to be an http:// or https:// URL",
        (
            'kpe.toml: sinks.#2.format: "slak" is not one of "cloudevents", "alertmanager", "slack", '
            '"teams", "template"; did you mean "slack"?'
        ),
    ]


def test_neither_does_a_type_of_no_use(config: Writer) -> None:
    assert config.problems('[[sinks]]\nname = "a b"\ntype = "mail"\n') == [
        f"kpe.toml: sinks.#1.name: has to be {A_NAME}",
        'kpe.toml: sinks.#1.type: has to be one of "kafka", "webhook", "alertmanager", "pagerduty", "smtp"',
    ]


def test_the_environment_is_not_asked_to_name_what_has_no_name(config: Writer) -> None:
    problems = config.problems('[[sinks]]\ntype = "kafka"\n', {"KPE_SINKS__JOURNAL__TOPIC": "x"})
    assert len(problems) == 2
    assert not [problem for problem in problems if "KPE_SINKS__#" in problem]
