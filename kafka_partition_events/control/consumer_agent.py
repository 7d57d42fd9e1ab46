"""The agent of a process that reads: it has no poller; a rebalance hook tells it what there is."""

import uuid

from kafka_partition_events.control.agent_thread import ControlAgent
from kafka_partition_events.control.link import ControlLink
from kafka_partition_events.control.reading import ReaderDuties, Reading
from kafka_partition_events.control.records import Change, Lease
from kafka_partition_events.control.words import Role
from kafka_partition_events.metadata.clock import Clock


class ConsumerAgent(ControlAgent):
    """Tells the tracker what one consumer has, and a rebalance hook what is being changed.

    ::

        agent = ConsumerAgent(ConfluentControlLink(config), "billing-0", "billing")
        agent.start()  # before the consumer subscribes, so that the hook knows what is new

    It looks every 30 s or so, every 2 s while a change of its topics is open, and at once when it is told of
    an assignment. It never makes the consumer wait or fail. Without the control topics there is a line in
    the log, and again when they are back.

    Thread-safe. A forked child is an instance of its own, with its process id behind the instance id.
    """

    def __init__(
        self,
        link: ControlLink,
        instance_id: str,
        group: str,
        *,
        app: str = "",
        app_version: str = "",
        clock: Clock | None = None,
    ) -> None:
        """Make an agent; nothing is asked before `start`.

        Args:
            link: Reaches the control topics; the agent closes it.
            instance_id: What this process is called over restarts; no two processes share one.
            group: Its consumer group. For a reader that is in none: the name by which changes wait for it.
            app: The application.
            app_version: Its version.
            clock: For tests.
        """
        lease = Lease(
            instance_id=instance_id,
            incarnation=uuid.uuid4().hex,
            lease_seq=0,
            role=Role.CONSUMER,
            group=group,
            app=app,
            app_version=app_version,
        )
        self._duties = ReaderDuties(lease)
        self._reading = Reading()
        self.changes: tuple[Change, ...] = ()
        """The open changes of all clusters, as last read."""
        super().__init__(link, self._duties, clock)

    def tell(self, reading: Reading) -> None:
        """Take note of what the process reads now, and say so soon. Never waits."""
        self._reading = reading
        self._wake()

    def _act(self, now: float) -> float:
        """Report."""
        self.changes = tuple(c for c in self._duties.ledger.changes.values() if not c.state.final)
        return self._publish(self._duties.reports(self._reading, now), now)
