"""Asks a cluster for its consumer groups, and where they are. Needs confluent-kafka."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_partition_events.acls import Right
from kafka_partition_events.clients.confluent.answers import error_name, error_text
from kafka_partition_events.clients.confluent.connection import COORDINATED_S, Connection
from kafka_partition_events.clients.librdkafka import connecting
from kafka_partition_events.control.groups.state import DEAD, Group, Member
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.log import get_logger
from kafka_partition_events.metadata.cluster import TopicPartition

_IDLE: Final = frozenset({"EMPTY", DEAD})
_NO_SUCH_GROUP: Final = "GROUP_ID_NOT_FOUND"
_GRACE_S: Final = 1.0
"""How much longer than librdkafka itself we wait for its answer."""
_AT_ONCE: Final = 8
"""How many groups' offsets are asked for at a time."""

Key = TypeVar("Key")
OffsetsByPartition = dict[TopicPartition, int]

_log = get_logger(__name__)


class GroupAdmin:
    """The groups of one cluster. Blocks for I/O; one thread at a time.

    What can't be read (of a group whose coordinator is loading or that we may not see) is left out, and
    logged once; a group that is not there is dead and has no offsets. If no broker answers in time, that is
    an error, and whatever else is still asked is given up.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Connect in the background, by librdkafka's settings."""
        self._connection = Connection(config)
        self._config = config
        self._left_out: dict[str, str] = {}

    def groups(self, timeout: float, *, without_members: bool = True) -> set[str]:
        """Return the names of all groups; also, or not, of those that have offsets and no members.

        Ask it before the others: what is asked of coordinators and given up is never freed, 2 KB for each
        group, so nothing should be asked of them as long as no broker answers at all.

        Raises:
            MetadataFetchError: no broker answers within ``timeout`` seconds; so with the others.
        """
        futures = {"": self._connection.admin().list_consumer_groups(request_timeout=timeout)}
        answers = self._all("consumer groups", futures, timeout).values()
        for error in (error for answer in answers for error in answer.errors):
            raise self._failure("consumer groups", error) from error
        listed = (one for answer in answers for one in answer.valid)
        return {one.group_id for one in listed if without_members or one.state.name not in _IDLE}

    def describe(self, group_ids: Collection[str], timeout: float) -> dict[str, Group]:
        """Return the groups that can be seen; one that does not exist is dead and has no members."""
        if not group_ids:
            return {}
        futures = self._connection.admin().describe_consumer_groups(
            sorted(group_ids), request_timeout=COORDINATED_S
        )
        found = self._all("group", futures, timeout, none_of_missing=True)
        return {id_: _described(id_, description) for id_, description in found.items()}

    def committed(
        self, wanted: Mapping[str, Collection[TopicPartition]], timeout: float
    ) -> dict[str, OffsetsByPartition]:
        """Return where groups are, as far as that can be seen: only partitions with an offset.

        By a consumer for each group, which joins nothing: where an `AdminClient` hears that the coordinator
        is another one by now, librdkafka (2.16) ends the process (confluentinc/librdkafka#5040). A group
        takes 70 ms, and 11 ms each where there are many.
        """
        asked = {group: partitions for group, partitions in wanted.items() if partitions}
        if not asked:
            return {}
        with ThreadPoolExecutor(_AT_ONCE, "kpe-offsets") as pool:
            futures = {
                group: pool.submit(self._places, group, partitions, timeout)
                for group, partitions in asked.items()
            }
            try:
                found = self._all("offsets of group", futures, timeout)
            finally:
                pool.shutdown(cancel_futures=True)
        return {
            group: {
                TopicPartition(tp.topic, tp.partition): tp.offset
                for tp in places
                if tp.offset >= 0 and not tp.error
            }
            for group, places in found.items()
        }

    def close(self) -> None:
        """Close the connections."""
        self._connection.close()

    def _places(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float
    ) -> list[ConfluentPartition]:
        """Ask for the offsets of one group; on a thread of its own."""
        consumer = Consumer(
            {"log_level": 2, **connecting(self._config), "enable.auto.commit": False, "group.id": group}
        )
        try:
            return consumer.committed([ConfluentPartition(*tp) for tp in partitions], timeout=timeout)
        finally:
            consumer.close()

    # -- answers -------------------------------------------------------------------------------------

    def _all(
        self,
        what: str,
        futures: Mapping[Key, "Future[Any]"],
        timeout: float,
        *,
        none_of_missing: bool = False,
    ) -> dict[Key, Any]:
        """Return the answers that came; None in place of "there is no such group", if asked for."""
        answers: dict[Key, Any] = {}
        for key, future in futures.items():
            try:
                answers[key] = future.result(timeout + _GRACE_S)
            except KafkaException as error:
                reason = error.args[0]
                name = error_name(reason)
                if name == _NO_SUCH_GROUP and none_of_missing:
                    answers[key] = None
                elif reason.code() < 0 and name != "_UNKNOWN_PARTITION":
                    raise self._failure(f"{what} {key}", error) from error
                else:
                    needed = Right(("Describe",), "group", str(key))
                    self._leave_out(f"{what} {key}", error_text(reason, self._config, needed))
            except TimeoutError as error:
                late = TimeoutError(f"no answer in {timeout:g} s")
                raise self._failure(f"{what} {key}", late) from error
        self._connection.succeeded()
        return answers

    def _failure(self, what: str, error: Exception) -> MetadataFetchError:
        failure = self._connection.failure(f"can't read the {what}", error)
        self._connection.close()
        return failure

    def _leave_out(self, what: str, error: str) -> None:
        if self._left_out.get(what) != error:
            self._left_out[what] = error
            _log.warning("left_out_of_the_probe", what=what, error=error)


def _described(group_id: str, found: Any) -> Group:
    if found is None:
        return Group(group_id=group_id, state=DEAD)
    members = tuple(
        Member(
            member_id=member.member_id,
            assigned=_plain(member.assignment),
            target=None if member.target_assignment is None else _plain(member.target_assignment),
        )
        for member in found.members
    )
    return Group(
        group_id=group_id,
        protocol=found.type.name.lower(),
        state=found.state.name,
        assignor=found.partition_assignor,
        members=members,
    )


def _plain(assignment: Any) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(tp.topic, tp.partition) for tp in assignment.topic_partitions)
