"""What is asked: numbers of partitions, and how keys are mapped to them. Pure."""

from collections.abc import Iterable, Sequence
from itertools import product
from math import lcm
from typing import Final, Literal, get_args

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError

MappingName = Literal["modulo", "kept"]
"""``"modulo"`` is the plain hash, of `DefaultPartitioner`; ``"kept"`` is that with ``key_partitions`` at
the present number."""

MOST_PARTITIONS: Final = 1_000_000
MOST_COMBINATIONS: Final = 1 << 14
"""Of places, that are counted fast, and taken apart here. Spark's fast map holds more, the cache doesn't."""


@frozen(kw_only=True)
class Scenario:
    """One number of partitions, and how keys would be mapped to them.

    Attributes:
        current: How many partitions the topic has now.
        partitions: How many it would have.
        mapping: How keys are mapped to partitions.
    """

    current: int
    partitions: int
    mapping: MappingName = "modulo"

    def __attrs_post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationError: one of them is of no use; the message names it.
        """
        if self.mapping not in (choices := get_args(MappingName)):
            raise ConfigurationError(f"mapping must be one of {', '.join(choices)}, not {self.mapping!r}")
        if not 1 <= self.current <= MOST_PARTITIONS:
            raise ConfigurationError(
                f"the topic's number of partitions must be 1 to {MOST_PARTITIONS:,}, not {self.current:,}"
            )
        if not self.current <= self.partitions <= MOST_PARTITIONS:
            raise ConfigurationError(
                f"the topic has {self.current:,} partitions and can't have {self.partitions:,}, for Kafka "
                f"takes none away: ask about {self.current:,} to {MOST_PARTITIONS:,}"
            )

    @property
    def name(self) -> str:
        """What columns call it: ``modulo_24``."""
        return f"{self.mapping}_{self.partitions}"

    @property
    def home(self) -> int:
        """Over how many partitions a key's hash is taken then; one that is kept stays where it is."""
        return self.current if self.mapping == "kept" else self.partitions


def scenarios(
    current: int, targets: Iterable[int], mappings: Iterable[MappingName] = ("modulo",)
) -> tuple[Scenario, ...]:
    """Return a scenario for each of these numbers of partitions and each mapping; see `Scenario`.

    Raises:
        ConfigurationError: there is none, or a value is of no use.
    """
    found = (
        Scenario(current=current, partitions=target, mapping=mapping)
        for target, mapping in product(targets, mappings)
    )
    made = tuple(dict.fromkeys(found))
    if not made:
        raise ConfigurationError("there is nothing to compare: give at least one number of partitions")
    return made


def together(scenarios: Sequence[Scenario], limit: int = MOST_COMBINATIONS) -> tuple[tuple[int, ...], ...]:
    """Return scenarios, by their indexes, in groups whose places have not more combinations than the limit.

    One that has more by itself is in none. The remainders by 12, 18 and 24 have 72 combinations, those by 97,
    98 and 99 nearly a million. A row is counted once for each group.
    """
    groups: list[list[int]] = []
    for index, scenario in enumerate(scenarios):
        if combinations([scenario]) > limit:
            continue
        for group in groups:
            if combinations([*(scenarios[each] for each in group), scenario]) <= limit:
                group.append(index)
                break
        else:
            groups.append([index])
    return tuple(map(tuple, groups))


def combinations(scenarios: Iterable[Scenario]) -> int:
    """Return how many combinations of a key's places there are in these scenarios."""
    return lcm(*(count for each in scenarios for count in (each.current, each.home)))
