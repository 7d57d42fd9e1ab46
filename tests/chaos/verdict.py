"""Reads what a campaign has left, has it judged, and says what came of it."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.chaos.checker import CHECKS, Violation, written_twice
from tests.chaos.event_checker import EVENT_CHECKS
from tests.chaos.history import History, Posted, life_of, received, run_of, unfolded
from tests.chaos.truth import parse

_SHOWN: Final = 5
_STARTING_S: Final = 180.0
"""Who is started in a storm and reaches nobody may say so and end: whoever watches it starts it again."""
_AROUND_S: Final = 30.0
"""Faults that were over for so long are not told as those that a violation may come from."""


def history_of(directory: Path) -> History:
    """Return what a campaign has left."""
    with (directory / "metadata.dump").open() as file:
        truth = parse(file)
    told = [each for event in _lines(directory / "events.jsonl") for each in unfolded(event, _moment)]
    diaries = sorted(directory.glob("*.diary"))
    return History(
        runs=[run_of(path) for path in diaries if not path.name.startswith("consumer")],
        lives=[life_of(path) for path in sorted(directory.glob("life-*.rows"))],
        truth=truth,
        calm=[(begin, end) for begin, end in _lines(directory / "calm.jsonl")],
        frozen=next(iter(_lines(directory / "frozen.jsonl")), {}),
        told=told,
        posted=[_posted(at, alert) for at, alerts in _lines(directory / "alerts.jsonl") for alert in alerts],
        ordered=[line[0] for line in _lines(directory / "ordered.jsonl")],
        received=received(path for path in diaries if path.name.startswith("consumer")),
        group_since=next(iter(_lines(directory / "group.jsonl")), 0.0),
    )


def judge(directory: Path) -> int:
    """Print what did not hold, and figures; return the exit code."""
    history, story = history_of(directory), list(_lines(directory / "story.jsonl"))
    _bury(history, story)
    seed = (directory / "seed").read_text().split()
    found = [violation for check in (*CHECKS, *EVENT_CHECKS) for violation in check(history)]
    found += _ended(directory, story)
    _say_figures(history, story)
    inferred = [violation for violation in found if violation.check == "inferred"]  # by librdkafka, not by us
    _say(f"not there, though librdkafka took them for acknowledged: {len(inferred)}")
    found = [violation for violation in found if violation.check != "inferred"]
    for name, count in Counter(violation.check for violation in found).items():
        _say(f"\nVIOLATED: {name}, {count} times (seed {seed[0]}, {seed[1]} s; {directory})")
        for violation in [each for each in found if each.check == name][:_SHOWN]:
            _say(f"  {_clock(violation.at)} {violation.what}")
            _say(f"    amid: {'; '.join(_around(story, violation.at)) or 'nothing'}")
    _say(f"\n{len(found)} violations" if found else "\nall of it held")
    return 1 if found else 0


def _say_figures(history: History, story: list[dict[str, Any]]) -> None:
    sent = [each for run in history.runs for each in run.sent.values()]
    acked, unheard = sum(each.acked for each in sent), sum(each.outcomes == 0 for each in sent)
    begin, end = min(run.begun_at for run in history.runs), history.calm[-1][1]
    _say(f"\n{end - begin:.0f} s, {len(history.runs)} lives of producers, {len(history.calm)} calms")
    _say(f"{len(sent):,} records sent, {acked:,} acknowledged, {unheard:,} without an outcome (killed)")
    _say(f"{sum(len(life.rows) for life in history.lives):,} read in {len(history.lives)} lives of topics, "
         f"{len(history.received):,} by the group")  # fmt: skip
    alerts = len({(each.name, each.subject) for each in history.posted})
    _say(f"{len(history.told):,} transitions told; {len(history.ordered):,} records read in order")
    _say(f"{alerts} alerts, posted {len(history.posted):,} times")
    twice = ", ".join(f"{writer} {count}" for writer, count in sorted(written_twice(history).items()))
    _say(f"written twice by idempotent producers: {twice or 'nothing'}")
    done = Counter(step["kind"] for step in story if not step["error"].startswith("skipped"))
    _say(", ".join(f"{kind} {count}" for kind, count in sorted(done.items())))
    failed = Counter(step["kind"] for step in story if step["error"])
    _say("cut short or skipped: " + ", ".join(f"{kind} {count}" for kind, count in sorted(failed.items())))


def _bury(history: History, story: list[dict[str, Any]]) -> None:
    """Note in each run that was killed when that was: nothing can be expected of it from then on."""
    for step in story:
        if step["kind"] == "kill_process":
            alive = [
                run for run in history.runs if run.writer == step["target"] and run.begun_at < step["began"]
            ]
            for run in alive:
                run.stopped_at = min(run.stopped_at, step["began"])


def _ended(directory: Path, story: list[dict[str, Any]]) -> Iterator[Violation]:
    """Yield who has ended by itself, and who did not end in good order when it was told to."""
    for name, at in _lines(directory / "unclean.jsonl"):
        yield Violation("ended", f"{name} did not end in good order", at)
    for step in story:
        if step["kind"] == "ended" and step["ended"] - step["began"] > _STARTING_S:
            yield Violation("ended", f"{step['target']} has ended by itself", step["ended"])


def _around(story: list[dict[str, Any]], at: float) -> list[str]:
    return [
        f"{step['kind']} {step['target']} {_clock(step['began'])}-{_clock(step['ended'])}"
        for step in story
        if step["began"] <= at + 5.0 and step["ended"] >= at - _AROUND_S
    ]


def _posted(at: float, alert: dict[str, Any]) -> Posted:
    labels = alert["labels"]
    subject = labels.get("broker", labels.get("topic", ""))
    return Posted(labels["alertname"], subject, at, _moment(alert["endsAt"]))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def _lines(path: Path) -> Iterator[Any]:
    if path.exists():
        with path.open() as file:
            yield from map(json.loads, file)


def _say(what: str) -> None:
    print(what)  # noqa: T201 - a program
