"""Everything that can go wrong at once, for an hour, and a judge who knows nothing of the library.

::

    make chaos                                         an hour, with a seed of its own
    make chaos CHAOS_S=150                             a short one
    make chaos CHAOS_S=3600 CHAOS_SEED=42              the plan of that seed, again
    python -m tests.chaos --seed 42 --plan             what that seed means; nothing is started
    python -m tests.chaos --judge DIRECTORY            judge again what a campaign has left

Three brokers, three controllers, links between all. A dozen producers (confluent-kafka and kafka-python,
plain and ours), a group that gates growth, two observers and a tracker work while brokers and
controllers, links, disks, clocks, settings and these processes fail, and topics grow and are made anew. After
each storm all is calm, and everybody must get on. What each of them saw is in the directory;
docs/reliability.md tells what is checked.

Exit codes: 0 all of it held; 1 something did not: it is listed with its seed and the faults around it, and
the directory is kept; 2 the campaign itself failed.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_partition_events.testing import KafkaCluster
from kafka_partition_events.testing.errors import KitError
from tests.chaos.consume import GROUP
from tests.chaos.disturbing import say
from tests.chaos.fleet import CONSUMERS, EVENTS, OBSERVERS, Fleet
from tests.chaos.plan import QUIET_S, STORM_S, Plan, plan
from tests.chaos.promises import WRITERS
from tests.chaos.reader import dump_metadata, messages, read_in_order
from tests.chaos.storm import TOPICS, World
from tests.chaos.verdict import judge
from tests.http_receiver import Receiver

_START_LIMIT_S = 120.0
_STOP_LIMIT_S = 150.0
_READ_LIMIT_S = 300.0
_DRAIN_S = 20.0
_BROKERS = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "8000",
    "group.min.session.timeout.ms": "1000",
    "log.retention.hours": "-1",
}


def run(plan: Plan, seconds: float, directory: Path) -> None:
    """Run a campaign; what was seen is in the directory afterwards.

    Recovering takes as long as it takes, so when the time is over the last storms of the plan may be left.
    """
    with ExitStack() as ending:
        manager = ending.enter_context(Receiver(204))
        cluster = KafkaCluster(
            3, controllers=3, session_timeout_ms=6_000, broker_config=_BROKERS, links="all", slow_disks=True
        )
        ending.enter_context(cluster)
        fleet = Fleet(cluster, directory, manager.url)
        ending.callback(fleet.close)
        world = World(cluster, fleet, manager, directory)
        say(f"seed {plan.seed}: {len(plan.steps)} steps in {len(plan.storms)} storms; {directory}")
        _begin(world)
        ends = time.time() + seconds
        for number, (begin, _) in enumerate(plan.storms):
            if number and time.time() + STORM_S / 2 > ends:
                say(f"the time is over; {len(plan.storms) - number} storms are left")
                break
            say(f"storm {number + 1} of {len(plan.storms)}")
            world.storm(plan.steps_of(number), time.time() - begin)
            world.recover()
            say("calm")
            calm = time.time()
            time.sleep(QUIET_S)
            _append(directory / "calm.jsonl", [calm, time.time()])
        _end(world)


def _begin(world: World) -> None:
    """Create the topics, start everybody, and wait until the group has committed something everywhere."""
    for topic, partitions in TOPICS.items():
        world.create(topic, partitions)
    world.cluster.create_topic(EVENTS, 3, 3)
    world.kpe("tracker", "init")
    world.fleet.start("tracker", *CONSUMERS, *OBSERVERS)
    world.fleet.start(*WRITERS)
    deadline = time.monotonic() + _START_LIMIT_S
    servers = {"bootstrap.servers": world.cluster.bootstrap_servers, "log_level": 2}
    member = Consumer({**servers, "group.id": GROUP})  # which never joins
    while not _has_positions(member):
        if time.monotonic() > deadline:
            raise KitError("the group has no positions")
        if dead := world.fleet.dead():
            raise KitError(f"{dead} did not start; see their logs")
        time.sleep(0.5)
    member.close()
    _append(world.directory / "group.jsonl", time.time())


def _has_positions(member: Consumer) -> bool:
    try:
        found = member.committed([TopicPartition(GROUP, number) for number in range(TOPICS[GROUP])], 5.0)
    except KafkaException:
        return False  # the coordinator is not there yet
    return all(each.offset >= 0 for each in found)


def _end(world: World) -> None:
    """Stop everybody, and write down what the cluster, the observers and their target have."""
    fleet, directory = world.fleet, world.directory
    say("writers end")
    unclean = fleet.stop(*WRITERS, limit=_STOP_LIMIT_S)
    time.sleep(_DRAIN_S)
    unclean += fleet.stop(*CONSUMERS, "tracker", *OBSERVERS, limit=60.0)
    for name in unclean:
        _append(directory / "unclean.jsonl", [name, time.time()])
    say("reading everything")
    servers = world.cluster._running_addresses()
    for topic in TOPICS:
        world.read(topic, _READ_LIMIT_S)
    read_in_order(servers, "kept", directory / "ordered.jsonl", _READ_LIMIT_S)
    for message in messages(servers, EVENTS, _READ_LIMIT_S):
        _append(directory / "events.jsonl", json.loads(message.value() or b"null"))
    for request in world.manager.requests:
        _append(directory / "alerts.jsonl", [request.at, json.loads(request.body)])
    _append(directory / "frozen.jsonl", fleet.frozen)
    data = world.cluster._directory
    assert data is not None
    active = world.cluster.active_controller
    dump_metadata(
        next(data.glob(f"data/controller*{active}*/__cluster_metadata-0")), directory / "metadata.dump"
    )


def _append(path: Path, what: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(what) + "\n")


def main() -> int:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__, formatter_class=raw)
    parser.add_argument("--seconds", type=float, default=3600.0, help="for how long (default: an hour)")
    parser.add_argument("--seed", type=int, default=None, help="which plan; by default one by the clock")
    parser.add_argument("--plan", action="store_true", help="print what is planned, and start nothing")
    parser.add_argument("--judge", type=Path, metavar="DIRECTORY", help="judge what a campaign has left")
    parser.add_argument("--keep", action="store_true", help="keep the directory though all held")
    options = parser.parse_args()
    if options.judge is not None:
        return judge(options.judge)
    planned = plan(int(time.time()) if options.seed is None else options.seed, options.seconds)
    if options.plan:
        for step in planned.steps:
            print(f"{step.begin:8.1f} s  {step.kind} {step.target} {step.value:g} for {step.lasts:.0f} s")  # noqa: T201
        return 0
    directory = Path(tempfile.mkdtemp(prefix="kpe-chaos-"))
    (directory / "seed").write_text(f"{planned.seed} {options.seconds:g}\n")
    try:
        run(planned, options.seconds, directory)
    except KitError as error:
        print(f"error: the campaign failed: {error}; see {directory}", file=sys.stderr)  # noqa: T201
        return 2
    code = judge(directory)
    if code == 0 and not options.keep:
        shutil.rmtree(directory, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
