"""What must hold of records, groups and processes, decided from outside. Pure; it knows no library of ours.

Each check yields what does not hold. What is documented is no violation: the bounds stand beside the checks.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attrs import frozen
from kafka.partitioner.default import murmur2

from tests.chaos.history import History, Life, Run, Sent
from tests.chaos.promises import CAP, DELIVERY_S, WEAK, WRITERS, Hash, Writer

LATE_S: Final = 4 * DELIVERY_S + 70.0
"""A rescue sends a record up to four times, each with the whole time-out of a delivery."""
STALE_S: Final = 100.0
"""For how long a client of ours may place keys by a former number of partitions: a storm, during which it may
reach nobody, and then some. A plain one asks every five minutes."""
PLAIN_STALE_S: Final = 400.0
FIRST_LOOK_S: Final = 30.0
"""For how long a producer that has just begun may have no metadata, and so no cap."""
PROBES = 0.05
"""The share of records by which it is seen whether a partition is served again."""
RECOVERY_S, WINDOW_S = 20.0, 10.0
"""Within which time of a calm everybody must be served again; how long its end is that is looked at."""


@frozen
class Violation:
    """What did not hold, and about when."""

    check: str
    what: str
    at: float


Check = Callable[[History], Iterator[Violation]]


def promises(run: Run) -> Writer:
    return WRITERS[run.writer]


@frozen
class Written:
    """A record that lies in a topic, and who sent it."""

    run: Run
    sent: Sent
    place: tuple[int, int]


def written(history: History, life: Life) -> Iterator[Written]:
    """Yield what lies in a life of a topic, in the order of each partition, as far as somebody sent it."""
    runs = {run.name: run for run in history.runs}
    for place in sorted(life.rows):
        name, _, number = life.rows[place].partition("/")
        if name in runs and number.isdigit() and int(number) in runs[name].sent:
            yield Written(runs[name], runs[name].sent[int(number)], place)


# -- records -------------------------------------------------------------------------------------------


def acknowledged_records_are_there(history: History) -> Iterator[Violation]:
    """What was sent while the topic was there, and acknowledged before it was read, must be in it.

    Who sent a record before a re-creation and hears after it may mean either topic, so that is not judged.
    """
    lives, known = defaultdict[str, list[Life]](list), dict[int, set[str]]()
    for life in history.lives:
        lives[life.topic].append(life)
        known[id(life)] = set(life.rows.values())
    for run, sent in _sent(history):
        if not sent.acked or sent.topic in WEAK:
            continue
        for life in lives[sent.topic]:
            if life.created_at <= sent.at and sent.heard_at <= life.read_at:
                name, at = f"{run.name}/{sent.number}", (sent.partition, sent.offset)
                told = sent.partition is not None and sent.offset is not None and sent.offset >= 0
                if name not in known[id(life)]:
                    kind = "inferred" if _is_inferred(run, sent) else "lost"
                    yield Violation(kind, f"{name} of {sent.topic}, acknowledged at {at}", sent.at)
                elif told and life.rows.get((sent.partition or 0, sent.offset or 0)) != name:
                    yield Violation("elsewhere", f"{name} of {sent.topic} is not at {at}", sent.at)


def _is_inferred(run: Run, sent: Sent) -> bool:
    """Return whether no broker acknowledged a record: librdkafka took that from the answer to a later one.

    See docs/decisions/2026-11-24-first-batch.md; a plain idempotent producer does the same.
    """
    return promises(run).librdkafka and promises(run).idempotent and sent.offset is None


def nothing_is_there_that_nobody_sent(history: History) -> Iterator[Violation]:
    topics = {f"{run.name}/{sent.number}": sent.topic for run, sent in _sent(history)}
    for life in history.lives:
        for place, name in life.rows.items():
            if topics.get(name) != life.topic:
                yield Violation("invented", f"{life.topic} {place}: {name}", life.read_at)


def each_record_has_one_outcome(history: History) -> Iterator[Violation]:
    """Who ends in good order has heard of each record, once; who was killed, of none twice."""
    for run, sent in _sent(history):
        name = f"{run.name}/{sent.number} of {sent.topic}"
        if sent.outcomes > 1:
            yield Violation("outcome twice", f"{name}: {sent.outcomes} times", sent.at)
        if sent.outcomes == 0 and run.ended:
            yield Violation("no outcome", name, sent.at)
        waited = sent.heard_at - sent.at - _frozen_for(history, run.writer, sent)
        if sent.outcomes and waited > LATE_S:
            yield Violation("late outcome", f"{name}: after {waited:.0f} s", sent.at)


def keys_are_in_order(history: History) -> Iterator[Violation]:
    """Within a partition, what an idempotent producer was told is written; by its first appearance.

    What has failed may still arrive. Who sent before a topic was created anew may find a broker that has
    forgotten its sequence.
    """
    for life in history.lives:
        last, seen = dict[tuple[str, str, int], int](), set[str]()
        for each in written(history, life):
            run, sent, (partition, offset) = each.run, each.sent, each.place
            name = f"{run.name}/{sent.number}"
            judged = promises(run).idempotent and not promises(run).moves
            judged = judged and sent.key is not None and sent.acked and sent.at >= life.created_at
            if not judged or name in seen:
                continue
            seen.add(name)
            way = (run.name, sent.key or "", partition)
            if sent.number < last.get(way, -1):
                what = f"{name} of {life.topic} at {partition}, {offset} comes after {last[way]}"
                yield Violation("out of order", what, sent.at)
            last[way] = max(sent.number, last.get(way, -1))


def keys_that_move_are_read_in_order(history: History) -> Iterator[Violation]:
    """By an `OrderedConsumer`: each acknowledged record of one producer once, each key's in order.

    A producer that ended while keys were away leaves no record of it, so each is judged by itself.
    """
    runs = {run.name: run for run in history.runs if promises(run).moves}
    last, seen = dict[tuple[str, str], int](), set[str]()
    for id_ in history.ordered:
        name, _, number = id_.partition("/")
        sent = runs[name].sent.get(int(number)) if name in runs else None
        if sent is None or not sent.acked:
            continue
        if id_ in seen:
            yield Violation("read twice", f"{id_}, key {sent.key}", sent.at)
        elif sent.number < last.get((name, sent.key or ""), -1):
            yield Violation("read out of order", f"{id_} after {last[name, sent.key or '']}", sent.at)
        seen.add(id_)
        last[name, sent.key or ""] = max(sent.number, last.get((name, sent.key or ""), -1))
    for run in runs.values() if history.ordered else ():
        for sent in run.sent.values():
            if sent.acked and f"{run.name}/{sent.number}" not in seen:
                yield Violation("not read", f"{run.name}/{sent.number}, key {sent.key}", sent.at)


def written_twice(history: History) -> Counter[str]:
    """Return how many records each idempotent writer has twice in a partition.

    Not judged: when a sequence breaks (a time-out, a leader that moves, a topic that is created anew),
    librdkafka begins another one and sends again what is on its way, written or not; a plain producer shows
    the same.
    """
    found = Counter[str]()
    for life in history.lives:
        seen = set[tuple[str, int, int]]()
        for each in written(history, life):
            record = (each.run.name, each.sent.number, each.place[0])
            copied = promises(each.run).rescue and (each.sent.key is None or promises(each.run).moves)
            if promises(each.run).idempotent and not copied and record in seen:
                found[each.run.writer] += 1
            seen.add(record)
    return found


def keys_are_where_promised(history: History) -> Iterator[Violation]:
    """By the hash of their client, over a number of partitions that the topic had when they were sent."""
    for life in history.lives:
        first = history.truth.lives(life.topic)[0].counts[0][1]
        for each in written(history, life):
            run, sent, (partition, _) = each.run, each.sent, each.place
            if sent.key is None or promises(run).moves:
                continue
            promised, stale = promises(run), STALE_S if promises(run).ours else PLAIN_STALE_S
            sizes = {first}
            if "key_partitions" not in promised.special:
                lives = history.truth.lives(life.topic)
                window = (sent.at - stale, sent.at + LATE_S)
                sizes = {n for topic in lives if topic.created <= window[1] for n in topic.sizes(*window)}
            if partition not in {hash_of(promised.hash, sent.key) % size for size in sizes}:
                what = f"{run.name}/{sent.number}, key {sent.key}: partition {partition} of {life.topic}"
                yield Violation("misplaced key", f"{what}, never by {sorted(sizes)}", sent.at)


def nothing_is_beyond_the_cap(history: History) -> Iterator[Violation]:
    """No process uses more partitions than the cap at the end of a calm.

    Before, others may stand in: for those without a leader, and where all of its own need a broker that has
    fallen silent, which on a busy machine takes some time to be over. Those then have a record now and again,
    by which it is seen whether the broker is back, so a partition counts that has more than a few.
    """
    for life in history.lives:
        used = defaultdict[tuple[str, float], list[Written]](list)
        for each in written(history, life):
            at, run = each.sent.at, each.run
            if "capped" in promises(run).special and at > run.begun_at + FIRST_LOOK_S:
                for end in (end for _, end in history.calm if end - WINDOW_S < at < end):
                    used[run.name, end].append(each)
        for (name, end), found in used.items():
            counts = Counter(each.place[0] for each in found)
            partitions = sorted(each for each, count in counts.items() if count > len(found) * PROBES)
            if len(partitions) > CAP:
                yield Violation("beyond the cap", f"{name} uses {partitions} of {life.topic}", end)


# -- groups, processes ---------------------------------------------------------------------------------


def the_group_has_received_everything(history: History) -> Iterator[Violation]:
    """All that was acknowledged, on new partitions, too: producers wait until the group is there."""
    for run, sent in _sent(history):
        if sent.topic != "gated" or not sent.acked or sent.at < history.group_since:
            continue
        if sent.partition is None or sent.offset is None:
            continue
        if sent.offset >= 0 and (sent.partition, sent.offset) not in history.received:
            what = f"{run.name}/{sent.number} at {sent.partition}, {sent.offset}"
            yield Violation("missed by the group", what, sent.at)


def an_offset_has_one_record(history: History) -> Iterator[Violation]:
    """Whoever reads it, and whenever: what the group has read must not be replaced by something else."""
    for life in history.lives:
        if life.topic != "gated":
            continue
        for place, found in history.received.items():
            if found != {life.rows.get(place)}:
                what = f"gated {place}: read {sorted(found)}, there is {life.rows.get(place)}"
                yield Violation("read otherwise", what, life.read_at)


def everybody_is_served_when_all_is_calm(history: History) -> Iterator[Violation]:
    """After a storm each producer gets on, on each of its topics, and nothing fails that is sent then.

    But for what librdkafka sends to a topic that was made anew: it takes the new leaders for old ones
    (confluentinc/librdkafka#4898).
    """
    for begin, end in history.calm:
        for run in _latest(history.runs, begin).values():
            if run.stopped_at < end or run.begun_at > begin:
                continue
            served = {
                s.topic
                for s in run.sent.values()
                if s.acked and s.heard_at <= end and s.heard_at > end - WINDOW_S
            }
            lost = {topic for topic in promises(run).topics if _made_anew(history, run, topic, end)}
            for topic in set(promises(run).topics) - served - lost:
                yield Violation("not served", f"{run.name} gets nothing into {topic} when all is calm", end)
            for sent in run.sent.values():
                if sent.acked or sent.topic in lost or not begin < sent.at < sent.heard_at < end:
                    continue
                if _in_calm(history, sent.at):
                    what = f"{run.name}/{sent.number} of {sent.topic}: {sent.error or 'no outcome'}"
                    yield Violation("failed in calm", what, sent.at)


def _made_anew(history: History, run: Run, topic: str, at: float) -> bool:
    """Tell whether a topic has been made anew under a librdkafka producer."""
    lives = (life for life in history.lives if life.topic == topic)
    return promises(run).librdkafka and any(run.begun_at < life.created_at < at for life in lives)


def _in_calm(history: History, at: float) -> bool:
    return any(begin + RECOVERY_S < at < end for begin, end in history.calm)


# -- what they share -----------------------------------------------------------------------------------


def hash_of(name: Hash, key: str) -> int:
    """Return the hash of librdkafka's default (CRC-32), or kafka-python's own of Java's (murmur2)."""
    return zlib.crc32(key.encode()) if name == "crc32" else murmur2(key.encode()) & 0x7FFFFFFF


def _sent(history: History) -> Iterator[tuple[Run, Sent]]:
    return ((run, sent) for run in history.runs for sent in run.sent.values())


def _latest(runs: list[Run], at: float) -> Mapping[str, Run]:
    """Return the run of each writer that had begun last at a moment."""
    in_order = sorted(runs, key=lambda run: run.number)
    return {run.writer: run for run in in_order if run.begun_at <= at}


def _frozen_for(history: History, name: str, sent: Sent) -> float:
    times = history.frozen.get(name, [])
    return sum(max(0.0, min(sent.heard_at, end) - max(sent.at, begin)) for begin, end in times)


CHECKS: Final[tuple[Check, ...]] = (
    acknowledged_records_are_there,
    nothing_is_there_that_nobody_sent,
    each_record_has_one_outcome,
    keys_are_in_order,
    keys_that_move_are_read_in_order,
    keys_are_where_promised,
    nothing_is_beyond_the_cap,
    the_group_has_received_everything,
    an_offset_has_one_record,
    everybody_is_served_when_all_is_calm,
)
