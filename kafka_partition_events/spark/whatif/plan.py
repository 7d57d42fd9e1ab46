"""What is asked: numbers of partitions, and how keys are mapped to them. Pure.

A mapping is compared with itself, unless `Scenario.placed_by` says otherwise: where it puts a key among the
partitions that there are, and where it would put it.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import lcm
from typing import Final, Literal, get_args

from attrs import frozen

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.routing.hashing import KeyHash, key_hash
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.spark.partitioner import HashName

MappingName = Literal["modulo", "kept", "rendezvous"]
"""``"modulo"`` is the plain hash, of `DefaultPartitioner`; ``"kept"`` is that with ``key_partitions`` at
the present number; ``"rendezvous"`` is `GrowthSafePartitioner`'s."""

Rule = Literal["modulo", "rendezvous"]

MOST_PARTITIONS: Final = 1_000_000
MOST_COMBINATIONS: Final = 1 << 14
"""Of places, that are counted fast, and taken apart here. Spark's fast map holds more, the cache doesn't."""


@frozen(order=True)
class Place:
    """Where a hash puts a key among ``count`` partitions: by its remainder, or by the jump hash of it."""

    rule: Rule
    count: int

    @property
    def column(self) -> str:
        """The name of a column that holds it."""
        return f"_kpe_{self.rule}_{self.count}"


@frozen(kw_only=True)
class Scenario:
    """One number of partitions, and how keys would be mapped to them.

    Attributes:
        current: How many partitions the topic has now.
        partitions: How many it would have.
        mapping: How keys are mapped to partitions.
        placed_by: How keys are placed now; None: by the same mapping.
    """

    current: int
    partitions: int
    mapping: MappingName = "modulo"
    placed_by: Rule | None = None

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
            why = (
                "Kafka takes none away" if self.partitions < self.current else "that is more than is reckoned"
            )
            raise ConfigurationError(
                f"the topic has {self.current:,} partitions and can't have {self.partitions:,}: {why}. "
                f"Ask about {self.current:,} to {MOST_PARTITIONS:,}"
            )

    @property
    def name(self) -> str:
        """What columns call it: ``modulo_24``."""
        return f"{self.mapping}_{self.partitions}"

    @property
    def rule(self) -> Rule:
        """How a hash becomes a partition; one that is kept does by its remainder."""
        return "rendezvous" if self.mapping == "rendezvous" else "modulo"

    @property
    def before(self) -> Place:
        """Where a key is now."""
        return Place(self.placed_by or self.rule, self.current)

    @property
    def home(self) -> Place:
        """Where a key would belong; one that is kept belongs where it is."""
        return Place(self.rule, self.current if self.mapping == "kept" else self.partitions)

    @property
    def places(self) -> tuple[Place, ...]:
        """All that tells where a key goes."""
        return tuple(dict.fromkeys((self.before, self.home)))


def scenarios(
    current: int,
    targets: Iterable[int],
    mappings: Iterable[MappingName] = ("modulo",),
    *,
    placed_by: Rule | None = None,
) -> tuple[Scenario, ...]:
    """Return a scenario for each of these numbers of partitions and each mapping; see `Scenario`.

    Raises:
        ConfigurationError: there is none, or a value is of no use.
    """
    found = (
        Scenario(current=current, partitions=target, mapping=mapping, placed_by=placed_by)
        for target, mapping in product(targets, mappings)
    )
    made = tuple(dict.fromkeys(found))
    if not made:
        raise ConfigurationError("there is nothing to compare: give at least one number of partitions")
    return made


# -- what is counted together ------------------------------------------------------------------------------


def together(scenarios: Sequence[Scenario], limit: int = MOST_COMBINATIONS) -> tuple[tuple[int, ...], ...]:
    """Return scenarios, by their indexes, in groups whose places have not more combinations than the limit.

    One that has more by itself is in none. The remainders by 12, 18 and 24 have 72 combinations, those by 97,
    98 and 99 nearly a million. A row is counted once for each group. Places of different rules are
    independent, so their combinations multiply: a group is of one rule.
    """
    groups: list[list[int]] = []
    for index, scenario in enumerate(scenarios):
        if combinations(scenario.places) > limit:
            continue
        for group in groups:
            places = [place for each in (*group, index) for place in scenarios[each].places]
            if scenarios[group[0]].rule == scenario.rule and combinations(places) <= limit:
                group.append(index)
                break
        else:
            groups.append([index])
    return tuple(map(tuple, groups))


def combinations(places: Iterable[Place]) -> int:
    """Return how many combinations of these places there are at the most."""
    known = set(places)
    total = lcm(*(place.count for place in known if place.rule == "modulo"))
    fewer = 1
    for count in sorted(place.count for place in known if place.rule == "rendezvous"):
        # Where there are more partitions, a key is where it was or on one of those that are more.
        total *= 1 + count - fewer
        fewer = count
    return total


# -- single keys -------------------------------------------------------------------------------------------


@frozen
class Placed:
    """Where one key is now, and where it would belong."""

    before: int
    home: int


def placing(scenario: Scenario, hash_name: HashName = "murmur2") -> Callable[[bytes], Placed]:
    """Return what places single keys, by the functions that the partitioners call."""
    hashes: dict[Rule, KeyHash] = {"modulo": key_hash(hash_name), "rendezvous": jump_hash(hash_name)}
    before, home = scenario.before, scenario.home

    def place(key: bytes) -> Placed:
        return Placed(hashes[before.rule](key, before.count), hashes[home.rule](key, home.count))

    return place
