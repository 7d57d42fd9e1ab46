"""A story of a change, before anything has happened in it."""

import pytest

from tests.control_kit import Story


@pytest.fixture
def story() -> Story:
    return Story()
