"""The jump hash over a whole Arrow array at once, number for number as `routing.jump`.

Spark's Python workers run this. They need NumPy and PyArrow, not this package: its functions are sent there
by value, so everything that they use must stand in this file.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

_FACTOR = 2862933555777941757
_SHIFT = 1 << 33
_FIRST = np.uint64(1 + _SHIFT)
_STEP = np.uint64((1 + _SHIFT - _FACTOR * _SHIFT) % (1 << 64))


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
