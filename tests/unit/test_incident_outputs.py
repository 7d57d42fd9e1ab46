"""What the second lane writes: CloudEvents in the journal's envelope, of bounded size; ids that repeat."""

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from kafka_partition_events.incidents import Rules, Silence
from kafka_partition_events.incidents.outputs import Notice, to_entry
from kafka_partition_events.incidents.reducer import Reducer
from kafka_partition_events.outbox import Entry, Stream
from tests.incident_kit import Told, World, happenings, moment, told_by


def entries(told: list[Told]) -> list[Entry]:
    return [to_entry(n, "c-1", moment(500.25)) for n in told if isinstance(n, Notice)]


def body(entry: Entry) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(entry.body)
    return parsed


class Watch:
    """A world, a reducer, and what it has told."""

    def __init__(self, topics: dict[str, list[list[int]]], **rules: Any) -> None:
        self.world, self.reducer = World([1, 2, 3], topics), Reducer(rules=Rules(**rules))
        self.told: list[Told] = []
        self.look(0)

    def look(self, at: float) -> None:
        self.told += told_by(self.reducer, happenings(self.world.look(at)))
        self.told += self.reducer.tick(moment(at))

    def lose(self, *, at: float, back: float) -> None:
        self.world.down(2)
        self.look(at)
        self.world.up(2)
        self.look(back)

    @property
    def written(self) -> list[Entry]:
        return entries(self.told)


def test_an_incident_in_full() -> None:
    watch = Watch({"orders": [[1, 2], [2, 1]], "single": [[1], [2], [2]]})
    watch.lose(at=60, back=400)
    opened, closed = watch.written
    value = body(closed)
    incident_id = value["data"]["incident_id"]
    assert uuid.UUID(value.pop("id")).version == uuid.UUID(incident_id).version == 5
    last_event = value.pop("causationid")
    assert value == {
        "specversion": "1.0",
        "type": "io.github.kafka-partition-events.incident.closed.v1",
        "source": "kafka://c-1",
        "subject": f"incident/{incident_id}",
        "time": "2026-11-20T10:06:40Z",
        "recordedtime": "2026-11-20T10:08:20.250000Z",
        "datacontenttype": "application/json",
        "dataschema": "urn:kpe:schema:incident.closed:1",
        "partitionkey": "c-1",
        "severitynumber": 9,
        "correlationid": incident_id,
        "data": {
            "cluster_id": "c-1",
            "incident_id": incident_id,
            "cause": {"broker": 2},
            "inferred": False,
            "kinds": ["broker", "partition"],
            "opened_at": "2026-11-20T10:01:30.000000Z",
            "closed_at": "2026-11-20T10:06:40.000000Z",
            "began": {"after": "2026-11-20T10:00:55.000000Z", "by": "2026-11-20T10:01:00.000000Z"},
            "ended": {"after": "2026-11-20T10:06:35.000000Z", "by": "2026-11-20T10:06:40.000000Z"},
            "partitions": {"single": "1-2"},
            "partition_count": 2,
            "offline": {},
            "offline_count": 0,
            "brokers": [2],
            "gone": False,
            "suspected_by": [],
            "events": 6,
            "worst": 17,
            "silenced": False,
        },
    }
    begun = body(opened)
    assert begun["type"].endswith(".incident.opened.v1")
    assert (begun["severitynumber"], begun["correlationid"]) == (17, incident_id)
    assert begun["causationid"] != last_event
    assert begun["data"]["offline"] == {"single": "1-2"}
    assert begun["data"]["ended"] is begun["data"]["closed_at"] is None
    assert begun["data"]["gone"]


def test_the_entry_agrees_with_its_body() -> None:
    watch = Watch({"single": [[2]]})
    watch.lose(at=60, back=400)
    opened, closed = watch.written
    assert [e.name for e in (opened, closed)] == ["incident.opened", "incident.closed"]
    for entry in (opened, closed):
        value = body(entry)
        assert entry.stream is Stream.INCIDENTS
        assert not entry.churn
        assert (entry.id, entry.key, entry.subject, entry.severity) == (
            value["id"],
            value["partitionkey"],
            value["subject"],
            value["severitynumber"],
        )
    assert (opened.at, closed.at) == (moment(90), moment(400))


def test_the_cause_of_an_event_is_an_entry_of_the_journal() -> None:
    world, reducer = World([1, 2], {"single": [[2]]}), Reducer()
    journal = world.look(0)
    world.down(2)
    journal += world.look(60)
    told = told_by(reducer, happenings(journal))
    told += reducer.tick(moment(90))
    (opened,) = entries(told)
    names = {entry.id: entry.name for entry in journal}
    assert names[body(opened)["causationid"]] == "broker.left"


