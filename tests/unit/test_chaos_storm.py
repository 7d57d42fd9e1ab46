"""What a storm changes is undone in the calm at the latest, though brokers died amid it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_partition_events.testing.errors import KitError
from tests.chaos.plan import BROKERS, Step
from tests.chaos.storm import TOPICS, World


class FakeCluster:
    """Keeps settings; refuses changes while `down`."""

    controllers: tuple[int, ...] = ()
    pids = BROKERS

    def __init__(self) -> None:
        self.limits: dict[str, float | None] = {}
        self.configs: dict[str, str] = {}
        self.down = False
        view = SimpleNamespace(topics={})
        self._nodes = SimpleNamespace(brokers={BROKERS[0]: SimpleNamespace(ask=lambda: view)})

    def quota(self, *, client_id: str, producer_bytes_per_s: float | None = None) -> None:
        self._reach()
        self.limits[client_id] = producer_bytes_per_s

    def set_config(self, config: dict[str, str], *, topic: str) -> None:
        self._reach()
        self.configs[topic] = config["min.insync.replicas"]

    def _reach(self) -> None:
        if self.down:
            raise KitError("connection refused")

    def heal(self) -> None:
        self.down = False

    def thaw(self, node: int) -> None:
        pass

    def await_registered(self, *brokers: int) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path) -> Any:
    cluster: Any = FakeCluster()
    fleet: Any = SimpleNamespace(dead=list)
    pager: Any = None
    return World(cluster, fleet, pager, tmp_path, dict.fromkeys(TOPICS, 0.0))


QUOTA = Step(0.0, 0.0, "quota", "ours-k", 2_000.0)
MIN_ISR = Step(0.0, 0.0, "min_isr", "orders", 3.0)


def test_a_setting_lasts_as_long_as_its_step(world: Any) -> None:
    with world._fault(QUOTA), world._fault(MIN_ISR):
        assert world.cluster.limits == {"ours-k": 2_000.0}
        assert world.cluster.configs == {"orders": "3"}
    assert world.cluster.limits == {"ours-k": None}
    assert world.cluster.configs == {"orders": "2"}


@pytest.mark.parametrize(
    ("step", "settings", "undone"),
    [(QUOTA, "limits", {"ours-k": None}), (MIN_ISR, "configs", {"orders": "2"})],
)
def test_what_no_broker_takes_back_amid_a_storm_is_taken_back_when_all_recovers(
    world: Any, step: Step, settings: str, undone: dict[str, Any]
) -> None:
    with pytest.raises(KitError), world._fault(step):
        world.cluster.down = True
    world.recover()
    assert getattr(world.cluster, settings) == undone
    assert world._to_undo == []
