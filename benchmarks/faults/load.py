"""``python -m benchmarks.faults.load SPEC``: send one load, note what became of each record.

Says ``ready`` on standard output when connected, waits for a line with the time to begin (ns, monotonic),
warms up until then, sends, waits for what is outstanding, and writes the `Tape`.
"""

import logging
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog
from attrs import frozen
from confluent_kafka import Producer

from benchmarks.faults.senders import ConfluentSender, KafkaPythonSender, Sender, confluent_config
from benchmarks.faults.spec import LoadSpec, Values, key_of
from benchmarks.faults.tape import Tape

FINISH_LIMIT_S = 12.0
"""How long outstanding records are waited for. With rescue a record has more than one delivery limit."""
_NS = 1_000_000_000
_HIGH_RATE = 20_000
_RESCUES = {"failed", "hedge"}


@frozen
class Load:
    """What is sent: by whom, how many records a second, which values and keys, and where it is noted."""

    sender: Sender
    rate: int
    values: Values
    key: Callable[[int], bytes | None]
    tape: Tape


def send_paced(load: Load, begin_ns: int, numbers: range) -> None:
    """Send by an open schedule: record n is due n/rate seconds after the first, however late others are.

    Delivery reports are served after each record; at high rates, where that would be most of the work, once
    a millisecond.
    """
    step = 1 if load.rate < _HIGH_RATE else load.rate // 1_000
    send, sent, clock = load.sender.send, load.tape.sent, time.monotonic_ns
    make, key_for = load.values.make, load.key
    for first in range(numbers.start, numbers.stop, step):
        early = begin_ns + (first - numbers.start) * _NS // load.rate - clock()
        if early > 0:
            time.sleep(early / _NS)
        for number in range(first, min(first + step, numbers.stop)):
            value, key = make(number), key_for(number)
            if number >= 0:
                sent[number] = clock()
            send(value, key, number)
        load.sender.serve()


def speak_on_stderr() -> None:
    """Keep the log off standard output, which the parent reads; structlog writes there if nobody tells it."""
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )


def begin_when_told() -> int:
    """Say that we are ready, and return when to begin (ns, monotonic)."""
    print("ready", flush=True)
    return int(sys.stdin.readline())


def make_sender(spec: LoadSpec, values: Values, tape: Tape) -> Sender:
    """Return a connected producer. `spec.producer` is FAMILY or FAMILY-VARIANT."""
    if spec.producer == "librdkafka":
        return ConfluentSender(Producer(confluent_config(spec)), spec.topic, values, tape)
    family, _, variant = spec.producer.partition("-")
    rescue = variant.removeprefix("move-")
    options: dict[str, Any] = {"rescue": rescue} if rescue in _RESCUES else {}
    options |= {"keys": "move"} if variant.startswith("move") else {}
    if family == "ours":
        from benchmarks.faults.ours import OursSender  # noqa: PLC0415 - only its own processes load it

        return OursSender(confluent_config(spec), options, spec.topic, values, tape)
    if family in {"aiokafka", "aio"}:
        from benchmarks.faults.aiokafka_sender import AiokafkaSender  # noqa: PLC0415 - the same

        return AiokafkaSender(spec, tape, options, attached=family == "aio")
    return KafkaPythonSender(spec, tape)


def main(told: str) -> None:
    speak_on_stderr()
    spec = LoadSpec.parse(told)
    tape, values = Tape.blank(spec.records), Values(spec.run)
    sender = make_sender(spec, values, tape)
    load = Load(sender, spec.rate, values, partial(key_of, keyed=spec.keyed, skewed=spec.skewed), tape)
    begin_ns = begin_when_told()
    warm_up = round(spec.rate * spec.warm_up_s)
    send_paced(load, begin_ns - round(spec.warm_up_s * _NS), range(-warm_up, 0))
    send_paced(load, begin_ns, range(spec.records))
    sender.finish(FINISH_LIMIT_S)
    tape.counters, tape.measures = sender.counters(), sender.measures()
    tape.write(spec.out)
    sender.close()


if __name__ == "__main__":
    main(sys.argv[1])
