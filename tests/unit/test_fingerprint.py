"""Which hash placed a topic's keys: named for certain, or not at all.

All randomness has fixed seeds. Where a test counts wrong verdicts, the error rate that is promised is 1 in
1,000 (`ERROR_RATE`), and the bound is what a rate of 1 in 1,000 exceeds less than once in 1,000 such tests.
"""

import random
from collections.abc import Callable

import pytest

from kafka_partition_events.diagnose.fingerprint import (
    ERROR_RATE,
    HASHES,
    Agreement,
    Fingerprint,
    HashRule,
    Placement,
    fingerprint,
    needed_keys,
)

RENDEZVOUS = "rendezvous-murmur2"
Writer = Callable[[bytes], int]


def keys(count: int, prefix: str = "customer") -> list[bytes]:
    return [b"%s-%d" % (prefix.encode(), number) for number in range(count)]


def hashing(name: str, partitions: int) -> Writer:
    return lambda key: HASHES[name](key, partitions)


def anywhere(partitions: int, seed: int) -> Writer:
    rng = random.Random(seed)
    return lambda _key: rng.randrange(partitions)


def written(count: int, *writers: tuple[float, Writer], seed: int = 1) -> list[Placement]:
    """Return `count` keys, each placed by one of the writers, drawn by their shares."""
    rng = random.Random(seed)
    shares = [share for share, _ in writers]
    chosen = rng.choices([writer for _, writer in writers], shares, k=count)
    return [(key, writer(key)) for key, writer in zip(keys(count), chosen, strict=True)]


def rules(found: Fingerprint) -> dict[HashRule | None, float]:
    return {finding.rule: finding.share for finding in found.findings}


@pytest.mark.parametrize("partitions", [2, 3, 12, 128, 1000])
@pytest.mark.parametrize("name", HASHES)
def test_one_hash_is_named(name: str, partitions: int) -> None:
    found = fingerprint(written(2_000, (1, hashing(name, partitions))), partitions)
    assert (found.verdict, found.hash_names) == (Agreement.ONE_HASH, (name,))
    assert rules(found) == {HashRule(name, partitions): pytest.approx(1.0)}
    assert found.fits[name] == 1.0
    by_chance = 1 / partitions + 0.04  # 3 sigma at n = 2
    assert all(share < by_chance for other, share in found.fits.items() if other != name)
    assert (found.keys, found.split_keys) == (2_000, 0)


def test_neither_order_nor_repetition_nor_empty_keys_matter() -> None:
    """Clients differ about empty ones."""
    pairs = written(500, (0.7, hashing("murmur2", 12)), (0.3, anywhere(12, seed=2)))
    empty = [(b"", partition) for partition in range(12)]
    for same in (reversed(pairs), pairs * 5, [*pairs, *empty]):
        assert fingerprint(same, 12) == fingerprint(pairs, 12)


MIXED: dict[str, tuple[list[tuple[float, Writer]], Agreement, dict[HashRule | None, float]]] = {
    "half of the keys each": (
        [(0.5, hashing("murmur2", 12)), (0.5, hashing("crc32", 12))],
        Agreement.DISAGREE,
        {HashRule("murmur2", 12): 0.5, HashRule("crc32", 12): 0.5},
    ),
    "three hashes": (
        [(0.6, hashing("murmur2", 12)), (0.3, hashing("crc32", 12)), (0.1, hashing("fnv1a", 12))],
        Agreement.DISAGREE,
        {HashRule("murmur2", 12): 0.6, HashRule("crc32", 12): 0.3, HashRule("fnv1a", 12): 0.1},
    ),
    "nothing was written since the topic has grown": (
        [(1, hashing("murmur2", 6))],
        Agreement.ONE_HASH,
        {HashRule("murmur2", 6): 1.0},
    ),
    "a topic that has grown twice": (
        [(1 / 3, hashing("murmur2", count)) for count in (4, 6, 12)],
        Agreement.ONE_HASH,
        {HashRule("murmur2", count): 1 / 3 for count in (4, 6, 12)},
    ),
    "a hash that changed when the topic grew": (
        [(0.3, hashing("crc32", 6)), (0.7, hashing("murmur2", 12))],
        Agreement.DISAGREE,
        {HashRule("crc32", 6): 0.3, HashRule("murmur2", 12): 0.7},
    ),
    "rendezvous over two hashes": (
        [(0.7, hashing(RENDEZVOUS, 12)), (0.3, hashing("rendezvous-crc32", 12))],
        Agreement.DISAGREE,
        {HashRule(RENDEZVOUS, 12): 0.7, HashRule("rendezvous-crc32", 12): 0.3},
    ),
    "rendezvous of a topic that has grown, beside another mapping": (
        [(0.5, hashing(RENDEZVOUS, 12)), (0.5, hashing("murmur2", 12))],
        Agreement.DISAGREE,
        {HashRule(RENDEZVOUS, 12): 0.5, HashRule("murmur2", 12): 0.5},
    ),
    "some keys without a rule": (
        [(0.8, hashing("murmur2", 12)), (0.2, anywhere(12, seed=5))],
        Agreement.DISAGREE,
        {HashRule("murmur2", 12): 0.8, None: 0.2},
    ),
    "writers that name one partition": (
        [(0.7, hashing("murmur2", 12)), (0.3, lambda _key: 0)],
        Agreement.DISAGREE,
        {HashRule("murmur2", 12): 0.7, None: 0.3},
    ),
}
"""Who wrote, with what share of the keys; the verdict, and the rules with their shares as they are found."""


