"""By which hash keyed records are placed, who says so, and what happens if their partition is offline."""

from collections.abc import Callable
from typing import Literal, get_args

from kafka_partition_events.errors import ConfigurationError
from kafka_partition_events.routing.hashing import EMPTY_IS_NO_KEY, HashName, KeyHash, key_hash

KeyedPolicy = Literal["pin", "reroute", "raise"]


class Keys:
    """How one partitioner places keys. What is here is agreed with a client before its first record.

    Attributes:
        policy: What happens to a keyed record whose partition is offline; see `Partitioner`.
        hash_name: The key hash.
        hash: The same as a function of the key and the number of partitions.
        empty_is_no_key: Whether a record with an empty key counts as unkeyed; see `routing.hashing`.
        follows_client: Whether keys are placed by the client's own hash.
        by_hash: Whether a key's partition is its hash modulo the number of partitions, come what may.
        note_home: Called with the home of each keyed record that is rerouted, on the producing thread. The
            clients of this library set it, to tell readers in a header.
    """

    def __init__(
        self,
        policy: KeyedPolicy,
        hash_name: HashName | None,
        make_hash: Callable[[HashName], KeyHash] = key_hash,
        *,
        by_hash: bool = True,
    ) -> None:
        if policy not in get_args(KeyedPolicy):
            raise ConfigurationError(
                f"keyed must be one of {', '.join(get_args(KeyedPolicy))}, not {policy!r}"
            )
        self.policy = policy
        self.follows_client = hash_name is None
        self.by_hash = by_hash and policy == "pin"
        self.note_home: Callable[[int], object] | None = None
        self._make_hash = make_hash
        self._client_hash: tuple[HashName, bool] | None = None
        name = hash_name or "murmur2"
        self._use(name, empty_is_no_key=name in EMPTY_IS_NO_KEY)

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
        self.hash = self._make_hash(name)
