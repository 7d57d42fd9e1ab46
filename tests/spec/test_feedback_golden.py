"""The failure detector's histories in simulated worlds are the stored ones: see `tests.feedback_golden`."""

import pytest

from tests.feedback_golden import SEEDS, WORLDS, digest, stored

ALWAYS = [0, pytest.param(1, marks=pytest.mark.slow)]
"""Seeds of each world that are played each time; all of them once a week."""


def test_each_world_has_all_its_digests() -> None:
    assert {world: len(digests) for world, digests in stored().items()} == dict.fromkeys(WORLDS, SEEDS)


@pytest.mark.parametrize("seed", ALWAYS)
@pytest.mark.parametrize("world", WORLDS)
def test_histories_are_as_before(world: str, seed: int) -> None:
    assert digest(WORLDS[world](seed).run()) == stored()[world][seed]


@pytest.mark.weekly
@pytest.mark.parametrize("world", WORLDS)
def test_all_histories_are_as_before(world: str) -> None:
    got = [digest(WORLDS[world](seed).run()) for seed in range(SEEDS)]
    assert [seed for seed, it in enumerate(got) if it != stored()[world][seed]] == []