@pytest.mark.parametrize(("writers", "verdict", "shares"), MIXED.values(), ids=MIXED.keys())
def test_each_writer_is_named_with_its_share(
    writers: list[tuple[float, Writer]], verdict: Agreement, shares: dict[HashRule | None, float]
) -> None:
    found = fingerprint(written(5_000, *writers), 12)
    assert found.verdict is verdict
    assert rules(found) == {rule: pytest.approx(share, abs=0.05) for rule, share in shares.items()}
    assert sum(rules(found).values()) == pytest.approx(1.0)
    named = [finding.share for finding in found.findings if finding.rule]
    assert named == sorted(named, reverse=True)


@pytest.mark.parametrize("partitions", [2, 12, 128])
def test_a_writer_with_one_key_in_a_hundred_is_seen(partitions: int) -> None:
    pairs = written(10_000, (0.99, hashing("crc32", partitions)), (0.01, hashing("murmur2", partitions)))
    found = fingerprint(pairs, partitions)
    assert (found.verdict, found.hash_names) == (Agreement.DISAGREE, ("crc32", "murmur2"))
    assert found.findings[1].share == pytest.approx(0.01, abs=0.006)


def test_an_example_is_a_key_that_only_its_own_rule_explains() -> None:
    pairs = written(1_000, (0.5, hashing("murmur2", 12)), (0.5, hashing("crc32", 12)))
    for finding in fingerprint(pairs, 12).findings:
        assert finding.rule is not None
        assert finding.example is not None
        key, partition = finding.example
        explains = {name for name in ("murmur2", "crc32") if HASHES[name](key, 12) == partition}
        assert explains == {finding.rule.hash_name}


# -- growth ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crc32", RENDEZVOUS])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize(("before", "after"), [(6, 12), (12, 13), (2, 100)])
def test_growth_is_no_disagreement(before: int, after: int, share: float, name: str) -> None:
    pairs = written(5_000, (share, hashing(name, before)), (1 - share, hashing(name, after)))
    found = fingerprint(pairs, after)
    assert (found.verdict, found.hash_names) == (Agreement.ONE_HASH, (name,))
    assert rules(found) == pytest.approx(
        {HashRule(name, before): share, HashRule(name, after): 1 - share}, abs=0.04
    )


def test_a_key_from_before_and_after_a_growth_is_split() -> None:
    pairs = [(key, HASHES["murmur2"](key, count)) for key in keys(1_000) for count in (6, 12)]
    found = fingerprint(pairs, 12)
    assert (found.verdict, found.keys) == (Agreement.ONE_HASH, 1_000)
    assert found.split_keys == found.placements - 1_000
    assert 0.4 < found.split_keys / 1_000 < 0.6


