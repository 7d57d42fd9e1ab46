"""What must hold of events and alerts, by the controllers' own log. Pure; it knows no library of ours."""

from collections import defaultdict
from collections.abc import Iterator
from math import inf
from typing import Any, Final

from tests.chaos.checker import Check, Violation
from tests.chaos.history import History, Posted, Told
from tests.chaos.truth import State, Topic, Truth

SLACK_S: Final = 1.0
"""Observers and controllers share a clock; a controller dates a change before anybody can see it."""
SEEN_S: Final = 100.0
"""What stood for so long must have been told: a look each half second, by two observers that are killed,
frozen and cut off for 25 s at most, each on its own."""
UNFENCED_S: Final = 120.0
"""How long after a broker was back it may be told that it left: an observer that was frozen, a target that
was down."""


def events_are_true(history: History) -> Iterator[Violation]:
    """Each tells what the controllers had decided by then."""
    for told in history.told:
        wrong = _untrue(history.truth, told)
        if wrong:
            subject = {k: told.data.get(k) for k in ("topic", "topic_id", "partitions", "broker", "after")}
            yield Violation("false event", f"{told.id} {told.name} {subject}: {wrong}", told.at)


def _untrue(truth: Truth, told: Told) -> str:
    """Return what is wrong with an event, nothing if it is true or not about the cluster."""
    data, until = told.data, told.at + SLACK_S
    match told.name:
        case "broker.left":
            was = truth.was_fenced(data["broker"], told.prev_at - SEEN_S, until)
            return "" if was else "the broker was not fenced"
        case "broker.joined":
            ups = [at for at, up in truth.brokers.get(data["broker"], []) if up]
            return "" if ups and ups[0] <= until else "the broker was not there"
        case "topic.created" | "topic.deleted" | "topic.recreated" | "partitions.added":
            return _untrue_of_topic(truth, told, until)
        case "partition.offline" | "partition.online" | "leadership.moved":
            return _untrue_of_leader(truth, told, until)
        case "isr.shrunk" | "isr.expanded" | "replicas.changed":
            states = _states(truth, told, until)
            isr, replicas = set(data["after"]["isr"]), data["after"]["replicas"]
            fits = any(set(state.isr) == isr and list(state.replicas) == replicas for state in states)
            return "" if fits else f"replicas and ISR were never so, but {states[-3:]}"
    return ""


def _untrue_of_topic(truth: Truth, told: Told, until: float) -> str:
    topic = truth.topics.get(told.data["topic_id"])
    if topic is None or topic.name != told.data["topic"]:
        return "there never was such a topic"
    if topic.created > until:
        return "it was created later"
    if told.name == "topic.deleted" and topic.removed > until:
        return "it was not deleted yet"
    if told.name == "topic.recreated":
        old = truth.topics.get((told.data["before"] or {}).get("topic_id", ""))
        return "" if old is not None and old.removed <= until else "the former one was not deleted"
    if told.name == "partitions.added":
        before, after = told.data["before"]["count"], told.data["after"]["count"]
        had = [n for at, n in topic.counts if at <= until]
        return "" if {before, after} <= set(had) and before < after else f"it had {had} partitions"
    return ""


def _untrue_of_leader(truth: Truth, told: Told, until: float) -> str:
    after = told.data["after"]
    states = [s for s in _states(truth, told, until) if s.epoch == after["leader_epoch"]]
    if not states:
        return "no such leader epoch by then"
    leader = after["leader"]
    if leader is not None:
        fits = any(state.leader == leader for state in states)
    else:  # without a leader, or with one that is not listed any more
        fits = any(s.leader < 0 or truth.was_fenced(s.leader, s.at, until) for s in states)
    return "" if fits else f"in that epoch it was {states[0].leader}"


def _states(truth: Truth, told: Told, until: float) -> list[State]:
    topic = truth.topics.get(told.data["topic_id"])
    states = [] if topic is None else topic.states.get(int(told.data["partitions"]), [])
    return [state for state in states if state.at <= until]


def what_lasted_was_told(history: History) -> Iterator[Violation]:
    """Growth, re-creation, outages of partitions. What was undone between two looks is not seen."""
    if not history.told:
        return
    by_topic = defaultdict[str, list[Told]](list)
    for told in history.told:
        if "topic_id" in told.data:
            by_topic[told.data["topic_id"]].append(told)
    names = {told.data["topic"] for told in history.told if "topic" in told.data}
    since, until = min(told.at for told in history.told), history.calm[-1][1]
    for topic in history.truth.topics.values():
        if topic.name in names:
            yield from _untold(topic, by_topic[topic.id], since, min(until, topic.removed))


