"""How many examples a property is tried with."""

import hypothesis


def scaled(examples: int) -> int:
    """Return so many; a tenth of them with the profile `few`, which `make check` chooses."""
    default = hypothesis.settings.default
    assert default is not None
    return max(1, examples * default.max_examples // 100)