@pytest.mark.parametrize("named", [0, 1, 11])
def test_writers_that_name_a_partition_do_not_look_like_rendezvous_of_fewer(named: int) -> None:
    found = fingerprint(written(5_000, (0.7, hashing(RENDEZVOUS, 12)), (0.3, lambda _key: named)), 12)
    assert found.verdict is Agreement.DISAGREE
    assert found.findings[-1].rule is None


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [2, 3, 12, 128])
def test_what_is_overlooked_beside_rendezvous_is_told(partitions: int) -> None:
    """A second writer with that share leaves no trace once in 1,000 samples; 4 of 300 are 3 in 10,000."""
    alone = fingerprint(written(200, (1, hashing(RENDEZVOUS, partitions))), partitions)
    assert alone.verdict is Agreement.ONE_HASH
    missed = 0
    for seed in range(300):
        other = anywhere(partitions, seed)
        writers = [(1 - alone.overlooked, hashing(RENDEZVOUS, partitions)), (alone.overlooked, other)]
        missed += fingerprint(written(200, *writers, seed=seed), partitions).verdict is Agreement.ONE_HASH
    assert missed <= 3


# -- no hash -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["murmur2", RENDEZVOUS])
def test_a_single_key_where_it_never_was_is_evidence(name: str) -> None:
    pairs = written(1_000, (1, hashing(name, 12)))
    key = pairs[0][0]
    visited = {HASHES[name](key, count) for count in (range(1, 13) if name == RENDEZVOUS else [12])}
    elsewhere = min(set(range(12)) - visited)
    found = fingerprint([(key, elsewhere), *pairs[1:]], 12)
    assert found.verdict is Agreement.DISAGREE
    assert found.findings[-1].rule is None
    assert found.findings[-1].example == (key, elsewhere)


@pytest.mark.parametrize("named", range(12))
def test_whichever_partition_writers_name_it_is_no_hash(named: int) -> None:
    """FNV-1a modulo 2 is the parity of all bits, so consecutive keys have a pattern; a sample must not."""
    assert fingerprint(written(5_000, (1, lambda _key: named)), 12).verdict is Agreement.UNKNOWN


def test_keys_that_are_ignored_are_split() -> None:
    rng = random.Random(4)
    pairs = [(key, rng.randrange(12)) for key in keys(500) for _ in range(10)]
    found = fingerprint(pairs, 12)
    assert (found.verdict, found.hash_names, found.split_keys) == (Agreement.UNKNOWN, (), 500)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [2, 12, 50])
def test_placement_at_random_is_no_hash(partitions: int) -> None:
    """At a rate of 1 in 1,000, more than 5 of 1,000 come in 6 of 10,000 tests."""
    writer, sample = anywhere(partitions, seed=partitions), keys(60_000)
    taken = 0
    for start in range(0, 60_000, 60):
        found = fingerprint([(key, writer(key)) for key in sample[start : start + 60]], partitions)
        taken += bool(found.findings)
    assert taken <= 5


# -- too few keys ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [2, 3, 12, 128])
def test_as_many_keys_as_needed_tell_two_halves(partitions: int) -> None:
    """Less than one verdict in 1,000 is wrong; of 300, more than 3 are in 3 of 10,000 tests."""
    needed = needed_keys(partitions)
    assert needed is not None
    wrong = 0
    for seed in range(300):
        halves = [(0.5, hashing("murmur2", partitions)), (0.5, hashing("crc32", partitions))]
        found = fingerprint(written(needed, *halves, seed=seed), partitions)
        wrong += found.verdict is not Agreement.DISAGREE
    assert wrong <= 3


def test_a_few_keys_are_a_guess_and_some_more_are_one_hash() -> None:
    writer = hashing("murmur2", 12)
    few = fingerprint(written(8, (1, writer)), 12)
    assert (few.verdict, few.needed) == (Agreement.TOO_FEW, needed_keys(12))
    some = fingerprint(written(20, (1, writer)), 12)
    assert some.verdict is Agreement.ONE_HASH
    # 20 keys without a trace: a second hash with this share would leave none once in 1,000 samples.
    assert (1 - some.overlooked * 11 / 12) ** 20 == pytest.approx(ERROR_RATE)


def test_one_partition_tells_nothing() -> None:
    found = fingerprint(written(1_000, (1, hashing("murmur2", 1))), 1)
    assert (found.verdict, found.needed, found.overlooked) == (Agreement.TOO_FEW, None, 1.0)
    assert {*found.fits.values()} == {1.0}


@pytest.mark.parametrize("pairs", [[], [(b"", 3)] * 100])
def test_no_keys_are_too_few(pairs: list[Placement]) -> None:
    found = fingerprint(pairs, 12)
    assert (found.verdict, found.keys, found.placements) == (Agreement.TOO_FEW, 0, 0)
