"""``python -m benchmarks.faults.load NAME=VALUE ...``: send one load, note what became of each record.

Says ``ready`` on standard output when connected, waits for a line with the time to begin (ns, monotonic),
warms up until then, sends, waits for what is outstanding, and writes the `Tape`.
"""

import logging
import sys
import time

import structlog

from benchmarks.faults.plan import WARM_UP_S
from benchmarks.faults.senders import Sender, make_sender
from benchmarks.faults.spec import LoadSpec, Values, key_of
from benchmarks.faults.tape import Tape

FINISH_LIMIT_S = 12.0
"""How long outstanding records are waited for. With rescue a record has more than one delivery limit."""
_NS = 1_000_000_000
_HIGH_RATE = 20_000


def send_paced(
    sender: Sender, spec: LoadSpec, values: Values, tape: Tape, begin_ns: int, numbers: range
) -> None:
    """Send by an open schedule: record n is due n/rate seconds after the first, however late others are.

    Delivery reports are served after each record; at high rates, where that would be most of the work, once
    a millisecond.
    """
    step = 1 if spec.rate < _HIGH_RATE else spec.rate // 1_000
    send, sent, clock = sender.send, tape.sent, time.monotonic_ns
    for first in range(numbers.start, numbers.stop, step):
        early = begin_ns + (first - numbers.start) * _NS // spec.rate - clock()
        if early > 0:
            time.sleep(early / _NS)
        for number in range(first, min(first + step, numbers.stop)):
            value, key = values.make(number), key_of(number, keyed=spec.keyed)
            if number >= 0:
                sent[number] = clock()
            send(value, key, number)
        sender.serve()


def main(words: list[str]) -> None:
    # The parent reads our standard output, and structlog writes there if nobody tells it otherwise.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )
    spec = LoadSpec.parse(words)
    tape, values = Tape.blank(spec.records), Values(spec.run, spec.index)
    sender = make_sender(spec, values, tape)
    print("ready", flush=True)
    begin_ns = int(sys.stdin.readline())
    warm_up = round(spec.rate * WARM_UP_S)
    send_paced(sender, spec, values, tape, begin_ns - round(WARM_UP_S * _NS), range(-warm_up, 0))
    send_paced(sender, spec, values, tape, begin_ns, range(spec.records))
    sender.finish(FINISH_LIMIT_S)
    tape.counters = sender.counters()
    tape.write(spec.out)
    sender.close()


if __name__ == "__main__":
    main(sys.argv[1:])
