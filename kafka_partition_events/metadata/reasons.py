"""Why events happen: the words that they carry."""

from enum import StrEnum


class Role(StrEnum):
    """As what a broker is suspected."""

    LEADER = "leader"
    """Partitions that it leads do not answer."""
    REPLICA = "replica"
    """Partitions that others lead wait for it: with ``acks=all`` a write needs every in-sync replica."""


class Suspicion(StrEnum):
    """Why a producer stopped trusting a broker."""

    SILENT = "silent"
    """Records are outstanding, and a broker that was asked later has answered."""
    SLOW = "slow"
    """It answers, but nearly all that took long lately needed it."""
    UNREACHABLE = "unreachable"
    """The client lost the connection, or could not make one."""


class Clearance(StrEnum):
    """Why a producer trusts a broker again."""

    ANSWERED = "answered"
    """It answered its probes in time."""
    NEEDED = "needed"
    """No other broker is left to write to, and nothing is stuck on it."""
    LEFT = "left"
    """It is no longer listed, or no record needs it any more: metadata now says what deliveries had said."""


class Rejection(StrEnum):
    """Why the staleness gate refused an answer, or a part of it."""

    NO_BROKERS = "no_brokers"
    FOREIGN_CLUSTER = "foreign_cluster"
    TOPIC_ERROR = "topic_error"
    INCOMPLETE = "incomplete"
    RETIRED_TOPIC_ID = "retired_topic_id"
    SHRINK = "shrink"
    EPOCH_REWIND = "epoch_rewind"
    MISSING_TOPIC = "missing_topic"
