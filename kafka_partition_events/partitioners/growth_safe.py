"""Growth-safe keys: a topic grows, and its keys stay, or no more of them move than must."""

import contextlib
import random
import time
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

from kafka_partition_events.errors import ConfigurationError, PinStoreError
from kafka_partition_events.metadata.clock import Clock, SystemClock
from kafka_partition_events.partitioners.adaptive import AdaptivePartitioner
from kafka_partition_events.partitioners.keys import KeyedPolicy
from kafka_partition_events.partitioners.pinned_topics import PinnedTopics, PinWatcher
from kafka_partition_events.partitioners.pins import INTERVAL_S, History, Pin, PinStore, check_delay
from kafka_partition_events.partitioners.routes import ClusterView
from kafka_partition_events.partitioners.sticky import BATCH_BYTES
from kafka_partition_events.partitioners.user_pins import UserPinStore
from kafka_partition_events.routing.budget import BufferBudget
from kafka_partition_events.routing.hashing import HashName, KeyHash, key_hash
from kafka_partition_events.routing.jump import jump_hash
from kafka_partition_events.routing.table import Route

KeyMapping = Literal["pinned", "rendezvous"]


class GrowthSafePartitioner(AdaptivePartitioner):
    """Keys survive the growth of their topic; unkeyed records go as with `AdaptivePartitioner`.

    ``mapping="pinned"``: a key goes to its hash modulo the number of partitions that its topic is *pinned*
    to: as many as it had when its first keyed record was placed. Until it grows, that is where every other
    client with this hash puts the key. Growth alone moves no key; `cut_over` moves them, in all instances at
    the same moment. Pins are kept in a store, over restarts and for a whole fleet.

    ``mapping="rendezvous"``: a key goes to its jump hash (`routing.jump`) over the partitions that there are.
    Growth from m to n moves 1 - m/n of the keys, all of them to new partitions, as soon as an instance sees
    it. Needs no store; other clients place keys elsewhere, but for a Java program with Guava.

    What holds with ``"pinned"``:

    - An instance goes by counts that are in the store's history, with one exception: a topic without a pin is
      pinned to its number of partitions at first sight, in memory at once and in the store a moment later. If
      another instance was first, its pin wins, and keys that were placed until then may lie elsewhere. That
      takes two instances that see a topic for the first time while it is growing.
    - At the moment of a cut-over all instances change, as far apart as their clocks are, if they have read
      the store since it was made and have seen that the topic has grown. One that has not seen it stays with
      the largest count that it has partitions for, until it does: it never uses an id that its producer does
      not know. One that can't read the store stays with what it knows; its log and `last_error` tell.
    - Records that were sent before a cut-over may still be on their way. Order over a cut-over is not kept;
      whoever needs it stops producing, or consumes what is there, in between.
    - A store that was lost is written again by any instance that runs. If all restart without it, topics are
      pinned anew, to the numbers of partitions that they have then.
    - A topic that was re-created with fewer partitions than it is pinned to goes by those that it has, until
      it has grown to the pinned number; until then growth moves its keys, as with a plain modulo.

    The constructor reads the store, so no instance begins without it. Later it is read in the background:
    placing a key does no I/O and takes no lock. The thread for that ends with `close`, with the poller that
    the partitioner follows, or when the partitioner is dropped; if a closed one places a key, it is begun
    again.
    """

    falls_back = False

    def __init__(
        self,
        *,
        mapping: KeyMapping,
        store: PinStore | None = None,
        interval: float = INTERVAL_S,
        budget: BufferBudget | None = None,
        keyed: KeyedPolicy = "pin",
        hash_name: HashName | None = None,
        rack: str | None = None,
        turn_bytes: int = BATCH_BYTES,
        rng: random.Random | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Make a partitioner.

        Args:
            mapping: How keys are spread over partitions.
            store: Where pins are kept, for ``"pinned"``. Partitioners can share it; close it yourself. None:
                in a file for this user and cluster (`UserPinStore`). That is for one machine; a fleet needs
                a store that all its instances read.
            interval: How many seconds pass between two looks at the store.
            budget: A cap on the partitions that unkeyed records go to; None: no cap.
            keyed: What happens to a keyed record whose partition is offline; see `Partitioner`.
            hash_name: The key hash; see `Partitioner`.
            rack: See `AdaptivePartitioner`.
            turn_bytes: See `AdaptivePartitioner`.
            rng: See `AdaptivePartitioner`.
            clock: For tests.

        Raises:
            ConfigurationError: an argument is not one of its choices, or a store is not wanted.
            PinStoreError: the store can't be read; or none is given, and there is no place for a file that
                would outlive a restart.
        """
        if mapping not in get_args(KeyMapping):
            raise ConfigurationError(
                f"mapping must be one of {', '.join(get_args(KeyMapping))}, not {mapping!r}"
            )
        if not interval > 0:
            raise ConfigurationError(f"interval must be more than 0 seconds, not {interval}")
        self.mapping = mapping
        super().__init__(
            budget=budget,
            keyed=keyed,
            hash_name=hash_name,
            rack=rack,
            turn_bytes=turn_bytes,
            rng=rng,
            clock=time.monotonic if clock is None else clock.monotonic,
        )
        self._interval = interval
        self._topics: PinnedTopics | None = None
        self._unbound: UserPinStore | None = None
        self._cluster_id = ""
        self._jumps = False
        if mapping == "rendezvous":
            if store is not None:
                raise ConfigurationError('a store is for mapping="pinned"; "rendezvous" has nothing to keep')
            self._jumps = keyed == "pin"
            return
        if store is None:
            store = self._unbound = UserPinStore()
        clock = clock or SystemClock()
        self._topics = PinnedTopics(store, clock)
        self._watcher = PinWatcher(self._topics, interval, clock)
        # Not at the first record: its pin must not be as old as the partitioner may be then.
        self._watcher.wake()
        weakref.finalize(self, self._watcher.close).atexit = False

    def _key_hash(self, name: HashName) -> KeyHash:
        return jump_hash(name) if self.mapping == "rendezvous" else key_hash(name)

    def _meet(self, cluster: ClusterView) -> None:
        """Learn the cluster's id, which names the file of its pins, before the first key is placed."""
        unbound, cluster_id = self._unbound, getattr(cluster, "cluster_id", None)
        if unbound is not None and self._topics is not None and cluster_id:
            self._cluster_id = cluster_id
            with contextlib.suppress(PinStoreError):  # who places a key is told
                self._bind(unbound, self._topics)

    def _bind(self, unbound: UserPinStore, topics: PinnedTopics) -> None:
        topics.learn(unbound.bind(self._cluster_id))
        self._unbound = None

    def home(self, route: Route, key: bytes) -> int:
        """Return the partition that a key belongs to, online or not.

        Raises:
            PinStoreError: what the store holds of the topic can't be read, so that the key might move.
        """
        topics = self._topics
        if topics is None:
            return self.keying.hash(key, route.count)
        if self._unbound is not None and self._cluster_id:
            self._bind(self._unbound, topics)
        topic, present = route.info.name, route.count
        counts = topics.in_force.get(topic) or topics.pin(topic, present)
        count = counts[-1]
        if count > present:
            count = max((known for known in counts if known <= present), default=present)
        return self.keying.hash(key, count)

    def keyed_partition(self, route: Route, key: bytes) -> int:
        """Return where a keyed record goes; see `Partitioner`."""
        if self._jumps:  # `home`, inlined: a jump takes long enough
            return self.keying.hash(key, route.count)
        return AdaptivePartitioner.keyed_partition(self, route, key)

    @property
    def pins(self) -> Mapping[str, History]:
        """The history of every topic in the store, as this instance knows it; the last pin may be pending."""
        return MappingProxyType({}) if self._topics is None else self._topics.pins

    @property
    def last_error(self) -> str | None:
        """Why the store could not be used the last time; None when it could."""
        return None if self._topics is None else self._topics.last_error

    def cut_over(self, topic: str, delay: float = 60.0, count: int | None = None) -> Pin:
        """Pin a topic to more partitions, for the whole fleet, ``delay`` seconds from now. Blocks for I/O.

        One instance does this, or ``kpe mapping cut-over``. By default it lies farther ahead than pollers
        look at the cluster (30 s), so that every instance has seen the growth and the pin before.

        Args:
            topic: The topic, of which keyed records have been placed.
            delay: Seconds from now. At least ``interval`` and 4 s.
            count: The new number of partitions; None: as many as the topic has.

        Returns:
            The pin, which is in the store.

        Raises:
            ConfigurationError: the mapping is not ``"pinned"``; the topic has no more partitions than it is
                pinned to, or fewer than ``count``; it is not known here, or has no pin yet; a cut-over is
                pending; or the delay is too short.
            PinStoreError: the store can't be read or written.
        """
        if self._topics is None:
            raise ConfigurationError('a cut-over is for mapping="pinned"; "rendezvous" follows growth itself')
        check_delay(delay, self._interval)
        route = self.route(topic)
        if count is None:
            if route is None:
                raise ConfigurationError(f"topic {topic} is not known here; say how many partitions: count=")
            count = route.count
        elif route is not None and count > route.count:
            raise ConfigurationError(f"topic {topic} has {route.count} partitions, not {count}; grow it")
        return self._topics.cut_over(topic, count, delay)

    def close(self) -> None:
        """End the thread that reads the store. The store stays open."""
        if self._topics is not None:
            self._watcher.close()
        super().close()
