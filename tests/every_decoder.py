"""Everything that makes something of what somebody else may have written, with real samples of that."""

import atexit
import contextlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
from attrs import frozen

from kafka_partition_events.cli.cluster.diff import show_difference
from kafka_partition_events.cli.common import options
from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.output import Output
from kafka_partition_events.cli.common.topic_filter import TopicFilter
from kafka_partition_events.cli.events.recorded import parse_moment
from kafka_partition_events.cli.spark.options import parse_target
from kafka_partition_events.cli.spark.report import parse_days
from kafka_partition_events.control.protocol import codec
from kafka_partition_events.events.snapshot_json import Snapshot, encode_snapshot
from kafka_partition_events.observe.config import ConfigError, load_config
from kafka_partition_events.spark.errors import SparkJobError
from kafka_partition_events.spark.kafka import offsets_in
from kafka_partition_events.spark.tables.counts import Counts
from kafka_partition_events.spark.tables.state import (
    Blind,
    Reading,
    StateRow,
    Taken,
    Taking,
    decoded,
    encoded,
)
from kafka_partition_events.testing import cluster_of
from kafka_partition_events_listeners.journal import NODES, TOPIC, load_snapshot
from kafka_partition_events_listeners.webhook.sink import retry_after_s
from tests.config_kit import WHOLE
from tests.every_event import BEFORE as NOW
from tests.outbox_kit import scratch_journal
from tests.unit.control.test_records import RECORDS

FLEET: Final = StateRow(
    run=2,
    by="a",
    ended=False,
    mark=Taken(
        serial=2,
        taken={"ingest": 3},
        until={"c-1": NOW},
        blind=(Blind("c-1", NOW, NOW),),
        totals=Counts(read=9, good=9),
    ),
    taking=Taking(serial=3, upto={"ingest": 4}),
    readings={"ingest": Reading(source="a topic", topic="id", next={"0": 7})},
)


@frozen(kw_only=True)
class Decoder:
    """What makes something of bytes.

    Attributes:
        of: Does so, and does with what came out what is done with it next.
        refuses: All that it may raise; nothing: it makes something of everything.
        real: What is really written.
        most: How long what is given to it can be: what a shell or a client passes on has a bound.
    """

    of: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = ()
    real: Sequence[bytes]
    most: int = 1_000_000


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


# -- files -------------------------------------------------------------------------------------------------


_ROOT: Final = Path(tempfile.mkdtemp(prefix="kpe-odd-"))
atexit.register(shutil.rmtree, _ROOT)
CLUSTER: Final = cluster_of({"orders": [1, 2, None], "audit": [3]}, [1, 2, 3], cluster_id="c-1")
SNAPSHOT: Final = _json(encode_snapshot(Snapshot(CLUSTER, NOW)))


def written(name: str, content: bytes) -> Path:
    (path := _ROOT / name).write_bytes(content)
    return path


def diff(content: bytes) -> None:
    before, after = written("before.json", SNAPSHOT), written("after.json", content)
    with contextlib.redirect_stdout(io.StringIO()):
        show_difference(str(before), str(after), Output.TABLE)


def configuration(content: bytes) -> None:
    _configured(written("kpe.toml", content), {})


def variable(value: str, name: str) -> None:
    _configured(None, {f"KPE_{name}": value})


def _configured(path: Path | None, environ: Mapping[str, str]) -> None:
    """Load a configuration; of what is wrong raise the longest."""
    try:
        load_config(path, environ)
    except ConfigError as error:
        raise ConfigError([max(error.problems, key=len)]) from error


# -- records and small states ------------------------------------------------------------------------------

_OUTBOX: Final = scratch_journal()


def stored_snapshot(content: bytes) -> None:
    whole = _json(encode_snapshot(Snapshot(attrs.evolve(CLUSTER, by_topic={}), NOW)))
    odd, sound = {NODES: content}, {NODES: whole, f"{TOPIC}orders": content}
    for values in (odd, sound):
        _OUTBOX.write(values={f"{TOPIC}orders": None, **values})
        load_snapshot(_OUTBOX)


def text(use: Callable[[str], object]) -> Callable[[bytes], object]:
    """Return what is done with bytes as a client or a shell gives them to Python."""
    return lambda content: use(content.decode("utf-8", "surrogateescape"))


def header(use: Callable[[str], object]) -> Callable[[bytes], object]:
    """Return what is done with bytes as `http.client` gives a header to Python."""
    return lambda content: use(content.decode("latin-1"))


def option(use: Callable[[str], object], value: str) -> None:
    """Read an option as a command does; what it raises ends as one line on standard error."""
    try:
        use(value)
    except CliError as error:
        raise CliError(one_line(error)) from error


DECODERS: Final[dict[str, Decoder]] = {
    "snapshot for kpe diff": Decoder(of=diff, refuses=(CliError,), real=[SNAPSHOT]),
    "configuration": Decoder(of=configuration, refuses=(ConfigError,), real=[WHOLE.encode()]),
    **{
        f"KPE_{name}": Decoder(
            of=text(partial(variable, name=name)), refuses=(ConfigError,), real=[real], most=65_536
        )
        for name, real in {
            "OBSERVER__INTERVAL": b"10m",
            "OBSERVER__TOPICS": b"orders|payments",
            "OUTBOX__MAX_BYTES": b"1GiB",
            "HTTP__LISTEN": b"127.0.0.1:80",
            "METRICS__MAX_TOPICS": b"12",
            "KAFKA__PROPERTIES__SASL_PASSWORD_FILE": b"/dev/null",
        }.items()
    },
    **{
        f"{type(record).__name__.lower()} of change control, {number}": Decoder(
            of=partial(codec.decode, type(record)), refuses=(codec.RecordError,), real=[codec.encode(record)]
        )
        for number, record in enumerate(RECORDS)
    },
    "stored snapshot": Decoder(
        of=stored_snapshot,
        real=[SNAPSHOT, _json({"name": "orders", "topic_id": None, "partitions": [[1, 7, [1, 2], [1]]]})],
    ),
    "state of a fleet's tables": Decoder(
        of=text(decoded), refuses=(SparkJobError,), real=[encoded(FLEET).encode()]
    ),
    "offsets of a query": Decoder(of=text(offsets_in), real=[b'{"orders": {"0": 12, "1": 4}}']),
    "Retry-After": Decoder(of=header(retry_after_s), real=[b"120"], most=65_536),
    **{
        f"option --{name}": Decoder(
            of=text(partial(option, use)), refuses=(CliError,), real=real, most=65_536
        )
        for name, use, real in (
            ("for", options.parse_duration, [b"10m", b"1.5h"]),
            ("topics", TopicFilter, [b"orders|payments", b"a{1,3}.*"]),
            ("since", partial(parse_moment, now=NOW), [b"2h", b"2026-11-20T10:00:00Z", b"2026-11-20"]),
            ("days", parse_days, [b"2026-11-01..2026-11-07"]),
            ("target", parse_target, [b"99.9%"]),
        )
    },
}
