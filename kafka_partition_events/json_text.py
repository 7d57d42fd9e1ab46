"""JSON of other programs. Pure."""

import json
from typing import Any


def json_in(text: str | bytes) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: it is no JSON, no text, or nested more deeply than anything that means something. Python's
            own reader runs out of its stack there.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
