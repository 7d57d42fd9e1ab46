"""Our jump hash beside Guava's own, which comes with PySpark."""

import random
import subprocess
from pathlib import Path

import pytest

from kafka_partition_events.jvm import java
from kafka_partition_events.routing.jump import jump

pytestmark = pytest.mark.kafka  # which is to say: with Java
PROGRAM = Path(__file__).with_name("GuavaJump.java")
SIGN = 1 << 63


def test_the_same_bucket_for_100_000_numbers() -> None:
    pyspark = pytest.importorskip("pyspark")
    [guava] = Path(pyspark.__file__).with_name("jars").glob("guava-*.jar")
    rng = random.Random(20261121)
    cases = [(rng.getrandbits(31), rng.randrange(1, 10_001)) for _ in range(70_000)]
    cases += [(rng.getrandbits(64) - SIGN, rng.randrange(1, 101)) for _ in range(29_000)]
    cases += [(rng.getrandbits(64) - SIGN, 4_194_304) for _ in range(1_000)]
    done = subprocess.run(
        [str(java()), "-cp", str(guava), str(PROGRAM)],  # a JDK compiles a single file by itself
        input="".join(f"{number} {count}\n" for number, count in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = [int(line) for line in done.stdout.splitlines()]
    assert [jump(number, count) for number, count in cases] == theirs
