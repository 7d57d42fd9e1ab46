"""What gold must hold, in plain Python: from docs and the schema of events, by one who had not read `gold/`.

Nothing of the library is used. All times are microseconds since 1970, but in what is returned.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

_NEVER: Final = 2**62
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000
_HOUR, _DAY, _WINDOW, _USUAL = 3600 * _SECOND, 86_400 * _SECOND, 300 * _SECOND, 300 * _SECOND
_LOST: Final = "metadata.unavailable"
_BODIES: Final = {"cluster.summary"}
_DIGESTS: Final = {
    "partition.offline", "partition.online", "leadership.moved", "isr.shrunk", "isr.expanded",
    "replicas.changed",
}  # fmt: skip
_LASTING: Final = {
    "topic.created", "topic.deleted", "topic.recreated", "topic.identified", "partitions.added",
    "broker.joined", "broker.left", "broker.changed", "metadata.unavailable", "metadata.recovered",
}  # fmt: skip
_PRODUCERS: Final = {
    "cap.reached", "cap.lifted", "broker.suspected", "broker.cleared", "records.rescued", "keys.moved",
    "keys.returned",
}  # fmt: skip
_NO_LOOK: Final = {
    *_PRODUCERS, *_BODIES, "metadata.unavailable", "metadata.recovered", "metadata.stale",
    "metadata.rejected", "observer.resync",
}  # fmt: skip
_ORDER: Final = ("topic.deleted", "topic.created", "topic.recreated", "partitions.added")

_RATED: Final = (
    "partition_seconds", "blind_seconds", "offline_seconds_lo", "offline_seconds_hi", "incidents",
)  # fmt: skip
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "partition_outages": (
        "cluster_id", "topic", "partition", "began_after", "began_by", "ended_after", "ended_by",
        "ended_with",
    ),
    "partition_count_history": ("cluster_id", "topic", "count", "valid_from", "valid_to"),
    "availability_hourly": ("cluster_id", "topic", "hour", *_RATED),
    "availability_daily": ("cluster_id", "topic", "day", *_RATED),
    "leader_churn": ("cluster_id", "broker", "window_start", "moves_from", "moves_to", "reelections"),
    "skew": ("cluster_id", "at", "broker", "leaders", "replicas", "leaders_max_mean", "leaders_cv"),
    "cluster_outages": ("cluster_id", "began", "ended"),
}  # fmt: skip
"""What is found of each table."""

Row = tuple[Any, ...]
Span = tuple[int, int]
Observation = dict[str, Any]
Seen = tuple[int, bool, str, int | None]
"""When something was seen, whether that is offline, by which event, and the sighting before it."""


def shown(name: str, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return rows of a table as `expected` returns them."""
    plain = (tuple(row[column] for column in COLUMNS[name]) for row in rows)
    return sorted(
        (tuple(round(one, 9) if isinstance(one, float) else one for one in row) for row in plain), key=str
    )


def expected(values: Iterable[bytes], until: datetime | None = None) -> dict[str, list[Row]]:
    """Return the rows of each table, of records that were written at once.

    Args:
        values: The records' values.
        until: The last news of all clusters; None: what they say last.
    """
    observed = list(_observations(values))
    news = _until(observed) if until is None else defaultdict(lambda: _micros(until))
    outages, counts, blind = list(_outages(observed)), list(_counts(observed)), _blind(observed, news)
    found: dict[str, Iterable[Row]] = {
        "partition_outages": ((*one[:3], *map(_moment, one[3:7]), one[7]) for one in outages),
        "partition_count_history": ((*one[:3], *map(_moment, one[3:])) for one in counts),
        "availability_hourly": _availability(outages, counts, blind, news, _HOUR),
        "availability_daily": _availability(outages, counts, blind, news, _DAY),
        "leader_churn": _churn(observed),
        "skew": _skew(observed),
        "cluster_outages": _unanswered(observed, news),
    }
    return {
        name: shown(name, (dict(zip(COLUMNS[name], row, strict=True)) for row in rows))
        for name, rows in found.items()
    }


# -- what observers say -------------------------------------------------------------------------------------