def _untold(topic: Topic, told: list[Told], since: float, until: float) -> Iterator[Violation]:
    grown = [t.data["after"]["count"] for t in told if t.name == "partitions.added"]
    known = [*grown, *(t.data["after"]["count"] for t in told if t.name.startswith(("topic.c", "topic.r")))]
    for at, count in topic.counts:
        if at > since and at + SEEN_S < until and max(known, default=0) < count:
            yield Violation("untold", f"{topic.name} ({topic.id}) had {count} partitions", at)
    offline = [t for t in told if t.name == "partition.offline"]
    for partition in topic.states:
        for begin, end in topic.leaderless(partition):
            if begin < since or min(end, until) - begin < SEEN_S:
                continue
            of_it = [t for t in offline if t.data["partitions"] == str(partition) and begin <= t.at + SLACK_S]
            if not any(t.prev_at <= end for t in of_it):
                yield Violation("untold", f"{topic.name}-{partition} had no leader", begin)


def one_id_is_one_transition(history: History) -> Iterator[Violation]:
    """Whoever tells it, and however often."""
    seen: dict[str, tuple[str, Any]] = {}
    for told in history.told:
        if told.data.get("identity") != "transition":
            continue
        after = told.data.get("after") or {}
        core = (
            told.data.get("topic_id"), told.data.get("partitions"), after.get("leader"),
            after.get("leader_epoch"), after.get("count"),
        )  # fmt: skip
        name, first = seen.setdefault(told.id, (told.name, core))
        if (name, first) != (told.name, core):
            yield Violation("two of one id", f"{told.id}: {name} {first} and {told.name} {core}", told.at)


ALERTED_S: Final = 60.0
"""A state that stood for so long must have been posted, two observers being killed, frozen and cut off."""
CAUSES: Final = {"KafkaBrokerMissing", "KafkaPartitionsOffline"}


def alerts_are_true(history: History) -> Iterator[Violation]:
    """What fires was so, within the time that an observer may be held up."""
    for posted in history.posted:
        if posted.name in CAUSES and posted.until > posted.at:
            begin, end = posted.at - UNFENCED_S, posted.at + SLACK_S
            if not any(down <= end and up >= begin for down, up in _times(history, posted)):
                yield Violation("false alert", f"{posted.name} {posted.subject}", posted.at)


def lasting_outages_are_alerted(history: History) -> Iterator[Violation]:
    """Each is posted as firing while it lasts."""
    until = history.calm[-1][1] if history.calm else -inf
    for broker in history.truth.brokers if history.posted else ():
        of_it = [p for p in history.posted if (p.name, p.subject) == ("KafkaBrokerMissing", str(broker))]
        for down, up in history.truth.outages(broker):
            lasted = min(up, until) - down
            if lasted >= ALERTED_S and not any(down < p.at < up and p.until > p.at for p in of_it):
                yield Violation("no alert", f"broker {broker} was down for {lasted:.0f} s", down)


def alerts_end_in_calm(history: History) -> Iterator[Violation]:
    """At the end of a calm nothing fires that is over, by the last post about it."""
    for _, end in history.calm:
        last = {(p.name, p.subject): p for p in history.posted if p.name in CAUSES and p.at <= end}
        for (name, subject), posted in last.items():
            if posted.until > end and not any(down < end < up for down, up in _times(history, posted)):
                yield Violation("alert in calm", f"{name} {subject} fires until {posted.until:.0f}", end)


def _times(history: History, posted: Posted) -> list[tuple[float, float]]:
    """Return when what an alert says was so."""
    if posted.name == "KafkaBrokerMissing":
        return history.truth.outages(int(posted.subject))
    lives = history.truth.lives(posted.subject)
    return [time for topic in lives for p in topic.states for time in _without_leader(history, topic, p)]


def _without_leader(history: History, topic: Topic, partition: int) -> Iterator[tuple[float, float]]:
    """Yield when a partition had none, or one that was not listed."""
    yield from topic.leaderless(partition)
    for state, until in topic.spans(partition):
        for down, up in history.truth.outages(state.leader):
            if max(down, state.at) < min(up, until):
                yield max(down, state.at), min(up, until)


EVENT_CHECKS: Final[tuple[Check, ...]] = (
    events_are_true,
    what_lasted_was_told,
    one_id_is_one_transition,
    alerts_are_true,
    lasting_outages_are_alerted,
    alerts_end_in_calm,
)
