"""What writes a configuration for a test and reads it."""

from pathlib import Path

import pytest

from tests.config_kit import Writer


@pytest.fixture
def config(tmp_path: Path) -> Writer:
    return Writer(tmp_path)
