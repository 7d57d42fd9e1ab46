"""Which part of the time partitions shall be online, by topic."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from pyspark.sql import Column


@frozen
class Targets:
    """What is promised of topics. All are between 0 and 1, both excluded.

    Attributes:
        rest: Of all that no pattern names, and of all topics together.
        by_topic: By regular expression, which must match the whole name; the first one that does counts.

    Raises:
        ValueError: one is not between 0 and 1, or a pattern is no regular expression.
    """

    rest: float = 0.999
    by_topic: Mapping[str, float] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for target in (self.rest, *self.by_topic.values()):
            if not 0 < target < 1:
                raise ValueError(f"a target must be between 0 and 1, both excluded, but one is {target}")
        for pattern in self.by_topic:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from error

    def of(self, topic: "Column") -> "Column":
        """Return the target of a topic."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the command line needs none

        found = F.lit(self.rest)
        for pattern, target in reversed([*self.by_topic.items()]):
            found = F.when(topic.rlike(rf"\A(?:{pattern})\z"), target).otherwise(found)
        return found


THREE_NINES: Final = Targets()
