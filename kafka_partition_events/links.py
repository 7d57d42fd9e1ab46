"""Where the project is on the web: the one place for it.

The URLs of ``pyproject.toml``, the links of the README and those that ``kpe`` shows begin with it, which
``tests/packaging/test_links.py`` checks.
"""

from typing import Final

REPOSITORY: Final = "https://github.com/kafka-partition-events/kafka-partition-events"
DOCUMENTATION: Final = f"{REPOSITORY}/blob/main/docs"
