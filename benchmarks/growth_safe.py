"""Keys over growth beside a plain modulo: what a key costs, how many move, how even they lie."""

from collections import Counter
from collections.abc import Callable

from attrs import asdict

from benchmarks.measure import Pair, cpu_ns, interleaved, save
from benchmarks.partition import our_cluster
from kafka_partition_events import DefaultPartitioner, Partitioner
from kafka_partition_events.partitioners.growth_safe import GrowthSafePartitioner
from kafka_partition_events.routing.hashing import KeyHash, key_hash
from kafka_partition_events.routing.jump import jump_hash

COUNTS = (12, 1_000)
GROWTHS = ((12, 13), (6, 12), (100, 101))
KEYS = [b"user-%08d" % number for number in range(1_000)]
REPEATS = 20
MOVED_KEYS = 1_000_000


def placing(partitioner: Partitioner, count: int) -> Callable[[], float]:
    """Return a function that measures one `partition()` call, averaged over the keys."""
    partitioner.apply_snapshot(our_cluster(count))
    partition = partitioner.partition

    def place_all() -> None:
        for key in KEYS:
            partition("t", key, key, None, None, None)

    return lambda: cpu_ns(place_all, REPEATS) / len(KEYS)


def hashing(place: KeyHash, count: int) -> Callable[[], float]:
    """Return a function that measures the hash alone."""

    def place_all() -> None:
        for key in KEYS:
            place(key, count)

    return lambda: cpu_ns(place_all, REPEATS) / len(KEYS)


def costs(count: int, pairs: int) -> dict[str, Pair]:
    """Measure each way beside the plain modulo."""
    kept = DefaultPartitioner(key_partitions={"t": count})
    rendezvous = GrowthSafePartitioner(mapping="rendezvous")
    plain = placing(DefaultPartitioner(), count)
    return {
        "partition(), key_partitions": interleaved(placing(kept, count), plain, pairs),
        "partition(), rendezvous": interleaved(placing(rendezvous, count), plain, pairs),
        "jump hash alone": interleaved(
            hashing(jump_hash("murmur2"), count), hashing(key_hash("murmur2"), count), pairs
        ),
    }


def moves(place: KeyHash, before: int, after: int, keys: list[bytes]) -> tuple[float, float]:
    """Return the share of keys that move on growth, and the fullest partition over the mean after it."""
    moved, loads = 0, Counter[int]()
    for key in keys:
        now = place(key, after)
        moved += now != place(key, before)
        loads[now] += 1
    return moved / len(keys), max(loads.values()) * after / len(keys)


def main(*, quick: bool = False) -> None:
    rows, raw = [], []
    for count in COUNTS:
        for name, pair in costs(count, 3 if quick else 11).items():
            rows.append([name, f"{count:,}", f"{pair.a.text(0)} ns", f"plain modulo: {pair.b.text(0)} ns"])
            raw.append({"case": name, "partitions": count, **asdict(pair)})
    keys = [b"user-%d" % number for number in range(MOVED_KEYS // (20 if quick else 1))]
    for before, after in GROWTHS:
        ours, peak = moves(jump_hash("murmur2"), before, after, keys)
        plain, plain_peak = moves(key_hash("murmur2"), before, after, keys)
        rows.append(
            [
                f"keys moved, of {len(keys):,}",
                f"{before} -> {after}",
                f"rendezvous {ours:.2%} (key_partitions: none), max/mean {peak:.3f}",
                f"plain modulo: {plain:.2%}, max/mean {plain_peak:.3f}",
            ]
        )
        raw.append({
            "case": "moved", "before": before, "after": after, "keys": len(keys),
            "rendezvous": ours, "max_over_mean": peak,
            "modulo": plain, "modulo_max_over_mean": plain_peak,
        })  # fmt: skip
    save(
        "growth_safe",
        "Keys over growth: CPU time of a call, and what growth moves",
        ["what", "partitions", "growth-safe", "beside"],
        rows,
        raw,
    )


if __name__ == "__main__":
    main()
