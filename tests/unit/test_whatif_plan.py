"""What is asked of the what-if planner, and where it puts single keys: where the partitioners do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_partition_events import ConfigurationError, DefaultPartitioner
from kafka_partition_events.spark.whatif.plan import MappingName, Scenario, combinations, scenarios, together
from kafka_partition_events.testing import cluster_of
from tests.whatif_kit import keys, place_of

KEYS = keys()
MAPPINGS: list[MappingName] = ["modulo", "kept"]
COUNTS = st.integers(1, 300)


class TestSingleKeys:
    @pytest.mark.parametrize("hash_name", ["murmur2", "crc32"])
    @pytest.mark.parametrize("target", [13, 18, 24])
    @pytest.mark.parametrize("mapping", MAPPINGS)
    def test_go_where_the_partitioners_put_them_before_and_after(
        self, mapping: MappingName, target: int, hash_name: Any
    ) -> None:
        kept = {"orders": 12} if mapping == "kept" else None
        partitioner = DefaultPartitioner(hash_name=hash_name, key_partitions=kept)
        found = []
        for count in (12, target):
            partitioner.apply_snapshot(cluster_of({"orders": [1] * count}))
            found.append([partitioner.partition("orders", key, key, None, b"", None) for key in KEYS])
        partitioner.close()
        place = place_of(Scenario(current=12, partitions=target, mapping=mapping), hash_name)
        before, after = found
        placed = [place(key) for key in KEYS]
        assert [each.before for each in placed] == before
        assert [each.home for each in placed] == after

    @given(st.binary(min_size=1), COUNTS, COUNTS)
    def test_that_are_kept_never_move(self, key: bytes, current: int, more: int) -> None:
        placed = place_of(Scenario(current=current, partitions=current + more, mapping="kept"))(key)
        assert placed.before == placed.home

    @given(st.binary(min_size=1), COUNTS, st.sampled_from(MAPPINGS))
    def test_stay_where_nothing_grows(self, key: bytes, current: int, mapping: MappingName) -> None:
        placed = place_of(Scenario(current=current, partitions=current, mapping=mapping))(key)
        assert placed.before == placed.home


class TestScenarios:
    def test_are_all_combinations_once(self) -> None:
        asked = scenarios(12, [13, 24, 13], ["modulo", "kept"])
        assert [each.name for each in asked] == ["modulo_13", "kept_13", "modulo_24", "kept_24"]

    @pytest.mark.parametrize(
        ("wrong", "complaint"),
        [
            ({"partitions": 11}, "has 12 partitions and can't have 11, for Kafka takes none away"),
            ({"partitions": 2_000_000}, "ask about 12 to 1,000,000"),
            ({"current": 0}, "must be 1 to 1,000,000, not 0"),
            ({"mapping": "sticky"}, "mapping must be one of modulo, kept, not 'sticky'"),
        ],
    )
    def test_that_can_not_be_are_refused(self, wrong: dict[str, Any], complaint: str) -> None:
        with pytest.raises(ConfigurationError, match=complaint):
            Scenario(**{"current": 12, "partitions": 24, **wrong})

    def test_there_must_be_one(self) -> None:
        with pytest.raises(ConfigurationError, match="nothing to compare"):
            scenarios(12, [])


class TestScenariosAreCounted:
    def test_together_if_their_places_have_few_combinations(self) -> None:
        asked = scenarios(12, [13, 18, 24])
        assert together(asked) == ((0, 1, 2),)
        assert combinations(asked) == 936

    @given(
        st.lists(st.tuples(COUNTS, st.sampled_from(MAPPINGS)), min_size=1, max_size=6),
        st.integers(1, 100_000),
    )
    def test_once_and_never_with_too_many(self, wanted: list[tuple[int, MappingName]], limit: int) -> None:
        asked = [Scenario(current=1, partitions=count, mapping=mapping) for count, mapping in wanted]
        groups = together(asked, limit)
        for group in groups:
            assert combinations(asked[index] for index in group) <= limit
        grouped = [index for group in groups for index in group]
        alone = [index for index, each in enumerate(asked) if combinations([each]) > limit]
        assert sorted(grouped + alone) == list(range(len(asked)))

    def test_in_not_more_combinations_than_said(self) -> None:
        asked = scenarios(3, [4, 6, 9], ["modulo", "kept"])
        places = [place_of(each) for each in asked]
        seen = {tuple((p.before, p.home) for p in (place(key) for place in places)) for key in KEYS}
        assert len(seen) <= combinations(asked)
