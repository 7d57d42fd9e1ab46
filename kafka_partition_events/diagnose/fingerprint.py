"""Which key hash placed a topic's records, by keys and the partitions that they are on. Pure.

A hash is deterministic: a key that is not where the hash says was placed by something else, for certain. The
other way round, a key is there by chance once in n on n partitions, whatever placed it. So a hash is named
only if it explains more keys than chance would, once in 1,000 topics (`ERROR_RATE`) or less. The bound is
Chernoff's, divided by the number of questions that are asked (Bonferroni). Then what is left unexplained is
asked the same: by another hash, then by any hash when the topic had fewer partitions.

What is counted are *placements*, the different pairs of a key and a partition: records of one key are no
independent evidence. Empty keys are left out, because clients differ about them.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import get_args

from attrs import frozen

from kafka_partition_events.routing.hashing import HashName, KeyHash, key_hash
from kafka_partition_events.routing.jump import jump_hash

ERROR_RATE = 0.001
"""How often a verdict may be wrong."""

_MOST_RULES = 4
_SEARCHED = 500
"""On how many placements an earlier partition count is searched for; it is then tried on all."""

_STEPS = 200

_HASHES: tuple[HashName, ...] = get_args(HashName)

HASHES: Mapping[str, KeyHash] = {str(name): key_hash(name) for name in _HASHES} | {
    f"rendezvous-{name}": jump_hash(key_hash(name)) for name in _HASHES
}
"""The hashes of this library, by name: taken modulo, and as growth-safe keys use them."""

Placement = tuple[bytes, int]


class Agreement(StrEnum):
    """What can be said of a topic's writers."""

    ONE_HASH = "one_hash"
    """All follow one hash, some perhaps when the topic had fewer partitions."""
    DISAGREE = "disagree"
    """Some follow a hash, others another one or none that is known."""
    UNKNOWN = "unknown"
    """No known hash explains more than chance would."""
    TOO_FEW = "too_few"
    """There are too few keys, or there is one partition only, where all hashes agree."""


@frozen
class HashRule:
    """A hash, and over how many partitions it was taken.

    Attributes:
        hash_name: The hash.
        partitions: How many: as many as the topic has, or fewer.
    """

    hash_name: str
    partitions: int


@frozen(kw_only=True)
class HashFinding:
    """A rule that is followed.

    Attributes:
        rule: The rule; None for whatever else has placed the rest.
        share: Of all placements, without those that the rule explains by chance (maximum likelihood).
        explained: Placements that it explains, those by chance included; for no rule, what is left over.
        example: A placement that no other rule found explains, if there is one.
    """

    rule: HashRule | None
    share: float
    explained: int
    example: Placement | None


@frozen(kw_only=True)
class Fingerprint:
    """How a topic's keyed records were placed.

    Attributes:
        verdict: What can be said of the writers.
        partitions: How many the topic has.
        keys: Different keys.
        placements: Different pairs of a key and a partition.
        split_keys: Keys on more than one partition. That is direct evidence: of writers who disagree, of a
            topic that has grown, or of keys that are ignored.
        fits: Which share of the placements each hash explains alone, with the present partitions.
        findings: The rules that are followed, the most followed one first.
        needed: So many keys set two hashes with half of the keys each apart; None: no number does.
        overlooked: The largest share of the keys that another rule may have and leave no trace in a sample
            of this size, but once in 1 / `ERROR_RATE` samples.
    """

    verdict: Agreement
    partitions: int
    keys: int
    placements: int
    split_keys: int
    fits: Mapping[str, float]
    findings: tuple[HashFinding, ...]
    needed: int | None
    overlooked: float

    @property
    def hash_names(self) -> tuple[str, ...]:
        """The hashes that are followed, the most followed one first."""
        return tuple(dict.fromkeys(f.rule.hash_name for f in self.findings if f.rule is not None))


def fingerprint(pairs: Iterable[Placement], partitions: int) -> Fingerprint:
    """Return how keyed records were placed.

    Args:
        pairs: The key and the partition of each record, in any order.
        partitions: How many partitions the topic has now, at least 1.
    """
    placements = sorted({(key, partition) for key, partition in pairs if key})
    rules = _search(placements, partitions) if partitions > 1 else []
    findings = _findings(placements, partitions, rules)
    needed = needed_keys(partitions)
    overlooked = _overlooked(len(placements), partitions)
    held = Counter(key for key, _ in placements)
    return Fingerprint(
        verdict=_verdict(findings, len(placements), needed, overlooked),
        partitions=partitions,
        keys=len(held),
        placements=len(placements),
        split_keys=sum(count > 1 for count in held.values()),
        fits={
            name: sum(_explains(HashRule(name, partitions), each) for each in placements)
            / max(1, len(placements))
            for name in HASHES
        },
        findings=findings,
        needed=needed,
        overlooked=overlooked,
    )


@cache
def needed_keys(partitions: int) -> int | None:
    """Return how many keys set two hashes with half of the keys each apart; None: no number does.

    Each of the two then explains so much more than chance, (1 + 1/n) / 2 instead of 1/n, that it is taken
    for chance once in 1 / `ERROR_RATE` topics or less. One hash alone is recognized much sooner.
    """
    if partitions == 1:
        return None
    chance = 1 / partitions
    half = (1 + chance) / 2
    enough = -_strictness(partitions)
    count = 1
    while True:
        least = next((k for k in range(1, count + 1) if -_log_chance(k, count, chance) >= enough), None)
        if least is not None and -_log_chance(count - least + 1, count, 1 - half) >= -math.log(ERROR_RATE):
            return count
        count += 1


