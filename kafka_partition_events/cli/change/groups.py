"""``kpe groups``: how far consumer groups are with the partitions of a topic."""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from attrs import frozen

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError, one_line
from kafka_partition_events.cli.common.logs import SHOWN_AS_NOTES
from kafka_partition_events.cli.common.options import parse_partitions, with_options
from kafka_partition_events.cli.common.output import Listing, tell
from kafka_partition_events.cli.common.settings import ClusterOptions
from kafka_partition_events.cli.services.services import FIRST_ANSWER_S, check_options
from kafka_partition_events.clients.librdkafka import redacted
from kafka_partition_events.control.groups.state import STABLE, Group, coverage_of
from kafka_partition_events.control.protocol.partition_set import Coverage, PartitionSet
from kafka_partition_events.errors import MetadataFetchError
from kafka_partition_events.ranges import ranges

if TYPE_CHECKING:
    from kafka_partition_events.control.groups.admin import GroupAdmin

_DEAD = "DEAD"  # what brokers say of a group that does not exist
_LEVELS = ("assigned", "positioned")
_HEADERS = ("GROUP", "PROTOCOL", "STATE", "MEMBERS", *map(str.upper, _LEVELS))


@with_options
def groups_command(
    topic: Annotated[str, typer.Option("--topic", metavar="NAME", help="The topic.")],
    *,
    group_id: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="Only this group. Default: all of the topic."),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option("--partition", metavar="IDS", help="Such as 6-11 or 0,4-5. Default: all of the topic."),
    ] = None,
    where: ClusterOptions,
    listing: Listing,
) -> None:
    """Check once how far consumer groups are with some partitions of a topic, as `kpe tracker` does.

    \b
    kpe groups -b localhost:9092 --topic orders
    kpe groups -b localhost:9092 --topic orders --partition 6-11 --group billing
    until kpe groups -b localhost:9092 --topic orders --partition 6-11; do sleep 5; done
    kpe groups -b localhost:9092 --topic orders | jq -r 'select(.positioned == "") | .group'

    \b
    assigned    a member of the group has it
    positioned  the group has committed an offset: it misses nothing, even with auto.offset.reset=latest

    Shows the groups with members that have the topic, or with offsets of it. Classic groups and those of
    KIP-848. While a classic group rebalances, brokers do not report its assignment. One check can't show that
    an assignment is stable, which the tracker takes for a position after --settle of a change. Needs the
    rights to describe the topic and the groups.

    Exit codes: 0 every group with members (the one of --group, even without) has a position on all of the
    partitions; 1 one has not; 2 no such topic or partition, wrong address, refused, unknown option.
    """  # noqa: D301
    config = where.config(told_elsewhere=SHOWN_AS_NOTES)
    check_options(config)
    try:
        from kafka_partition_events.control.groups.admin import GroupAdmin  # noqa: PLC0415
    except ImportError as error:
        raise CliError(one_line(error)) from error
    asked = None if partitions is None else parse_partitions("--partition", partitions)
    try:
        with contextlib.closing(GroupAdmin(config)) as admin:
            ids, found = probe(admin, topic, group_id, asked)
            left_out = dict(admin.left_out)
    except MetadataFetchError as error:
        asked_of = config["bootstrap.servers"]
        raise CliError(
            f"{redacted(str(error), config)}; are the brokers up, and is one of them at {asked_of}?"
        ) from None
    listing.write(found, lambda one: one.document(topic, ids), _HEADERS, _cells)
    if group_id is not None and found[0].group.state == _DEAD:
        tell(f"note: there is no group {group_id}; without --group all are shown")
    if not found:
        tell(f"note: no group reads {topic} or has offsets of it")
    for what, why in left_out.items():
        tell(f"note: {what} is left out: {redacted(why, config)}")
    if any(
        not PartitionSet.of(ids) <= one.coverage.positioned for one in found if one.group.members or group_id
    ):
        raise typer.Exit(EXIT_DIFFERENT)


@frozen
class Found:
    """A group, and how far it is."""

    group: Group
    coverage: Coverage

    def document(self, topic: str, partitions: Iterable[int]) -> dict[str, Any]:
        """Return it as JSON."""
        group, levels = self.group, self.coverage
        return {
            "kind": "group_probe",
            "topic": topic,
            "partitions": ranges(partitions),
            "group": group.group_id,
            "protocol": group.protocol,
            "state": group.state.lower(),
            "stable": group.stable,
            "members": len(group.members),
            **{name: str(getattr(levels, name)) for name in _LEVELS},
        }


def probe(
    admin: "GroupAdmin", topic: str, group_id: str | None, partitions: frozenset[int] | None
) -> tuple[frozenset[int], list[Found]]:
    """Return the partitions that were looked at, and the groups, by name.

    Raises:
        CliError: there is no such topic or partition.
        MetadataFetchError: nobody answers.
    """
    info = admin.topics([topic], FIRST_ANSWER_S).get(topic)
    if info is None:
        raise CliError(admin.left_out.get(f"topic {topic}", f"there is no topic {topic}"))
    there = frozenset(range(len(info.partitions)))
    asked = there if partitions is None else partitions
    if not asked <= there:
        raise CliError(f"topic {topic} has partitions {ranges(there)}, not {ranges(asked - there)}")
    all_of_it = [each.tp for each in info.partitions]
    names = admin.groups(FIRST_ANSWER_S) if group_id is None else [group_id]
    groups = admin.describe(names, FIRST_ANSWER_S)
    if group_id is not None and group_id not in groups:
        raise CliError(f"can't look at group {group_id}: {admin.left_out[f'group {group_id}']}")
    committed = admin.committed(dict.fromkeys(groups, all_of_it), FIRST_ANSWER_S)
    found = []
    for name, group in sorted(groups.items()):
        if group_id is None and topic not in group.topics and not committed.get(name):
            continue
        positions = {tp.partition for tp in committed.get(name, {})}
        found.append(Found(group, coverage_of(group, topic, asked, positions)))
    return asked, found


def _cells(one: Found) -> tuple[str, ...]:
    group, levels = one.group, one.coverage
    reconciling = group.state == STABLE and not group.stable
    return (
        group.group_id,
        group.protocol,
        "reconciling" if reconciling else group.state.lower(),
        f"{len(group.members):,}",
        *(str(getattr(levels, name)) or "-" for name in _LEVELS),
    )
