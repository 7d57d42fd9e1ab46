"""``kpe change request`` and ``kpe change apply``."""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from kafka_partition_events.cli.change.context import (
    CommandContext,
    CommandOptions,
    Yes,
    command_context,
    confirm,
    give,
    requested_before,
)
from kafka_partition_events.cli.change.plan import exposure, make_plan
from kafka_partition_events.cli.change.spec import Wanted, is_wanted, spec_of
from kafka_partition_events.cli.change.text import document, subject
from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.cli.common.options import with_options
from kafka_partition_events.cli.common.output import report, write_json_line
from kafka_partition_events.cli.common.settings import ControlOptions
from kafka_partition_events.cli.services.services import read_cluster
from kafka_partition_events.control.protocol.vocabulary import Verb

_KEYS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("id", "topic", "deadline"), str),
    **dict.fromkeys(("from", "to"), int),
    "gate": bool,
    "execute": bool,
}
_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


@with_options
def request_command(
    context: typer.Context,
    wanted: Wanted,
    *,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="ID", help="Its id; sent twice, it is requested once. Default: a new one."
        ),
    ] = None,
    yes: Yes = False,
    where: ControlOptions,
    options: CommandOptions,
) -> None:
    """Request more partitions from the tracker, and show its answer.

    \b
    kpe change request -b localhost:9092 --topic orders --to 24 --gate --execute
    kpe change request -b localhost:9092 --topic orders --to 24 --execute --yes         in a script
    id=$(kpe change request -b localhost:9092 --topic orders --to 24 | jq -r .change_id)

    The topic's id and its number of partitions are taken from the cluster; if they are others when the
    tracker takes the request up, it refuses (compare-and-set). One change of a topic is open at a time.

    With --gate producers keep to the old partitions until the groups have a position on the new ones.
    Without --execute you let the topic grow yourself. Kafka can't shrink a topic: with --execute it asks
    first, unless --yes is given, and says what `kpe change plan` says where records may be missed.

    Exit codes: 0 the tracker has taken it; 1 refused, and why, or you said no, or it was requested before and
    is rejected, cancelled or expired; 2 no such topic, no terminal to ask on and no --yes, wrong option or
    address, no control topics; 3 it was written, and no tracker has answered.
    """  # noqa: D301
    with command_context(context, where, options.output) as at:
        _request(at, wanted, id_, options, yes=yes)


@with_options
def apply_command(
    context: typer.Context,
    *,
    request_file: Annotated[Path, typer.Option("--file", "-f", metavar="FILE", help="The request, in YAML.")],
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the record; write nothing.")] = False,
    where: ControlOptions,
    options: CommandOptions,
) -> None:
    """Request what a file says: for a pipeline, after the file was reviewed. Twice is once, by its id.

    \b
    kpe change apply -b localhost:9092 -f change.yaml --yes
    kpe change apply -b localhost:9092 -f change.yaml --dry-run

    \b
    id: orders-24
    topic: orders
    from: 12
    to: 24
    gate: true
    execute: true
    deadline: 30m

    Exit codes: 0 the tracker has taken it, now or before; 1 refused, and why, or you said no, or it was
    requested before and is rejected, cancelled or expired; 2 the file is wrong or its id stands for another
    request, no such topic, no control topics, wrong address; 3 written, and no tracker has answered.
    """  # noqa: D301
    id_, wanted = read_request(request_file)
    with command_context(context, where, options.output) as at:
        known = at.client.ledger.changes.get(id_)
        if known is not None and not is_wanted(known.spec, wanted):
            raise CliError(f"{id_} is another change already; request this one under an id of its own")
        _request(at, wanted, id_, options, yes=yes, dry_run=dry_run)


def read_request(file: Path) -> tuple[str, Wanted]:
    """Return the id and the change that a file says.

    Raises:
        CliError: it can't be read, or does not say a change; the message names the key.
    """
    try:
        found: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise CliError(f"{file}: {one_line(error)}") from error
    if not isinstance(found, dict):
        raise CliError(f"{file} holds no keys such as topic: orders")
    if unknown := sorted(map(str, found.keys() - _KEYS.keys())):
        raise CliError(f"{file}: {', '.join(unknown)}: there is no such key; there are {', '.join(_KEYS)}")
    for name, value in found.items():
        if type(value) is not _KEYS[name]:
            raise CliError(f"{file}: {name} can't be {value!r}")
    if missing := [name for name in ("id", "topic", "to") if name not in found]:
        raise CliError(f"{file} lacks {', '.join(missing)}")
    return found.pop("id"), Wanted(from_=found.pop("from", None), **found)


def _request(
    at: CommandContext,
    wanted: Wanted,
    id_: str | None,
    options: CommandOptions,
    *,
    yes: bool,
    dry_run: bool = False,
) -> None:
    id_ = id_ if id_ is not None else f"{wanted.topic[:80]}-{wanted.to}-{secrets.token_hex(4)}"
    if not _ID.fullmatch(id_):
        raise CliError(f"--id {id_!r} is no id; write up to 100 letters, digits, '.', '_' and '-'")
    known = at.client.ledger.changes.get(id_)
    if known is not None and is_wanted(known.spec, wanted):  # the topic may have grown since
        at.show(known)
        requested_before(known)
        return
    cluster = read_cluster(at.services, at.where.config)
    spec = spec_of(wanted, cluster, at.where.prefix)
    command = options.command(Verb.REQUEST, id_, spec)
    if dry_run:
        write_json_line(document(command))
        report("note: nothing was written; it would be")
        return
    if spec.execute:
        for line in exposure(make_plan(at, cluster, spec)):
            report(f"warning: {line}")
        confirm(f"{subject(spec)}, on {at.cluster}, for good: Kafka can't shrink a topic", yes=yes)
    give(at, command)
