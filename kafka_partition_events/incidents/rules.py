"""What an operator can set about incidents."""

import re
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType

from attrs import field, frozen

from kafka_partition_events.errors import ConfigurationError


def _read_only(seconds: Mapping[str, float]) -> Mapping[str, float]:
    return MappingProxyType(dict(seconds))


@frozen(kw_only=True)
class Rules:
    """When something is worth attention. All times in seconds.

    A hold-down should be longer than the observer's poll interval several times over: an outage that ends
    between two polls is known to have ended only after the second one.

    Attributes:
        hold_down: How long a partition must stay offline before anybody is told. The same goes for metadata
            that can't be had, and for a broker that producers suspect.
        broker_hold_down: How long a broker must stay away. Longer than a restart takes, or each one is told.
        topic_hold_downs: Hold-downs of some topics: a regular expression that matches the whole name ->
            seconds. The first that matches counts.
        planned_hold_down: The same of what a change had asked for, if that is longer: a broker that is
            stopped on purpose is told when it stays away.
        update_interval: How far updates of one incident are apart at least.
        reminder_interval: After how long without news it is told again that an incident is open; 0: never.
        max_topics: How many topics may be incidents of their own at a time; the rest is one incident.
        flap_transitions: How many times something goes down or comes up
        flap_window: within so long for it to be flapping; and how long it must be stable to be so no more.

    Raises:
        ConfigurationError: a value is out of range, or an expression is none.
    """

    hold_down: float = 30.0
    broker_hold_down: float = 30.0
    topic_hold_downs: Mapping[str, float] = field(default=MappingProxyType({}), converter=_read_only)
    planned_hold_down: float = 1800.0
    update_interval: float = 300.0
    reminder_interval: float = 14_400.0
    max_topics: int = 50
    flap_transitions: int = 4
    flap_window: float = 600.0

    def __attrs_post_init__(self) -> None:
        """Check the values."""
        for name in ("hold_down", "broker_hold_down", "planned_hold_down", "reminder_interval"):
            _check(name, getattr(self, name), at_least=0)
        for topics, seconds in self.topic_hold_downs.items():
            _check(f"topic_hold_downs: {topics!r}", seconds, at_least=0)
            try:
                re.compile(topics)
            except re.error as error:
                raise ConfigurationError(f"topic_hold_downs: {topics!r} is no pattern: {error}") from error
        for name in ("update_interval", "flap_window"):
            _check(name, getattr(self, name), at_least=1)
        for name, least in (("flap_transitions", 2), ("max_topics", 1)):
            if getattr(self, name) < least:
                raise ConfigurationError(f"{name} must be at least {least}, not {getattr(self, name)}")

    @property
    def flap_span(self) -> timedelta:
        """``flap_window`` as a span of time."""
        return timedelta(seconds=self.flap_window)

    @property
    def reminder_span(self) -> timedelta:
        """``reminder_interval`` as a span of time."""
        return timedelta(seconds=self.reminder_interval)

    @property
    def update_span(self) -> timedelta:
        """``update_interval`` as a span of time."""
        return timedelta(seconds=self.update_interval)


def _check(name: str, seconds: float, *, at_least: float) -> None:
    if not seconds >= at_least:
        raise ConfigurationError(f"{name} must be {at_least:g} seconds or more, not {seconds}")