def _observations(values: Iterable[bytes]) -> Iterator[Observation]:
    """Return each observation; what is no event, or of a version that nobody knows, says nothing."""
    for value in values:
        try:
            event = json.loads(value)
            *_, group, kind, version = event["type"].split(".")
            data, event_id, source = event["data"], event["id"], event["source"]
        except (ValueError, TypeError, KeyError):
            continue
        name, snapshot = f"{group}.{kind}", data["snapshot"]
        at, prev = _micros_of(snapshot["at"]), _micros_of(snapshot.get("prev_at"))
        if version not in ("v1", "v2") or (version == "v2" and name not in _DIGESTS) or at is None:
            continue
        if prev is not None and prev < at - 40 * _DAY:
            prev = None
        common = {
            "name": name, "source": source, "cluster": data.get("cluster_id") or "unknown",
            "topic": data.get("topic"), "at": at, "prev": prev, "initial": bool(data.get("initial")),
            "gap": bool(snapshot.get("gap")), "observer": data.get("observer") or "", "data": data,
            "topic_id": data.get("topic_id"),
        }  # fmt: skip
        one = {"id": event_id, "partition": data.get("partitions"), "sequence": event.get("sequence")}
        for each in data["changes"] if version == "v2" else [{**data, **one}]:
            sides = {side: each.get(side) or {} for side in ("before", "after")}
            yield {
                **common, **sides, "id": each["id"], "partition": each["partition"],
                "sequence": int(each.get("sequence") or 0),
            }  # fmt: skip