def _strictness(partitions: int) -> float:
    """Return the logarithm of the chance that a rule must be below: every question may err."""
    questions = (_MOST_RULES + 1) * len(HASHES) * partitions
    return math.log(ERROR_RATE / questions)


def _log_chance(hits: int, trials: int, chance: float) -> float:
    """Return an upper bound of the logarithm of the chance of so many hits (Chernoff; exact for all)."""
    rate = hits / trials
    if rate <= chance:
        return 0.0
    miss = 0.0 if rate == 1 else (1 - rate) * math.log((1 - rate) / (1 - chance))
    return -trials * (rate * math.log(rate / chance) + miss)


def _search(placements: Sequence[Placement], partitions: int) -> list[HashRule]:
    """Find rules one by one: each explains more of what the ones before have left than chance would."""
    limit = _strictness(partitions)
    now = [HashRule(name, partitions) for name in HASHES]
    found: list[HashRule] = []
    left = placements
    while left and len(found) < _MOST_RULES:
        # At random, because each tenth key of a sorted list may have a pattern like a hash's.
        some = random.Random(0).sample(left, min(len(left), _SEARCHED))
        rule = _best(now, left, limit) or _best(_earlier(partitions, found), some, limit)
        if rule is None:
            break
        found.append(rule)
        left = _unexplained(rule, left)
    return found


def _earlier(partitions: int, found: Sequence[HashRule]) -> Iterator[HashRule]:
    """Yield the hashes when the topic had fewer partitions; rendezvous if it is followed now.

    It leaves many keys where they are when a topic grows, so without that it was not followed before.
    """
    followed = {*_HASHES, *(rule.hash_name for rule in found)}
    for count in range(partitions - 1, 1, -1):
        yield from (HashRule(name, count) for name in HASHES if name in followed)


def _best(rules: Iterable[HashRule], placements: Sequence[Placement], limit: float) -> HashRule | None:
    """Return the rule that chance explains least, if that is less than the limit."""
    best, least = None, limit
    for rule in rules:
        # A partition that the rule can't reach is no evidence: so a writer who names partitions, always
        # the first ones perhaps, is not taken for a hash of fewer partitions.
        within = [each for each in placements if each[1] < rule.partitions]
        if not within:
            continue
        hits = sum(_explains(rule, placement) for placement in within)
        chance = _log_chance(hits, len(within), 1 / rule.partitions)
        if chance <= least:
            best, least = rule, chance
    return best


def _explains(rule: HashRule, placement: Placement) -> bool:
    key, partition = placement
    return HASHES[rule.hash_name](key, rule.partitions) == partition


def _unexplained(rule: HashRule, placements: Iterable[Placement]) -> list[Placement]:
    return [placement for placement in placements if not _explains(rule, placement)]


def _findings(
    placements: Sequence[Placement], partitions: int, rules: Sequence[HashRule]
) -> tuple[HashFinding, ...]:
    """Return who placed what, without rules that the others turn out to explain altogether."""
    if not rules:
        return ()
    patterns = [tuple(_explains(rule, placement) for rule in rules) for placement in placements]
    *shares, rest = _shares(Counter(patterns), 1 / partitions)
    findings = []
    for place, (rule, share) in enumerate(zip(rules, shares, strict=True)):
        if share * len(placements) < 0.5:  # all that was placed before a growth fits the new count in part
            continue
        alone = tuple(other == place for other in range(len(rules)))
        findings.append(
            HashFinding(
                rule=rule,
                share=share,
                explained=sum(pattern[place] for pattern in patterns),
                example=next((p for p, of in zip(placements, patterns, strict=True) if of == alone), None),
            )
        )
    by_none = (False,) * len(rules)
    if by_none in patterns:
        example = placements[patterns.index(by_none)]
        explained = patterns.count(by_none)
        findings.append(HashFinding(rule=None, share=rest, explained=explained, example=example))
    return tuple(sorted(findings, key=lambda finding: (finding.rule is None, -finding.share)))


def _shares(patterns: "Counter[tuple[bool, ...]]", by_chance: float) -> list[float]:
    """Return the share of each rule, and last that of no rule, that make the patterns likeliest.

    Expectation maximization: what several could have placed is divided among them by their shares, and that
    gives the next shares. A hash places a key where it says for certain, no rule does ``by_chance``. With one
    rule alone this is (explained - 1/n) / (1 - 1/n).
    """
    parts = len(next(iter(patterns))) + 1
    shares = [1 / parts] * parts
    for _ in range(_STEPS):
        sums = [0.0] * parts
        for pattern, count in patterns.items():
            weights = [share * could for share, could in zip(shares, (*pattern, by_chance), strict=True)]
            whole = sum(weights)
            for part, value in enumerate(weights):
                sums[part] += count * value / whole
        shares = [value / patterns.total() for value in sums]
    return shares


def _overlooked(placements: int, partitions: int) -> float:
    """Return the share of another rule whose every key may lie on the place that is explained."""
    if not placements or partitions == 1:
        return 1.0
    return min(1.0, -math.expm1(math.log(ERROR_RATE) / placements) / (1 - 1 / partitions))


def _verdict(findings: Sequence[HashFinding], keys: int, needed: int | None, overlooked: float) -> Agreement:
    names = {finding.rule and finding.rule.hash_name for finding in findings}
    if len(names) > 1:
        return Agreement.DISAGREE
    if names:
        # Half of the keys is no trace of one hash that could be missed: that would be a guess.
        return Agreement.ONE_HASH if overlooked <= 0.5 else Agreement.TOO_FEW
    return Agreement.TOO_FEW if needed is None or keys < needed else Agreement.UNKNOWN
