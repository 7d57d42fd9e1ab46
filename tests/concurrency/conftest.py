"""Tests that hammer: threads take turns as often as Python can make them."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