def _until(observed: Iterable[Observation]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in observed:
        if one["name"] not in _PRODUCERS:
            found[one["cluster"]] = max(one["at"], found.get(one["cluster"], one["at"]))
    return found


def _firsts(observed: Iterable[Observation]) -> dict[Row, int]:
    """Return when each event was seen first, by any observer."""
    found: dict[Row, int] = {}
    for one in observed:
        key = one["cluster"], one["topic"], one["source"], one["id"]
        found[key] = min(one["at"], found.get(key, one["at"]))
    return found


# -- outages, and counts of partitions -----------------------------------------------------------------------


def _outages(observed: Sequence[Observation]) -> Iterator[Row]:
    """Return cluster, topic, partition, and the bounds of begin and end."""
    own: dict[Row, list[Seen]] = defaultdict(list)
    found_offline: dict[Row, set[int]] = defaultdict(set)
    whole: dict[Row, list[tuple[Seen, bool]]] = defaultdict(list)
    first = _firsts(observed)
    for one in observed:
        topic, name = (one["cluster"], one["topic"]), one["name"]
        place = first[*topic, one["source"], one["id"]]
        if name in ("partition.offline", "partition.online"):
            down = name == "partition.offline"
            own[*topic, int(one["partition"])].append((place, down, name, one["prev"]))
            if down and one["initial"]:
                found_offline[*topic, int(one["partition"])].add(one["at"])
        elif name in ("topic.deleted", "topic.recreated"):
            whole[topic].append(((place, False, name, one["prev"]), False))
        elif name == "topic.created" and one["initial"]:  # an observer that starts found it online
            whole[topic].append(((one["at"], False, name, one["prev"]), True))
    for (cluster, topic_name, partition), seen in own.items():
        offline = found_offline[cluster, topic_name, partition]
        of_topic = (one for one, starts in whole[cluster, topic_name] if not (starts and one[0] in offline))
        for bounds in _downs([*seen, *of_topic]):
            yield (cluster, topic_name, partition, *bounds)


def _downs(seen: list[Seen]) -> Iterator[Row]:
    runs: list[dict[str, Any]] = []
    for at, down, name, prev in sorted(seen, key=lambda one: one[:3]):
        if not runs or runs[-1]["down"] != down:
            looks = [runs[-1]["last"]] if runs else []
            runs.append({"down": down, "first": at, "looks": looks, "name": name})
        runs[-1]["last"] = at
        runs[-1]["looks"].append(prev)
    ends = []
    for run in runs:
        before = (look for look in run["looks"] if look is not None and look < run["first"])
        ends.append((max(before, default=None), run["first"], run["name"]))
    for run, began, ended in zip(runs, ends, [*ends[1:], (None, None, None)], strict=False):
        if run["down"]:
            yield (*began[:2], *ended)


def _counts(observed: Iterable[Observation]) -> Iterator[Row]:
    """Return cluster, topic, count, and from when to when: from when it was seen, and growing only."""
    topics: dict[Row, dict[Row, dict[str, Any]]] = defaultdict(dict)
    for one in observed:
        if one["name"] in _ORDER:
            # Who starts says what is there now, each time under the id of the topic's creation.
            key = one["name"], one["source"], one["id"], one["at"] if one["initial"] else None
            known = topics[one["cluster"], one["topic"]].setdefault(key, {**one, "count": 0})
            known["at"] = min(known["at"], one["at"])
            known["count"] = max(known["count"], one["after"].get("count") or 0)
    for topic, events in topics.items():
        count, since, topic_id = 0, 0, None
        for one in sorted(
            events.values(), key=lambda one: (one["at"], _ORDER.index(one["name"]), one["count"])
        ):
            other = None not in (one["topic_id"], topic_id) and one["topic_id"] != topic_id
            ends = one["name"] in ("topic.deleted", "topic.recreated") or other
            if (ends or one["count"] > count) and count and since < one["at"]:
                yield (*topic, count, since, one["at"])
            if ends or one["count"] > count:
                count, since = 0 if one["name"] == "topic.deleted" else one["count"], one["at"]
                topic_id = one["topic_id"] or topic_id
        if count:
            yield (*topic, count, since, None)


# -- when nobody watched -------------------------------------------------------------------------------------


def _blind(observed: Iterable[Observation], until: Mapping[str, int]) -> dict[str, list[Span]]:
    clusters: dict[str, list[Observation]] = defaultdict(list)
    for one in observed:
        clusters[one["cluster"]].append(one)
    found: dict[str, list[Span]] = {}
    for cluster, events in clusters.items():
        bounded = [one for one in events if one["prev"] is not None and one["prev"] < one["at"]]
        recovered = [_span(one) for one in bounded if one["name"] == "metadata.recovered"]
        nobody = [*recovered, *(_span(one) for one in bounded if one["gap"])]
        looks = sorted(one["at"] for one in events if one["name"] in _LASTING - {"metadata.unavailable"})
        for one in events:
            lost = one["name"] == "metadata.unavailable"
            if lost and not any(begin <= one["at"] <= end for begin, end in recovered):
                end = next((look for look in looks if look > one["at"]), until[cluster])
                nobody.append((one["at"] if one["prev"] is None else one["prev"], end))
        beats = sorted((one["at"], period) for one in events if (period := _period(one)) is not None)
        nobody += [(before, at) for (before, _), (at, period) in pairwise(beats) if at - before > 2 * period]
        looked = [_span(one) for one in bounded if one["name"] not in _NO_LOOK and not one["gap"]]
        found[cluster] = [(begin, min(end, until[cluster])) for begin, end in _without(nobody, looked)]
    return found


def _unanswered(observed: Iterable[Observation], until: Mapping[str, int]) -> Iterator[Row]:
    """Return cluster, begin and end of the times in which an observer had lost it, and none watched it."""
    clusters: dict[str, list[Observation]] = defaultdict(list)
    for one in observed:
        clusters[one["cluster"]].append(one)
    for cluster, events in clusters.items():
        reports: dict[str, list[Observation]] = defaultdict(list)
        for one in events:
            if one["name"] in _LASTING | _BODIES:
                reports[one["observer"]].append(one)
        answers = {one["at"] for own in reports.values() for one in own if one["name"] != _LOST}
        seen = (one for one in events if one["name"] not in _NO_LOOK and not one["gap"])
        times = {False: [_span(one) for one in seen if one["prev"] is not None], True: []}
        for own in reports.values():
            for lost, span in _as_reported(own, answers):
                times[lost].append(span)
        for begin, end in _joined(_without(times[True], times[False])):
            if begin <= until[cluster]:
                yield cluster, _moment(begin), None if end == _NEVER else _moment(end)


def _as_reported(reports: Iterable[Observation], answers: Iterable[int]) -> Iterator[tuple[bool, Span]]:
    """Return whether an observer has lost the cluster or watches it, and from which report until when."""
    by_moment: dict[int, list[Observation]] = defaultdict(list)
    for one in reports:
        by_moment[one["at"]].append(one)
    period = _USUAL
    for at, next_at in pairwise([*sorted(by_moment), _NEVER]):
        recoveries = [one for one in by_moment.get(next_at, ()) if one["name"] == "metadata.recovered"]
        period = max((known for one in by_moment[at] if (known := _period(one)) is not None), default=period)
        if any(one["name"] == _LOST for one in by_moment[at]):
            others = (answer for answer in answers if answer > at)
            yield True, (at, next_at if recoveries else min(others, default=_NEVER))
        else:
            unseen = (one["prev"] for one in recoveries if one["prev"] is not None)
            yield False, (at, max(at, min(at + 2 * period, next_at, *unseen)))


def _period(one: Observation) -> int | None:
    """Return how long the period is that a summary is of."""
    period = one["data"].get("period") if one["name"] in _BODIES else None
    if period is None:
        return None
    begin, end = (_micros(datetime.fromisoformat(period[name])) for name in ("begin", "end"))
    return end - begin


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Return spans, ascending, those that touch each other as one."""
    last: Span | None = None
    for begin, end in spans:
        if last is not None and begin > last[1]:
            yield last
            last = None
        last = (begin, end) if last is None else (last[0], end)
    if last is not None:
        yield last


def _span(one: Observation) -> Span:
    return one["prev"], one["at"]


def _without(spans: Sequence[Span], others: Sequence[Span]) -> Iterator[Span]:
    """Return the parts of spans that no other one covers, without overlaps."""
    edges = sorted({at for span in (*spans, *others) for at in span})
    for begin, end in pairwise(edges):
        if _over(spans, begin, end) and not _over(others, begin, end):
            yield begin, end


def _over(spans: Iterable[Span], begin: int, end: int) -> bool:
    return any(one <= begin and end <= other for one, other in spans)


# -- what is added up ----------------------------------------------------------------------------------------


def _availability(
    outages: Iterable[Row], counts: Iterable[Row], blind: Mapping[str, Sequence[Span]],
    until: Mapping[str, int], size: int,
) -> Iterator[Row]:  # fmt: skip
    sums: dict[Row, list[int]] = defaultdict(lambda: [0] * 5)

    def seen(cluster: str, begin: int, end: int) -> int:
        unseen = sum(_length(max(begin, one), min(end, other)) for one, other in blind.get(cluster, ()))
        return _length(begin, end) - unseen

    for cluster, topic, count, begin, end in counts:
        for step, first, last in _steps(begin, until[cluster] if end is None else end, size):
            sums[cluster, topic, step][0] += count * (last - first)
            sums[cluster, topic, step][1] += count * (last - first - seen(cluster, first, last))
    for cluster, topic, _, began_after, began_by, ended_after, ended_by, _ in outages:
        begin = began_by if began_after is None else began_after
        end = until[cluster] if ended_by is None else ended_by
        surely = end if ended_by is None else max(began_by, began_by if ended_after is None else ended_after)
        for step, first, last in _steps(begin, max(end, began_by + 1), size):
            one = sums[cluster, topic, step]
            one[2] += seen(cluster, max(first, began_by), min(last, surely))
            one[3] += seen(cluster, first, min(last, end))
            one[4] += step <= began_by < step + size
    for (cluster, topic, step), (*micros, incidents) in sums.items():
        when = _moment(step)
        assert when is not None
        seconds = (one / _SECOND for one in micros)
        yield cluster, topic, when.date() if size == _DAY else when, *seconds, incidents


def _length(begin: int, end: int) -> int:
    return max(0, end - begin)


def _steps(begin: int, end: int, size: int) -> Iterator[tuple[int, int, int]]:
    for step in range(begin - begin % size, end, size):
        yield step, max(begin, step), min(end, step + size)


def _distinct(observed: Iterable[Observation], name: str) -> Iterator[Observation]:
    """Return each event once: as by the one who saw it first, and had not just started."""
    best: dict[Row, tuple[Row, Observation]] = {}
    first = _firsts(one for one in observed if one["name"] == name)
    for one in observed:
        if one["name"] == name:
            key = one["source"], one["id"]
            rank = one["initial"], one["at"], one["observer"], one["sequence"]
            best[key] = min(best.get(key, (rank, one)), (rank, one), key=lambda ranked: ranked[0])
    for _, one in best.values():
        yield {**one, "at": first[one["cluster"], one["topic"], one["source"], one["id"]]}


def _churn(observed: Iterable[Observation]) -> Iterator[Row]:
    sums: dict[Row, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in _distinct(observed, "leadership.moved"):
        window = one["at"] - one["at"] % _WINDOW
        before, after = one["before"].get("leader"), one["after"].get("leader")
        if after is not None and before == after:
            sums[one["cluster"], before, window][2] += 1
            continue
        for broker, column in ((before, 0), (after, 1)):
            if broker is not None:
                sums[one["cluster"], broker, window][column] += 1
    for (cluster, broker, window), counted in sums.items():
        yield cluster, broker, _moment(window), *counted


def _skew(observed: Iterable[Observation]) -> Iterator[Row]:
    for one in _distinct(observed, "cluster.summary"):
        led = [broker["leaders"] for broker in one["data"]["brokers"]]
        total, count = sum(led), len(led)
        even = (None, None)
        if total:
            deviation = (sum(x * x for x in led) * count - total * total) ** 0.5
            even = (max(led) * count / total, deviation / total)
        for broker in one["data"]["brokers"]:
            held = broker["leaders"], broker["replicas"]
            yield one["cluster"], _moment(one["at"]), broker["broker"], *held, *even


# -- times ---------------------------------------------------------------------------------------------------


def _micros_of(text: str | None) -> int | None:
    return None if text is None else _micros(datetime.fromisoformat(text))


def _micros(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(micros: int | None) -> datetime | None:
    return None if micros is None else _EPOCH + timedelta(microseconds=micros)
