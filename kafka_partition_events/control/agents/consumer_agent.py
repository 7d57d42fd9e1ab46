"""The agent of a process that reads: it has no poller; a rebalance hook reports what there is."""

import uuid

from kafka_partition_events.control.agents.agent_thread import AgentLink, ControlAgent
from kafka_partition_events.control.agents.consumer_duties import ConsumerDuties, ConsumerReading
from kafka_partition_events.control.protocol.records import Change, Lease
from kafka_partition_events.metadata.clock import Clock


class ConsumerAgent(ControlAgent):
    """Reports to the tracker what one consumer has, and passes the changes to a rebalance hook.

    ::

        with ConsumerAgent(ControlLink(config), "billing-0", "billing") as agent:
            RebalanceHook(agent).subscribe(consumer, ["orders"])
            ...

    It begins before the consumer subscribes, so that the hook knows what is new.

    It reads ``kpe.changes`` every 30 s or so, every 2 s while a change of its topics is open, and at once
    when the hook reports an assignment. It never makes the consumer wait or fail. Without the control topics
    there is a line in the log, and again when they are back.

    Thread-safe. For the process that made it.
    """

    def __init__(self, link: AgentLink, instance_id: str, group: str, *, clock: Clock | None = None) -> None:
        """Make an agent; nothing is asked before `start`.

        Args:
            link: Reaches the control topics; the agent closes it.
            instance_id: Its name, the same after a restart; no other agent has it, in this process either.
            group: Its consumer group. For a reader that is in none: the name by which changes wait for it.
            clock: For tests.
        """
        lease = Lease(instance_id=instance_id, incarnation=uuid.uuid4().hex, lease_seq=0, group=group)
        self._duties = ConsumerDuties(lease, spread=0.0)
        self._reading = ConsumerReading()
        self.changes: tuple[Change, ...] = ()
        """Changes as last read: the open ones, and those that have waited for the group."""
        super().__init__(link, self._duties, clock)

    def report(self, reading: ConsumerReading) -> None:
        """Take note of what the process reads now, and say so soon. Never waits."""
        self._reading = reading
        self._wake()

    def _act(self, now: float) -> float:
        """Report."""
        self.changes = tuple(self._duties.ledger.changes.values())
        return self._publish(self._duties.says(self._reading, now))
