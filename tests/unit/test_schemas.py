"""The JSON Schemas: every event has one, every event keeps to it, and none forbids what comes later."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from attrs import asdict, evolve
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from jsonschema import Draft202012Validator

from docs.generate import shipped
from kafka_partition_events.assets import schemas
from kafka_partition_events.events.digests import FOLDED
from kafka_partition_events.events.names import NAMES, name_of
from kafka_partition_events.listeners import to_cloudevent, to_record
from kafka_partition_events.metadata import events as ev
from kafka_partition_events.metadata.cluster import EMPTY, Cluster
from kafka_partition_events.metadata.diff import diff
from tests.every_event import EVERY_EVENT
from tests.property.worlds import snapshots
from tests.schema_kit import validator

CONTROL = {"control.command", "control.change", "control.lease"}
SHARED = {"common", "control", "envelope"}
VALIDATORS = {name: validator(name) for name in schemas()}
BY_ID = {schema["$id"]: VALIDATORS[name] for name, schema in schemas().items()}


def check(event: CloudEvent) -> None:
    """Hold an event as it is sent against the schema of the envelope and the one that it names itself."""
    sent = json.loads(to_record(event).value)
    VALIDATORS["envelope"].validate(sent)
    BY_ID[sent["dataschema"]].validate(sent["data"])


def complaints(name: str, data: Mapping[str, Any]) -> list[str]:
    return [error.json_path for error in VALIDATORS[name].iter_errors(data)]


def data_of(name: str) -> dict[str, Any]:
    (event,) = (event for event in EVERY_EVENT if name_of(event) == name)
    data: dict[str, Any] = json.loads(to_record(to_cloudevent(event)).value)["data"]
    return data


def objects(schema: object) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from objects(part)


class TestTheFiles:
    def test_every_name_has_a_schema_and_there_is_no_other(self) -> None:
        digests = {f"{name}.v2" for name in FOLDED}
        assert set(schemas()) == NAMES | CONTROL | SHARED | digests

    @pytest.mark.parametrize("name", schemas())
    def test_each_is_a_schema_that_says_what_it_is(self, name: str) -> None:
        schema = schemas()[name]
        Draft202012Validator.check_schema(schema)
        event, _, version = name.partition(".v")
        assert schema["$id"] == f"urn:kpe:schema:{event}:{version or 1}"
        assert name in SHARED or schema["title"] == event
        assert name in SHARED or schema["description"]

    @pytest.mark.parametrize("name", schemas())
    def test_none_forbids_what_a_later_version_adds(self, name: str) -> None:
        for part in objects(schemas()[name]):
            assert part.get("additionalProperties") is not False
            assert part.get("unevaluatedProperties") is not False

    @pytest.mark.parametrize(
        ("name", "field", "values"),
        [
            ("broker.suspected", "reason", ev.Suspicion),
            ("broker.suspected", "role", ev.Role),
            ("broker.cleared", "reason", ev.Clearance),
            ("metadata.rejected", "reason", ev.Rejection),
        ],
    )
    def test_what_there_is_now_is_listed(self, name: str, field: str, values: Any) -> None:
        assert schemas()[name]["properties"][field]["examples"] == [value.value for value in values]


class TestTheEvents:
    @pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
    def test_every_event_keeps_to_its_schema_also_if_nobody_has_stamped_it(self, event: ev.Event) -> None:
        check(to_cloudevent(event, observer="a", recorded_at=event.wall_time))
        check(to_cloudevent(evolve(event, **asdict(ev.Event(), recurse=False))))

    @pytest.mark.parametrize("event", EVERY_EVENT, ids=name_of)
    def test_so_does_one_with_a_label(self, event: ev.Event) -> None:
        check(to_cloudevent(event, labels={"planned": False}))
        check(to_cloudevent(event, labels={"planned": True, "change_id": "chg-1"}))
        labels: Mapping[str, Any]
        for labels in ({"planned": "yes"}, {"change_id": "chg-1"}, {"planned": True, "change_id": ""}):
            assert complaints(name_of(event), data_of(name_of(event)) | labels)

    @given(snapshots(), snapshots())
    def test_what_changes_between_two_snapshots_keeps_to_its_schema(self, old: Cluster, new: Cluster) -> None:
        for event in (*diff(EMPTY, old, initial=True), *diff(old, new)):
            check(to_cloudevent(event))


class TestWhatTheyRefuse:
    @pytest.mark.parametrize("text", ["", "1, 2", "1-", "-1", "1,,2", "all", "1-2-3"])
    def test_partitions_that_are_no_ranges(self, text: str) -> None:
        data = data_of("topic.created") | {"partitions": text}
        assert complaints("topic.created", data) == ["$.partitions"]

    @pytest.mark.parametrize("field", ["cluster_id", "snapshot", "initial", "identity", "observer"])
    @pytest.mark.parametrize("name", sorted(NAMES))
    def test_an_event_without_what_every_event_has(self, name: str, field: str) -> None:
        data = data_of(name)
        del data[field]
        assert complaints(name, data) == ["$"]

    @pytest.mark.parametrize(
        ("name", "path", "value"),
        [
            ("partition.offline", "after.leader", 2),
            ("partition.online", "after.leader", None),
            ("partition.offline", "partitions", "1-2"),
            ("topic.created", "before", {"count": 1, "topic_id": None}),
            ("broker.left", "after", {"host": "b", "port": 1, "rack": None}),
            ("topic.deleted", "snapshot.at", "10 o'clock"),
            ("topic.deleted", "identity", "guess"),
            ("metadata.rejected", "strike", 0),
        ],
    )
    def test_a_value_that_contradicts_the_name(self, name: str, path: str, value: object) -> None:
        data = data_of(name)
        *parents, last = path.split(".")
        place = data
        for step in parents:
            place = place[step]
        place[last] = value
        assert complaints(name, data) == [f"$.{path}"]

    def test_a_suspicion_of_an_earlier_version_is_none_of_them(self) -> None:
        data = data_of("broker.suspected")
        del data["role"], data["waiting"]
        assert not complaints("broker.suspected", data)

    @pytest.mark.parametrize("waiting", [["orders-3"], {"orders": [3]}, {"orders": "all"}, {"": "3"}, None])
    def test_those_who_wait_in_any_other_form(self, waiting: object) -> None:
        assert complaints("broker.suspected", data_of("broker.suspected") | {"waiting": waiting})

    def test_an_envelope_that_is_no_cloudevent(self) -> None:
        sent = json.loads(to_record(to_cloudevent(EVERY_EVENT[0])).value)
        for damage in ({"specversion": "0.3"}, {"source": "c-1"}, {"sequence": "3"}, {"severitynumber": 0}):
            assert complaints("envelope", sent | damage)
        assert not complaints("envelope", sent | {"anything": "else"})


def test_what_is_generated_is_up_to_date() -> None:
    for path, text in shipped.files().items():
        assert (shipped.SHIPPED / path).read_text() == text, "run: python -m docs.generate.shipped"


def test_the_asyncapi_document_refers_to_what_there_is() -> None:
    document = json.loads((shipped.SHIPPED / shipped.DOCUMENT).read_text())
    messages = document["components"]["messages"]
    for channel in document["channels"].values():
        for name, message in channel["messages"].items():
            assert message == {"$ref": f"#/components/messages/{name}"}
            assert name in messages
    assert set(messages) == set(schemas()) - SHARED
    named = {name for channel in document["channels"].values() for name in channel["messages"]}
    assert named == set(messages)
    for reference in re.findall(r'"schemas/([^"]+).json"', json.dumps(document)):
        assert reference in schemas()
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
