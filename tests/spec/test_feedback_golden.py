"""The failure detector's histories in simulated worlds are the stored ones: see `tests.feedback_golden`."""

import pytest

from tests.feedback_golden import SEEDS, WORLDS, digest, stored

PLAYED = [
    pytest.param(world, seed, marks=[] if seed == 0 and world.startswith("six") else pytest.mark.slow)
    for world in WORLDS
    for seed in (0, 1)
]
"""What is played each time; all seeds of each world once a week."""


def test_each_world_has_all_its_digests() -> None:
    assert {world: len(digests) for world, digests in stored().items()} == dict.fromkeys(WORLDS, SEEDS)


@pytest.mark.parametrize(("world", "seed"), PLAYED)
def test_histories_are_as_before(world: str, seed: int) -> None:
    assert digest(WORLDS[world](seed).run()) == stored()[world][seed]


@pytest.mark.weekly
@pytest.mark.parametrize("world", WORLDS)
def test_all_histories_are_as_before(world: str) -> None:
    got = [digest(WORLDS[world](seed).run()) for seed in range(SEEDS)]
    assert [seed for seed, it in enumerate(got) if it != stored()[world][seed]] == []
