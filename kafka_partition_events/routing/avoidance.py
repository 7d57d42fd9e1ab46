"""What unkeyed records keep away from: the failure detector says it, routes are compiled from it. Pure."""

from attrs import field, frozen


@frozen
class Avoidance:
    """What to keep unkeyed records from. Where only this is left it is used nevertheless.

    Attributes:
        leaders: Brokers that do not answer for partitions that they lead.
        replicas: Brokers that hold up partitions that they follow.
        blocked: Brokers whose connection is held up by a record that waits for another broker (head-of-line
            blocking).
        down: Those of ``leaders`` that the client cannot even connect to.
        partitions: Topics and partitions that take nothing although their brokers answer for others.
    """

    leaders: frozenset[int] = frozenset()
    replicas: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()
    down: frozenset[int] = frozenset()
    partitions: frozenset[tuple[str, int]] = frozenset()
    suspect: frozenset[int] = field(init=False)
    """The brokers that are to blame, as leaders or as replicas."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "suspect", self.leaders | self.replicas)

    def __bool__(self) -> bool:
        return bool(self.suspect or self.blocked or self.partitions)


NOTHING = Avoidance()
