"""What librdkafka says of brokers that can't be reached, said once and with the cure. Pure."""

import re
from typing import Final

_REFUSED: Final = re.compile(r"(\S+?)/\S+: Connect to \S+ failed: Connection refused")
_UNRESOLVED: Final = re.compile(r"Failed to resolve '(\S+)': ([^(]+?) \(")


def plainly(message: str) -> str:
    """Return what is wrong in one clause, where librdkafka repeats it in four; else the message as it is."""
    if found := _REFUSED.search(message):
        return (
            f"Connection refused by {found[1]}: is the address right, and is a broker up there? -v shows more"
        )
    if found := _UNRESOLVED.search(message):
        return f"Failed to resolve {found[1]}: {found[2]}; is the name right? -v shows more"
    return message
