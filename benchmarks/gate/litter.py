"""What can lie in the control topics, although nobody can use it: junk, odd records, and forged ones."""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

_LEASE: Final = {
    "format": "kpe.lease", "version": 1, "instance_id": "ghost", "incarnation": "x", "lease_seq": 1,
    "role": "producer", "cluster_id": "c-1", "state": "up",
}  # fmt: skip
_COMMAND: Final = {"format": "kpe.command", "version": 1, "change_id": "odd", "verb": "cancel", "actor": "x"}
_CHANGE: Final = {"format": "kpe.change", "version": 1, "change_id": "odd", "number": 1, "tracker_epoch": 1}


def litter(rng: random.Random, topics: Sequence[str]) -> tuple[bytes, bytes]:
    """Return a value and a key of something that nobody can use.

    Args:
        rng: Chance.
        topics: Topics of open changes, which have the same names.
    """
    topic = rng.choice([*topics, "orders"])
    odd = [
        _junk(rng),
        b"[" * 100_000,
        b"\xff\xfe" + rng.randbytes(20),
        _json({**_LEASE, "ttl_s": 1e306}),
        _json({**_LEASE, "instance_id": f"ghost-{rng.randrange(50)}", "view": [_use(topic, -1)]}),
        _json({**_LEASE, "version": 99}),
        _json({**_LEASE, "born_ms": 9_223_372_036_854_775_807}),
        _json({**_LEASE, "group": topic, "view": [{**_use(topic, 6), "positioned": "0-999999," * 400}]}),
        _json({**_LEASE, "group": topic, "ttl_s": 0, "view": [{**_use(topic, 6), "positioned": "6-11"}]}),
        _json({**_COMMAND, "actor": "\ud800"}),
        _json({**_COMMAND, "verb": "rule"}),
        _json({**_COMMAND, "change_id": "odd|odd"}),
        _json({**_COMMAND, "verb": "request", "change_id": "big", "spec": _spec(100_000_000)}),
        _json({**_CHANGE, "state": "converged"}),
        b"",
    ]
    return rng.choice(odd), rng.choice([b"", b"ghost", topic.encode(), rng.randbytes(8)])


def _use(topic: str, seen: int) -> dict[str, Any]:
    return {"topic": topic, "seen": seen, "used": seen}


def _spec(to_count: int) -> dict[str, Any]:
    return {"kind": "partitions.increase", "cluster_id": "c-1", "topic": "x", "to_count": to_count}


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _junk(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(2_000))
