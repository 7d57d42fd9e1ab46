"""JSON of the records of change control. Pure.

Each document names its format and its version: ``{"format": "kpe.lease", "version": 1, ...}``. Fields may be
added under the same version, and readers pass over what they do not know; to change the meaning of a field or
to remove one raises the version. The JSON Schemas are in `kafka_partition_events.assets`.
"""

import json
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin

import attrs

from kafka_partition_events.control.protocol.bounds import (
    MOST_IDS,
    MOST_ITEMS,
    MOST_NUMBER,
    MOST_SECONDS,
    MOST_TEXT,
)
from kafka_partition_events.control.protocol.partition_set import PartitionSet
from kafka_partition_events.control.protocol.records import Change, Command, Lease
from kafka_partition_events.errors import KafkaPartitionEventsError
from kafka_partition_events.legible import is_legible, legible

VERSION: Final = 1

FORMATS: Final = {Command: "kpe.command", Change: "kpe.change", Lease: "kpe.lease"}

MOST_BYTES: Final = {Command: 65_536, Change: 524_288, Lease: 65_536}
"""How long a record may be. What is longer is not even parsed."""

Record = Command | Change | Lease
AnyRecord = TypeVar("AnyRecord", bound=Record)


class RecordError(KafkaPartitionEventsError, ValueError):
    """A document is no record of the format that is expected here; the message names the place."""


class UnknownVersionError(RecordError):
    """A record is of a version that this library does not know."""


@attrs.frozen
class Oddity:
    """A record that was passed over: where it is, and why."""

    topic: str
    partition: int
    offset: int
    reason: str


