"""What happened is put together, printed and written to a page."""

import io

import pytest
from attrs import evolve
from rich.console import Console

from kafka_partition_events.demo.page import render
from kafka_partition_events.demo.plan import ASYNCIO
from kafka_partition_events.demo.story import METADATA
from kafka_partition_events.demo.tape import FAILED, UNANSWERED
from kafka_partition_events.demo.verdict import cells, show_verdict
from tests.demo_kit import HEDGE, OURS, PLAIN, default_cast, mark, performance, row, story


def printed(told: "object", width: int = 110) -> str:
    out = io.StringIO()
    show_verdict(Console(file=out, width=width, highlight=False, markup=False), told, "page.html")  # type: ignore[arg-type]
    return out.getvalue()


def test_figures_are_of_the_records_sent_in_a_scene() -> None:
    told = story()
    plain, best = told.performances[0], told.performances[-1]
    assert told.figures(plain, "brown-out").late_share == 1.0
    assert told.figures(plain, "calm").late_share == 0.0
    assert told.figures(best, "brown-out").late_share == 0.0
    assert told.figures(plain, "calm", "brown-out").records == 20


def test_what_was_noticed_counts_from_the_deed() -> None:
    told = story()
    assert told.noticed_s(OURS.key, "brown-out") == pytest.approx(0.3)
    assert told.noticed_s(OURS.key, "kill") == pytest.approx(0.06)
    assert told.noticed_s(METADATA, "brown-out") is None
    assert told.noticed_s(METADATA, "kill") == pytest.approx(9.0)
    assert told.noticed_s(HEDGE.key, "kill") is None
    assert [told.noticed(PLAIN, name) for name in ("brown-out", "kill")] == ["never", "9.00 s"]
    assert [told.noticed(OURS, name) for name in ("brown-out", "kill")] == ["0.30 s", "0.06 s"]


def test_news_of_another_broker_or_after_the_scene_is_no_news() -> None:
    late = [mark(OURS.key, 4, 11), mark(OURS.key, 2, 21)]
    assert evolve(story(), marks=late).noticed_s(OURS.key, "brown-out") is None


def test_the_finding_is_what_was_measured() -> None:
    assert story().finding == (
        "Broker 2 stalled for 10 s, and Kafka's metadata said that all was well. confluent-kafka: 100% of "
        "the records took over 100 ms. With one line changed: 0%."
    )
    assert "all was well" not in evolve(story(), most_offline=1).finding
    assert "all was well" not in evolve(story(), fewest_listed=5).finding


def test_an_account_that_does_not_add_up_is_told() -> None:
    cast = default_cast()
    cast[2] = performance(OURS, [row(at, 6) for at in range(60)], lost=[5])
    told = story(*cast)
    assert not told.adds_up
    text = printed(told)
    assert "The account does NOT add up: 239 of 240" in text
    assert "- ours: 1 delivered, and NOT IN THE TOPIC" in text


def test_records_without_an_answer_stand_beside_the_failed_ones() -> None:
    cast = default_cast()
    waiting = (row(at, 0, outcome=UNANSWERED) for at in range(2, 5))
    cast[1] = performance(cast[1].part, [row(1, 6, outcome=FAILED), *waiting])
    told = story(*cast)
    assert told.adds_up
    assert "- kafka-python: 3 never answered" in printed(told)
    assert cells(told, cast[1])[3] == "4"


def test_what_failed_while_a_load_was_looked_for_stands_by_itself() -> None:
    cast = default_cast()
    cast[2] = performance(OURS, [row(-3, 6, outcome=FAILED), row(1, 6, outcome=FAILED), row(2, 6)])
    told = story(*cast)
    assert cells(told, cast[2])[3] == "1"
    assert "- ours: 1 failed before the first scene" in printed(told)
    assert "before the first scene" not in printed(story())


def test_the_change_is_from_the_first_producer_to_the_last() -> None:
    attached = '+ PartitioningAIOKafkaProducer(**conf, rescue="hedge", keys="move")'
    cast = [performance(part, [row(at, 6) for at in range(60)]) for part in ASYNCIO]
    told = story(*cast)
    assert told.change == ("- AIOKafkaProducer(**conf)", attached)
    assert "PartitioningAIOKafkaProducer(**conf, rescue=&quot;hedge&quot;" in render(told, {})
    narrow = " ".join(printed(told, 80).split())
    assert attached in narrow


# -- the page ----------------------------------------------------------------------------------------------


def test_the_page_says_when_the_account_does_not_add_up() -> None:
    cast = default_cast()
    cast[3] = performance(HEDGE, [row(55, 6)], lost=[0])
    text = render(story(*cast), {})
    assert "It does NOT add up." in text
    assert 'class="bad">1 delivered, and NOT IN THE TOPIC' in text


def test_verdict_and_page_say_what_the_reader_of_keys_that_moved_was_handed() -> None:
    told = story()
    proof = (
        "An OrderedConsumer on ours, hedge + move: 2,200 records of 100 keys read, 190 of which had moved; "
        "0 out of order, 0 twice."
    )
    assert proof in printed(told)
    assert f"<p>{proof}</p>" in render(told, {})
    broken = evolve(told, key_order=evolve(told.key_order, out_of_order=3))
    assert '<p class="bad">An OrderedConsumer' in render(broken, {})
