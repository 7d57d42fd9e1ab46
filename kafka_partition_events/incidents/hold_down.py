"""What is back soon is a blip, and nobody's incident. Pure."""

import re
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from kafka_partition_events.events.moments import Bounds
from kafka_partition_events.incidents.causes import Kind, Member
from kafka_partition_events.incidents.rules import Rules


def hold_down(member: Member, rules: Rules, *, planned: bool) -> timedelta:
    """Return how long something must be down before anybody is told; longer if somebody had planned it."""
    seconds = rules.hold_down
    match member:
        case Member(Kind.BROKER):
            seconds = rules.broker_hold_down
        case Member(Kind.METADATA, "stale"):
            seconds = 0.0  # it has lasted long when it is told
        case Member(Kind.PARTITION, topic):
            for pattern, own in rules.topic_hold_downs.items():
                if re.fullmatch(pattern, topic):
                    seconds = own
                    break
    return timedelta(seconds=max(seconds, rules.planned_hold_down) if planned else seconds)


def due(members: Mapping[Member, Bounds], planned: Collection[Member], rules: Rules) -> datetime:
    """Return when the first of what is down will have been so for its hold-down.

    Counted from the upper bound of when it went down: what may have lasted longer is not known to have.
    """
    return min(
        since.by + hold_down(member, rules, planned=member in planned) for member, since in members.items()
    )
