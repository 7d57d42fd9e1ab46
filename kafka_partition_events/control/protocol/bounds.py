"""How large anything in a record may be. Whatever is larger is no record. Pure.

Everybody with the library may write leases and acks. What one record can cost its readers is bounded by its
length in bytes (`codec.MOST_BYTES`), as nothing in it costs more than its text: sets of partitions are kept
as runs. Each number is one that can be shown, each text one that does nothing to a terminal.
"""

from typing import Final

MOST_ITEMS: Final = 1_000
"""Of a list."""
MOST_IDS: Final = 10_000
"""Of a set of partitions. No change affects more: Kafka creates no more for one request (KAFKA-19673)."""
MOST_TEXT: Final = 2_000
"""Characters of a text."""
MOST_NUMBER: Final = 253_402_300_799_999
"""Of an integer: milliseconds since 1970, up to the year 9999."""
MOST_SECONDS: Final = 10.0 * 365 * 86_400
