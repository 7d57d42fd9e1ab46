"""Two instances and a store, whatever happens in whatever order: they end up agreeing."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics
from kafka_partition_events.partitioners.pins import History, MemoryPinStore, counts_in_force
from kafka_partition_events.testing.clock import ManualClock

TOPIC = "t"
instances = st.sampled_from([0, 1])


class FlakyStore(MemoryPinStore):
    """A store that can be down, and remembers every count that was ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.written: set[int] = set()

    def read(self) -> dict[str, History]:
        if self.down:
            raise PinStoreError("down")
        return dict(super().read())

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        if self.down:
            raise PinStoreError("down")
        done = super().replace(topic, before, after)
        if done:
            self.written |= {pin.count for pin in after}
        return done

    def written_now(self) -> History:
        return self._histories.get(TOPIC, ())

    def lose(self, keep: int) -> None:
        history = self._histories.pop(TOPIC, ())
        if history[:keep]:
            self._histories[TOPIC] = history[:keep]


class TwoInstances(RuleBasedStateMachine):
    """They see growth, place keys, look at the store and cut over; the store comes and goes."""

    @initialize(partitions=st.integers(1, 6))
    def start(self, partitions: int) -> None:
        self.clock = ManualClock()
        self.store = FlakyStore()
        self.fleet = [PinnedTopics(self.store, self.clock) for _ in range(2)]
        self.sees = [partitions, partitions]
        self.own_first_sight: list[int | None] = [None, None]

    @rule(who=instances, more=st.integers(1, 3))
    def grow(self, who: int, more: int) -> None:
        self.sees[who] += more

    @rule(who=instances)
    def place_a_key(self, who: int) -> None:
        instance = self.fleet[who]
        if TOPIC not in instance.in_force:
            if TOPIC not in instance.pins:
                self.own_first_sight[who] = self.sees[who]
            instance.pin(TOPIC, self.sees[who])

    @rule(who=instances)
    def look(self, who: int) -> None:
        instance = self.fleet[who]
        known, stored = instance.pins.get(TOPIC, ()), self.store.written_now()
        instance.step()
        if self.store.down:
            assert instance.pins.get(TOPIC, ()) == known
            return
        self.own_first_sight[who] = None
        holds = known if known[: len(stored)] == stored else stored
        assert instance.pins.get(TOPIC, ()) == self.store.written_now() == holds

    @rule(who=instances, delay=st.sampled_from([5.0, 60.0]))
    def cut_over(self, who: int, delay: float) -> None:
        try:
            pin = self.fleet[who].cut_over(TOPIC, self.sees[who], delay)
        except (ConfigurationError, PinStoreError):
            return
        assert pin in self.store.read()[TOPIC]
        self.own_first_sight[who] = None

    @rule(who=instances)
    def restart(self, who: int) -> None:
        if not self.store.down:
            self.fleet[who] = PinnedTopics(self.store, self.clock)
            self.own_first_sight[who] = None

    @rule(seconds=st.sampled_from([1.0, 4.0, 30.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(down=st.booleans())
    def break_or_mend_the_store(self, down: bool) -> None:
        self.store.down = down

    @rule(keep=st.integers(0, 2))
    def lose_the_store(self, keep: int) -> None:
        self.store.lose(keep)

    @invariant()
    def nobody_uses_a_count_that_was_never_in_the_store(self) -> None:
        for instance, own in zip(self.fleet, self.own_first_sight, strict=True):
            for count in instance.in_force.get(TOPIC, ()):
                assert count in self.store.written or count == own

    @invariant()
    def generations_and_counts_ascend(self) -> None:
        for instance in self.fleet:
            history = instance.pins.get(TOPIC, ())
            assert [pin.generation for pin in history] == list(range(1, len(history) + 1))
            assert sorted({pin.count for pin in history}) == [pin.count for pin in history]

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.store.down = False
        for instance in (*self.fleet, *self.fleet):
            instance.step()
        one, other = self.fleet
        assert one.pins == other.pins == self.store.read()
        assert one.in_force == other.in_force
        self.clock.advance(60)
        for instance in self.fleet:
            instance.step()
        assert one.in_force == other.in_force
        now = self.clock.now().timestamp()
        for topic, history in self.store.read().items():
            assert one.in_force[topic] == counts_in_force(history, now)


TwoInstances.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestTwoInstances = TwoInstances.TestCase