def test_the_same_journal_gives_the_same_ids_and_another_outage_others() -> None:
    def told(at: float) -> list[str]:
        watch = Watch({"single": [[2]]})
        watch.lose(at=at, back=400)
        return [entry.id for entry in watch.written]

    assert told(60) == told(60)

    watch = Watch({"single": [[2]]})
    watch.lose(at=60, back=400)
    watch.lose(at=2000, back=3000)
    ids = [body(entry)["correlationid"] for entry in watch.written]
    assert ids[0] == ids[1]
    assert ids[2] == ids[3] != ids[0]
    assert len({entry.id for entry in watch.written}) == 4


def test_twenty_thousand_partitions_have_room_in_one_message_and_are_all_counted() -> None:
    # Every other partition, in many topics: what ranges can do least for.
    topics = {f"topic-{n:04}": [[1], [2]] * 10 for n in range(2000)}
    watch = Watch(topics)
    watch.lose(at=60, back=400)
    opened, closed = watch.written
    assert len(opened.body) < 65_536
    assert len(closed.body) < 65_536
    data = body(opened)["data"]
    assert data["partition_count"] == data["offline_count"] == 20_000
    assert 0 < len(data["partitions"]) < 2000
    assert data["partitions"]["topic-0000"] == "1,3,5,7,9,11,13,15,17,19"
    assert data["events"] == 20_001


def test_flapping_in_full() -> None:
    watch = Watch({"single": [[2]]})
    for at in (60, 80):
        watch.lose(at=at, back=at + 10)
    watch.look(690.5)
    started, stopped = watch.written
    flapping_id = body(started)["correlationid"]
    assert body(started)["data"] == {
        "cluster_id": "c-1",
        "broker": 2,
        "flapping_id": flapping_id,
        "cause": {"broker": 2},
        "since": "2026-11-20T10:01:00.000000Z",
        "transitions": 4,
        "offline_s": 20.0,
        "down": False,
        "partitions": {"single": "0"},
        "partition_count": 1,
    }
    assert (started.severity, stopped.severity) == (13, 9)
    assert (started.subject, started.key) == (stopped.subject, stopped.key) == ("broker/2", "c-1")
    assert body(stopped)["correlationid"] == flapping_id
    assert "causationid" not in body(stopped)
    assert stopped.at == moment(690)


def test_a_topic_that_flaps_is_kept_in_order_with_its_other_events() -> None:
    watch = Watch({"orders": [[2]]}, flap_transitions=2)
    watch.world.down(2)
    offline = next(h for h in happenings(watch.world.look(60)) if h.name == "partition.offline")
    nobody_knows = {**offline.data, "before": None, "after": {**offline.data["after"], "isr": []}}
    told = told_by(watch.reducer, [evolve(offline, data=nobody_knows)])
    watch.world.up(2)
    online = next(h for h in happenings(watch.world.look(70)) if h.name == "partition.online")
    told += told_by(watch.reducer, [online])
    told += watch.reducer.tick(moment(70))
    (started,) = entries(told)
    assert (started.subject, started.key) == ("topic/orders", "c-1|orders")
    assert body(started)["data"]["topic"] == "orders"


def test_the_end_of_a_silence_in_full() -> None:
    watch = Watch({"single": [[2]]})
    since, until = moment(50), moment(50) + timedelta(minutes=5)
    watch.reducer.silences = [
        Silence(id="s-1", author="ann", reason="new disks", since=since, until=until, broker=2)
    ]
    watch.lose(at=60, back=400)
    ended = watch.written[0]
    assert (ended.subject, ended.key, ended.severity, ended.at) == ("silence/s-1", "c-1", 9, until)
    data = body(ended)["data"]
    opened = body(watch.written[1])["data"]
    assert opened["silenced"]
    assert data == {
        "cluster_id": "c-1",
        "silence_id": "s-1",
        "author": "ann",
        "reason": "new disks",
        "since": "2026-11-20T10:00:50.000000Z",
        "ended_at": "2026-11-20T10:05:50.000000Z",
        "muted": {"incident.opened": 1},
        "still_open": [opened["incident_id"]],
    }


@pytest.mark.parametrize("prefix", ["com.example", "io.github.kafka-partition-events"])
def test_the_type_has_the_observers_prefix(prefix: str) -> None:
    watch = Watch({"single": [[2]]})
    watch.lose(at=60, back=400)
    notice = next(n for n in watch.told if isinstance(n, Notice))
    entry = to_entry(notice, "c-1", moment(0), prefix)
    assert body(entry)["type"] == f"{prefix}.incident.opened.v1"
