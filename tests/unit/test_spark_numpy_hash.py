"""The hash over whole Arrow arrays gives, key by key, what the hash of one key gives."""

import base64
import random
import subprocess
import sys

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from kafka_partition_events.routing import hashing
from kafka_partition_events.spark.partitioner import numpy_hash
from kafka_partition_events.spark.partitioner.numpy_hash import murmur2

Keys = list[bytes | None]

RNG = random.Random(20261121)
MIXED: Keys = [RNG.randbytes(RNG.randrange(71)) for _ in range(5_000)]


def expected(keys: Keys) -> list[int | None]:
    return [None if key is None else hashing.murmur2(key) for key in keys]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(MIXED, id="any length"),
        pytest.param([b""], id="one empty key"),
        pytest.param([b"", b""], id="empty keys"),
        pytest.param(
            [b"", b"a", b"ab", b"abc", b"abcd", b"abcde"], id="the first key has no bytes before it"
        ),
        pytest.param([b"abc", b"", b"d"], id="short of a word"),
        pytest.param([None, None], id="nulls"),
        pytest.param([b"a", None, b"", None, b"\xff\xfe"], id="nulls and keys"),
        pytest.param([], id="nothing"),
    ],
)
def test_each_key_has_its_hash_and_a_null_has_none(keys: Keys, kind: pa.DataType) -> None:
    hashes = murmur2(pa.array(keys, kind))
    assert hashes.type == pa.int32()
    assert hashes.to_pylist() == expected(keys)


@pytest.mark.parametrize("length", range(18))
def test_keys_of_one_length(length: int) -> None:
    keys: Keys = [RNG.randbytes(length) for _ in range(100)]
    assert murmur2(pa.array(keys, pa.binary())).to_pylist() == expected(keys)
    with_nulls: Keys = [*keys, None, *keys]
    assert murmur2(pa.array(with_nulls, pa.binary())).to_pylist() == expected(with_nulls)


def test_a_slice_is_hashed_as_if_it_stood_alone() -> None:
    keys: Keys = [None if place % 7 == 0 else key for place, key in enumerate(MIXED)]
    for begin, count in ((0, 10), (3, 1), (17, 1_000), (4_990, 10)):
        part = pa.array(keys, pa.binary()).slice(begin, count)
        assert murmur2(part).to_pylist() == expected(keys[begin : begin + count])


def test_text_counts_by_its_utf_8() -> None:
    texts = ["user-1", "", "Zürich", None, "日本"]
    keys = [None if text is None else text.encode() for text in texts]
    assert murmur2(pa.array(texts)).to_pylist() == expected(keys)


def test_what_lies_beneath_a_null_is_not_looked_at() -> None:
    rubbish = pa.Array.from_buffers(
        pa.binary(),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(b"\x00\0\0\0\x03\0\0\0\x06\0\0\0"), pa.py_buffer(b"xyzabc")],
    )
    assert murmur2(rubbish).to_pylist() == [None, hashing.murmur2(b"abc")]


def test_spark_workers_need_not_have_this_package() -> None:
    from pyspark.cloudpickle import dumps, register_pickle_by_value  # noqa: PLC0415

    register_pickle_by_value(numpy_hash)  # type: ignore[no-untyped-call]
    sent = base64.b64encode(dumps(murmur2)).decode()  # type: ignore[no-untyped-call]
    program = (
        "import base64, pickle, sys; sys.modules['kafka_partition_events'] = None; import pyarrow as pa;"
        f"print(pickle.loads(base64.b64decode('{sent}'))(pa.array([b'abc', b'user-1'])).to_pylist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout.strip() == str(expected([b"abc", b"user-1"])), done.stderr


def test_more_keys_than_are_hashed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_hash, "_CHUNK", 64)
    assert murmur2(pa.array(MIXED, pa.binary())).to_pylist() == expected(MIXED)
