"""How many records of each kind came."""

import attrs
from attrs import frozen


@frozen(kw_only=True)
class Counts:
    """How many records. Each that is read is good, or in quarantine for one of the other reasons.

    Attributes:
        read: Records of the source.
        good: Records that are events of ours.
        unparsed: Those that are no CloudEvents of ours.
        unknown: CloudEvents of an unknown type or major version.
        future: Events of an observer whose clock is ahead of the broker's.
        past: Events of an observer whose clock is behind.
        doubles: Observations of an event that another one in the same batches reported, too.
        missing: Offsets that were gone before they were read: by retention, or with a topic that was deleted.
            Markers of transactions count as such, too. None is counted of change control's topic.
    """

    read: int = 0
    good: int = 0
    unparsed: int = 0
    unknown: int = 0
    future: int = 0
    past: int = 0
    doubles: int = 0
    missing: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: n + getattr(other, name) for name, n in attrs.asdict(self).items()})

    def __str__(self) -> str:
        said = [f"{n:,} {name}" for name, n in attrs.asdict(self).items() if n or name in {"read", "good"}]
        return ", ".join(said)
