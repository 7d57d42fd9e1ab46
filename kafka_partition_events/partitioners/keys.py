"""By which hash keyed records are placed, and over how many partitions."""

from collections.abc import Callable, Mapping

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.log import get_logger
from kafka_partition_events.routing.budget import numbers_by_topic
from kafka_partition_events.routing.hashing import EMPTY_IS_NO_KEY, HashName, KeyHash, key_hash, of_any_bytes

_log = get_logger(__name__)


class Keys:
    """How one partitioner places keys. What is here is agreed with a client before its first record.

    Attributes:
        hash_name: The key hash.
        hash: The same as a function of the key and the number of partitions.
        empty_is_no_key: Whether a record with an empty key counts as unkeyed; see `routing.hashing`.
        follows_client: Whether keys are placed by the client's own hash.
        partitions: Over how many partitions keys are hashed, by topic; where one is not named, over all.
        by_hash: Whether a key's partition is its hash over these, come what may.
        over_all: The hash of bytes only, if a key's partition is its hash over all partitions in every topic.
    """

    def __init__(
        self,
        hash_name: HashName | None,
        partitions: Mapping[str, int] | None = None,
        make_hash: Callable[[HashName], KeyHash] = key_hash,
        *,
        by_hash: bool = True,
    ) -> None:
        self.follows_client = hash_name is None
        self.partitions = numbers_by_topic(partitions or {}, "key_partitions")
        self.by_hash = by_hash
        self.over_all: KeyHash | None = None
        self._make_hash = make_hash
        self._client_hash: tuple[HashName, bool] | None = None
        self._too_small: set[str] = set()
        name = hash_name or "murmur2"
        self._use(name, empty_is_no_key=name in EMPTY_IS_NO_KEY)

    def is_key(self, key: object) -> bool:
        """Return whether a record with this key counts as keyed; an empty one may be none."""
        return bool(key or (key is not None and not self.empty_is_no_key))

    def count(self, topic: str, present: int) -> int:
        """Return over how many partitions a topic's keys are hashed, of those that are present.

        A topic that has fewer than ``partitions`` says is logged once. Two threads that see it first at the
        same time may log it twice.
        """
        wanted = self.partitions.get(topic, present)
        if wanted <= present:
            return wanted
        if topic not in self._too_small:
            self._too_small.add(topic)
            _log.warning("key_partitions_not_there", topic=topic, key_partitions=wanted, partitions=present)
        return present

    def use_hash_of_client(self, name: HashName, *, empty_is_no_key: bool) -> None:
        """Place keys as a client does by itself; a partitioner that was given a hash keeps to that.

        Raises:
            ConfigurationError: another client that shares this partitioner places them by another hash.
        """
        if not self.follows_client:
            return
        if self._client_hash not in {None, (name, empty_is_no_key)}:
            raise ConfigurationError(
                f"this partitioner places keys by {self.hash_name}, as another producer that shares it, and "
                f"this producer's settings mean {name}: give hash_name, or each producer its own partitioner"
            )
        self._client_hash = name, empty_is_no_key
        self._use(name, empty_is_no_key=empty_is_no_key)

    def _use(self, name: HashName, *, empty_is_no_key: bool) -> None:
        self.hash_name = name
        self.empty_is_no_key = empty_is_no_key
        hashed = self._make_hash(name)
        self.hash = of_any_bytes(hashed)
        self.over_all = hashed if self.by_hash and not self.partitions else None
