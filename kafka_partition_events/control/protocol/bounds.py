"""How large anything in a record may be. Whatever is larger is no record, whoever wrote it. Pure.

Everybody with the library may write leases and acks. So what one record can cost its readers in memory and
time is bounded here. `codec` keeps to it for each field, whether that says anything or not.
"""

from typing import Annotated, Final

from attrs import frozen

MOST_ITEMS: Final = 1_000
"""Of a list."""
MOST_IDS: Final = 10_000
"""Of a set of partitions. No change affects more: Kafka creates no more for one request (KAFKA-19673)."""
MOST_TEXT: Final = 256
"""Characters of a text of which nothing else is said."""
MOST_NUMBER: Final = 2**63 - 1
"""Of an integer of which nothing else is said: a ``long`` elsewhere."""
MOST_PARTITIONS: Final = 1_000_000
"""That a topic may have."""
MOST_SECONDS: Final = 10.0 * 365 * 86_400


@frozen
class Text:
    """Up to so many characters, none of which would do anything to a terminal; without some."""

    most: int
    without: str = ""


@frozen
class Number:
    """From, to, both included."""

    least: float
    most: float


@frozen
class Items:
    """Up to so many in a list."""

    most: int


Id = Annotated[str, Text(128, without="|")]
"""It is a part of keys, which are put together with ``|``."""
Prose = Annotated[str, Text(2_000)]
Count = Annotated[int, Number(0, MOST_PARTITIONS)]
"""Of partitions."""
Moment = Annotated[int, Number(0, 253_402_300_799_999)]
"""Milliseconds since 1970, up to the year 9999."""
TimeToLive = Annotated[float, Number(0, 3_600.0)]
"""Seconds that a lease lasts."""