@attrs.define
class Skipped:
    """The records that were passed over. One thread at a time.

    Attributes:
        counts: How many, by reason: ``version`` (of a later library) and ``malformed``.
        latest: The last one.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    latest: Oddity | None = None

    def note(self, error: RecordError, at: "Place") -> None:
        """Count one more."""
        self.counts["version" if isinstance(error, UnknownVersionError) else "malformed"] += 1
        self.latest = Oddity(*at, reason=str(error))


Place = tuple[str, int, int]
"""A topic, a partition, and an offset (-1: not known)."""
NO_PLACE: Final[Place] = ("", 0, -1)


def encode(record: Record) -> bytes:
    """Return a record as JSON. Equal records give equal bytes.

    Raises:
        RecordError: something in it is larger than `bounds` allows; it would not be read.
    """
    try:
        document = {"format": FORMATS[type(record)], "version": VERSION, **_plain(record)}
        value = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError as error:  # a lone surrogate
        raise RecordError(f"no text: {_brief(error)}") from error
    decode(type(record), value)
    return value


def decode(kind: type[AnyRecord], value: bytes) -> AnyRecord:
    """Return the record that JSON holds. It takes neither more time nor more memory than a large record.

    Raises:
        UnknownVersionError: it is of another version.
        RecordError: it is no such record. Nothing else, whatever the bytes are.
    """
    if len(value) > MOST_BYTES[kind]:
        raise RecordError(f"{len(value):,} bytes, of at most {MOST_BYTES[kind]:,}")
    try:
        record: AnyRecord = _read_document(kind, json.loads(value))
    except RecordError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {_brief(error)}") from error
    return record


def _read_document(kind: Any, document: Any) -> Any:
    if not isinstance(document, Mapping) or document.get("format") != FORMATS[kind]:
        raise RecordError(f'not a record of the format "{FORMATS[kind]}"')
    if document.get("version") != VERSION:
        raise UnknownVersionError(
            f"version {_shown(document.get('version'))} of {FORMATS[kind]} is not known here, only {VERSION}"
        )
    return _read_object(kind, document, "")


def decode_or_skip(kind: type[AnyRecord], value: bytes, skipped: Skipped, at: Place) -> AnyRecord | None:
    """Return the record that JSON holds; None if it holds none, which is noted with its place."""
    try:
        return decode(kind, value)
    except RecordError as error:
        skipped.note(error, at)
    return None


def key_of(record: Record) -> str:
    """Return the key of a record in its topic, by which compaction keeps the last one."""
    return record.instance_id if isinstance(record, Lease) else record.change_id


# -- by types ----------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, PartitionSet):
        return str(value)
    if attrs.has(type(value)):
        return {f.name: _plain(getattr(value, f.name)) for f in attrs.fields(type(value))}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


Reader = Callable[[Any, str], Any]


def _read_object(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise RecordError(f"{path or 'the record'} must be an object")
    given = {}
    for name, required, read in _readers(kind):
        if name in value:
            given[name] = read(value[name], f"{path}.{name}" if path else name)
        elif required:
            raise RecordError(f"{path or 'the record'} lacks {name}")
    try:
        return kind(**given)
    except ValueError as error:
        raise RecordError(f"{path or 'the record'}: {_brief(error)}") from error


@cache
def _readers(kind: Any) -> tuple[tuple[str, bool, Reader], ...]:
    return tuple((f.name, f.default is attrs.NOTHING, _reader(f.type)) for f in attrs.fields(kind))


def _reader(kind: Any) -> Reader:
    parts = get_args(kind)
    if get_origin(kind) is tuple:
        return partial(_read_list, _reader(parts[0]))
    if parts:
        (known,) = (choice for choice in parts if choice is not NoneType)
        read_known = _reader(known)
        return lambda value, path: None if value is None else read_known(value, path)
    if attrs.has(kind) and kind is not PartitionSet:
        return partial(_read_object, kind)
    return partial(_read_word, kind) if issubclass(kind, StrEnum) else _PLAIN[kind]


def _read_list(read_item: Reader, value: Any, path: str) -> tuple[Any, ...]:
    if len(_checked(list, value, path)) > MOST_ITEMS:
        raise RecordError(f"{path} has {len(value):,} items, of at most {MOST_ITEMS:,}")
    return tuple(read_item(item, f"{path}[{place}]") for place, item in enumerate(value))


def _read_text(value: Any, path: str) -> str:
    text: str = _checked(str, value, path)
    if len(text) > MOST_TEXT:
        raise RecordError(f"{path} has {len(text):,} characters, of at most {MOST_TEXT:,}")
    if not is_legible(text):
        raise RecordError(f"{path} can't be {_shown(text)}: it holds what does not belong into a text")
    return text


def _read_number(kinds: Any, most: float, value: Any, path: str) -> Any:
    if not 0 <= (number := _checked(kinds, value, path)) <= most:  # nor is it "not a number"
        raise RecordError(f"{path} must be from 0 to {most:,}, not {_shown(number)}")
    return number


def _read_word(kind: type[StrEnum], value: Any, path: str) -> StrEnum:
    for word in kind:
        if word.value == value:
            return word
    raise RecordError(f"{path} must be one of {', '.join(kind)}, not {_shown(value)}")


def _read_partitions(value: Any, path: str) -> PartitionSet:
    try:
        return PartitionSet.parse(_checked(str, value, path))
    except ValueError as error:
        what = f"up to {MOST_IDS:,} partition ids such as 0-2,5"
        raise RecordError(f"{path} must be {what}, not {_shown(value)}") from error


def _checked(kind: Any, value: Any, path: str) -> Any:
    # JSON's true is no number, whatever Python thinks.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise RecordError(f"{path} can't be {_shown(value)}")
    return value


_PLAIN: Final[Mapping[type, Reader]] = {
    PartitionSet: _read_partitions,
    bool: partial(_checked, bool),
    str: _read_text,
    int: partial(_read_number, int, MOST_NUMBER),
    float: partial(_read_number, (int, float), MOST_SECONDS),
}


def _shown(value: Any) -> str:
    return legible(reprlib.repr(value), 80)


def _brief(error: Exception) -> str:
    return legible(str(error), 200)
