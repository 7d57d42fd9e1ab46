"""The lowest clients that we allow are those that `make matrix` tests, in its row clients-lowest.

Before 2.13 a client of confluent-kafka can't be closed, but only collected; the garbage collector may run on
a thread of librdkafka's own, which aborts the process if a client ends there.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "clients-lowest.txt"


@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_the_lowest_is_what_we_say(client: str) -> None:
    (lowest,) = re.findall(rf"^{client}==(\S+)", LOCK.read_text(), re.MULTILINE)
    (allowed,) = set(re.findall(rf'"{client}>=([\d.]+)', (ROOT / "pyproject.toml").read_text()))
    assert lowest in {allowed, f"{allowed}.0"}
