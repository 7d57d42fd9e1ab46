"""Whatever somebody has written: each decoder makes something of it or refuses it, soon and in one line.

``KPE_ODD_ENTRIES`` sets how many documents the last test takes; `make odd-entries` takes 100,000.
"""

import os
import random
import sys
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_partition_events.legible import is_legible
from kafka_partition_events.observe.config import ConfigError
from tests.config_kit import WHOLE
from tests.every_decoder import DECODERS, configuration
from tests.odd_kit import LARGE, mutated, replaced
from tests.property.examples import scaled

COUNT = int(os.environ.get("KPE_ODD_ENTRIES", "2000"))
SEED = 21
LONGEST = 2_000
LIMIT_S = 5.0  # a machine may be slow; what grows by the square takes minutes

pytestmark = pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # "Possible nested set": [[a]


def is_understood(name: str, value: bytes) -> bool:
    """Tell whether a decoder makes something of a value; check how it refuses it, if it does."""
    decoder = DECODERS[name]
    began = time.process_time()
    try:
        decoder.of(value)
    except decoder.refuses as error:
        message = str(error)
        assert message
        assert len(message) <= LONGEST
        assert is_legible(message)
        return False
    finally:
        assert time.process_time() - began < LIMIT_S
    return True


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_really_written_is_understood(name: str) -> None:
    assert all(is_understood(name, value) for value in DECODERS[name].real)


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=scaled(20))
@given(dice=st.randoms(use_true_random=False))
def test_what_is_odd_is_understood_or_refused(name: str, dice: random.Random) -> None:
    is_understood(name, mutated(dice, dice.choice(DECODERS[name].real)))


@given(dice=st.randoms(use_true_random=False))
def test_no_secret_is_told_whatever_stands_beside_it(dice: random.Random) -> None:
    whole = WHOLE.encode()
    assert b"s3cret" in whole
    told = ""
    try:
        configuration(replaced(dice, whole))
    except ConfigError as error:
        told = f"{error} {error.__cause__}"  # the longest problem, and all
    assert "s3cret" not in told


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("name", DECODERS)
def test_a_megabyte_is_understood_or_refused_soon(name: str, large: str) -> None:
    is_understood(name, LARGE[large][: DECODERS[name].most])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("configuration", b"[incidents]\ntopic_hold_downs = { 'a{4294967296}' = '5m' }"),
        ("configuration", b"[observer]\ntopics = 'a{4294967296}'"),
        ("configuration", b"[policy]\nmax_partitions = 1" + b"0" * 400),
        ("configuration", b"['\\x1b[2J']\n"),
        ("configuration", b"".join(b"[a%d]\n" % number for number in range(100_000))),
        ("configuration", b"".join(b"[[windows]]\nname='a%d'\n" % number for number in range(4_000))),
        ("KPE_OBSERVER__TOPICS", b"(" * 5_000),
        ("KPE_KAFKA__PROPERTIES__SASL_PASSWORD_FILE", b"a\0"),
        ("Retry-After", b"Fri, 20 Nov 99999999999999999999 10:00:00 GMT"),
        ("offsets of a query", b'{"orders": {"0": 1e400}}'),
        ("state of a fleet's tables", b"[]"),
        ("option --topics", b"a{4294967296}"),
        ("option --since", b"0001-01-01T00:00:00+14:00"),
    ],
)
def test_what_was_a_fault_once(name: str, value: bytes) -> None:
    is_understood(name, value)


@pytest.mark.slow
def test_odd_documents_by_the_thousand(capsys: pytest.CaptureFixture[str]) -> None:
    dice, found = random.Random(SEED), Counter[tuple[str, bool]]()
    names = list(DECODERS)
    for number in range(COUNT):
        name = names[number % len(names)]
        found[name, is_understood(name, mutated(dice, dice.choice(DECODERS[name].real)))] += 1
    with capsys.disabled():
        for name in names if len(names) < COUNT else ():
            sys.stdout.write(f"\n{name}: {found[name, True]:,} understood, {found[name, False]:,} refused")
    assert sum(found.values()) == COUNT
