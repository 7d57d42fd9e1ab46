"""The reducer's state as JSON, for the outbox.

Compact: partitions that went down within the same bounds are ranges, so 20,000 of one broker take what their
topics' names take.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from attrs import asdict

from kafka_partition_events.errors import ConfigurationError, OutboxError
from kafka_partition_events.events.moments import Bounds, moment_of
from kafka_partition_events.incidents.causes import Cause, Member, packed, unpacked
from kafka_partition_events.incidents.flapping import Flapping, Transition
from kafka_partition_events.incidents.model import Incident, Trouble
from kafka_partition_events.incidents.reducer import Mute, Reducer, Suppressed
from kafka_partition_events.incidents.rules import Rules
from kafka_partition_events.incidents.silences import Silence, decode_silence, encode_silence
from kafka_partition_events.metadata.codec import encode_time
from kafka_partition_events.metadata.json_text import json_in

VERSION: Final = 1

_MOMENTS: Final = frozenset(
    {"acked_at", "after", "at", "by", "due", "opened_at", "pending", "since", "told_at"}
)


def encode(reducer: Reducer) -> bytes:
    """Return what a reducer knows; its rules and the silences that exist are not part of it."""
    state = {
        "version": VERSION,
        "cluster": reducer.cluster,
        "troubles": list(reducer.troubles.values()),
        "mutes": list(reducer.mutes.values()),
        "recent": list(reducer.recent),
        "suppressed": reducer.suppressed,
    }
    return json.dumps(state, separators=(",", ":"), default=_plain).encode()


def decode(value: bytes, rules: Rules) -> Reducer:
    """Return the reducer whose state was encoded.

    Args:
        value: What `encode` returned.
        rules: The rules to go on by.

    Raises:
        OutboxError: it is no such state, or one of another version.
    """
    try:
        state = json_in(value)
        if state["version"] != VERSION:
            raise OutboxError(f"the state of incidents has version {state['version']!r:.20}, not {VERSION}")
        return Reducer(
            rules=rules,
            cluster=state["cluster"],
            troubles={trouble.cause: trouble for trouble in map(_trouble, state["troubles"])},
            mutes={mute.silence.id: mute for mute in map(_mute, state["mutes"])},
            recent=dict.fromkeys(state["recent"]),
            suppressed=Counter({Suppressed(reason): n for reason, n in state["suppressed"].items()}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutboxError(f"the state of incidents can't be read: {error!r}"[:300]) from error


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return encode_time(value)
        case set():
            return packed(value)
        case Silence():
            return json.loads(encode_silence(value))
        case Trouble():
            return {**asdict(value, recurse=False), "members": _together(value.members)}
        case _:
            return asdict(value, recurse=False)


def _together(members: Mapping[Member, Bounds]) -> list[tuple[Bounds, set[Member]]]:
    together: dict[Bounds, set[Member]] = {}
    for member, since in members.items():
        together.setdefault(since, set()).add(member)
    return list(together.items())


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return {name: moment_of(v) if name in _MOMENTS else v for name, v in value.items()}


def _trouble(value: Mapping[str, Any]) -> Trouble:
    flapping, incident = value["flapping"], value["incident"]
    return Trouble(
        Cause(**value["cause"]),
        {member: _bounds(since) for since, those in value["members"] for member in unpacked(those)},
        set(unpacked(value.get("planned", {}))),
        Flapping(
            **{
                **_fields(flapping),
                "transitions": [Transition(**_fields(transition)) for transition in flapping["transitions"]],
                "concerned": set(unpacked(flapping["concerned"])),
            }
        ),
        None if incident is None else _incident(incident),
    )


def _incident(value: Mapping[str, Any]) -> Incident:
    bounds = {name: value.get(name) and _bounds(value[name]) for name in ("began", "ended")}
    return Incident(**{**_fields(value), "concerned": set(unpacked(value["concerned"])), **bounds})


def _bounds(value: Mapping[str, Any]) -> Bounds:
    return Bounds(**_fields(value))


def _mute(value: Mapping[str, Any]) -> Mute:
    if (until := moment_of(value["until"])) is None:
        raise ValueError("a mute without an end")
    return Mute(_silence(value["silence"]), until, Counter(value["muted"]))


def _silence(value: Mapping[str, Any]) -> Silence:
    try:
        return decode_silence(json.dumps(value))
    except ConfigurationError:
        # An earlier version took it for a silence, and this one refuses it: all that is to come is its end.
        return decode_silence(json.dumps({**value, "topic": None, "name": "*"}))
