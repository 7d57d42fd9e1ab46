"""Java's murmur2, and the jump hash number for number as `routing.jump`, over a whole Arrow array at once.

Spark's Python workers run this. They need NumPy and PyArrow, not this package: its functions are sent there
by value (`jvm_function` sees to that), so everything that they use must stand in this file.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)
_CHUNK = 32_768  # keys at a time: what is computed on stays in the cache
_PAD = 4

_FACTOR = 2862933555777941757
_SHIFT = 1 << 33
_FIRST = np.uint64(1 + _SHIFT)
_STEP = np.uint64((1 + _SHIFT - _FACTOR * _SHIFT) % (1 << 64))


def murmur2(keys: pa.Array) -> pa.Array:
    """Return the signed 32-bit hash of each key as INT32; of a null, a null.

    Args:
        keys: Binary or string, with 32-bit or 64-bit offsets; a slice is fine. A string counts by its UTF-8.
    """
    if keys.null_count:
        # What lies beneath a null is anybody's guess, and must not be taken for a key.
        present = keys.is_valid().to_numpy(zero_copy_only=False)
        hashes = np.zeros(len(keys), np.int32)
        hashes[present] = _hashes(keys.drop_null())
        return pa.array(hashes, pa.int32(), mask=~present)
    return pa.array(_hashes(keys), pa.int32())


def _hashes(keys: pa.Array) -> "np.ndarray[Any, np.dtype[np.int32]]":
    hashes = np.empty(len(keys), np.uint32)
    for begin in range(0, len(keys), _CHUNK):
        offsets, data = _offsets_and_data(keys.slice(begin, _CHUNK))
        lengths = np.diff(offsets)
        shortest = int(lengths.min())
        if shortest == lengths.max():
            hashed = _of_one_length(data, len(lengths), shortest)
        else:
            hashed = _of_any_length(data, offsets, lengths)
        hashes[begin : begin + _CHUNK] = hashed
    return hashes.view(np.int32)


def _offsets_and_data(keys: pa.Array) -> tuple[Any, Any]:
    """Return where the keys begin in the data (and the end), from 0 on, and the data."""
    _, where, what = keys.buffers()
    wide = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    offsets = np.frombuffer(where, np.int64 if wide else np.int32)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    if what is None:  # nothing but empty keys
        return offsets, np.empty(0, np.uint8)
    data = np.frombuffer(what, np.uint8)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], data


def _of_one_length(data: Any, count: int, length: int) -> Any:
    """Hash keys that lie side by side: their words are columns of one matrix, read where they are."""
    hashes = np.full(count, _SEED ^ length, np.uint32)
    whole = length // 4
    if whole:
        words = np.ndarray((count, whole), "<u4", data, strides=(length, 4))
        for column in range(whole):
            _mix(hashes, words[:, column] * _M)
    if length % 4:
        rest = np.ndarray((count, length % 4), np.uint8, data, offset=4 * whole, strides=(length, 1))
        last = np.zeros(count, np.uint32)
        for column in reversed(range(length % 4)):
            last <<= np.uint32(8)
            last |= rest[:, column]
        hashes ^= last
        hashes *= _M
    return _finished(hashes)


def _of_any_length(data: Any, offsets: Any, lengths: Any) -> Any:
    """Hash keys in the order of their number of words, so that those that have an n-th word are a slice.

    The data are padded in front: the last word of a key of one to three bytes would begin before them.
    """
    padded = np.zeros(_PAD + len(data), np.uint8)
    padded[_PAD:] = data
    # The word at every byte. Copied, because gathering words that are not aligned is several times slower.
    word_at = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,)).copy()

    whole = lengths >> 2
    most = int(whole.max())
    narrow = whole.astype(np.uint16) if most <= 0xFFFF else whole  # 16 bits are sorted by radix
    order = np.argsort(narrow, kind="stable")
    firsts = np.searchsorted(narrow[order], np.arange(most), side="right")
    begins = offsets[:-1][order] + _PAD
    hashes = lengths.astype(np.uint32)[order]
    hashes ^= np.uint32(_SEED)
    for place, first in enumerate(firsts):
        _mix(hashes[first:], word_at[begins[first:] + 4 * place] * _M)

    # The bytes that are left are the upper ones of the word that ends with the key.
    left = (lengths[order] & 3).astype(np.uint32)
    last = word_at[offsets[1:][order]]
    last >>= np.uint32(8) * (np.uint32(4) - left) & np.uint32(31)
    hashes = np.where(left != 0, (hashes ^ last) * _M, hashes)

    in_place = np.empty_like(hashes)
    in_place[order] = _finished(hashes)
    return in_place


def _mix(hashes: Any, k: Any) -> None:
    """Take one word of each key, already multiplied, into its hash."""
    k ^= k >> _R
    k *= _M
    hashes *= _M
    hashes ^= k


def _finished(hashes: Any) -> Any:
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def jumping_to(count: int) -> Callable[[pa.Array], pa.Array]:
    """Return a function of an INT64 array of numbers, 0 or more, to INT32 buckets; of a null, a null."""

    def jump(numbers: pa.Array) -> pa.Array:
        absent = numbers.is_null().to_numpy(zero_copy_only=False)
        state = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
        buckets = np.zeros(len(state), np.int64)
        # As in `routing.jump`: x + 2**33 in place of Guava's x, so that its upper bits are the divisor.
        state = state * np.uint64(_FACTOR) + _FIRST
        moving = np.arange(len(state))
        while len(moving):
            divisor = (state >> np.uint64(33)).astype(np.int64)
            following = np.full(len(moving), count, np.int64)  # where it is 0, the number stays
            np.floor_divide((buckets[moving] + 1) << 31, divisor, out=following, where=divisor != 0)
            going_on = following < count
            moving, state = moving[going_on], state[going_on]
            buckets[moving] = following[going_on]
            state = state * np.uint64(_FACTOR) + _STEP
        return pa.array(buckets.astype(np.int32), pa.int32(), mask=absent)

    return jump
