"""How many examples a property is tried with."""

import hypothesis


def scaled(examples: int) -> int:
    """Return so many; a tenth of them with the profile `few`, which `make check` chooses."""
    return max(1, examples * hypothesis.settings.default.max_examples // 100)
