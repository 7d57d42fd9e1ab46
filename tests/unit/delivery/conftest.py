"""What makes deliverers for a test, and closes them in the end."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.delivery.at_work import Delivery


@pytest.fixture
def make() -> Iterator[Any]:
    made: list[Delivery] = []

    def start(*script: Exception | None, **options: Any) -> Delivery:
        made.append(Delivery(*script, **options))
        return made[-1]

    yield start
    for delivery in made:
        delivery.deliverer.close(0)
