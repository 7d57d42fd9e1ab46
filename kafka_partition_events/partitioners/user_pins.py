"""Where pins are kept if nobody says: a file for each cluster, in the user's state directory."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from kafka_partition_events.errors import PinStoreError
from kafka_partition_events.log import get_logger
from kafka_partition_events.partitioners.pin_file import FilePinStore
from kafka_partition_events.partitioners.pins import History

_MOUNTS = Path("/proc/self/mountinfo")
_LOST_AT_A_RESTART = frozenset({"aufs", "fuse.fuse-overlayfs", "overlay", "ramfs", "tmpfs"})
"""File systems of containers' own layers, and of memory."""
_CURE = (
    "Pins are kept there because no store was given. Give store=FilePinStore(PATH), with a path that "
    "outlives a restart, or a KafkaPinStore for a fleet; or let XDG_STATE_HOME name a directory that does"
)

_log = get_logger(__name__)


class UserPinStore:
    """Keeps pins in ``pins-CLUSTER_ID.json``, for all programs that one user runs on one machine.

    So they agree about a topic, whichever of them saw it first, and a topic of the same name on another
    cluster is another topic. The directory is ``kafka-partition-events`` in ``$STATE_DIRECTORY`` (which
    systemd sets), ``$XDG_STATE_HOME`` or ``~/.local/state``, whichever is given first.

    All files are read when the store is made, and by each `read` until `bind` names the cluster: so a
    partitioner that learns the id under a lock has no need to wait for a disk.
    """

    def __init__(self) -> None:
        """Make the directory, and read what is in it.

        Raises:
            PinStoreError: it can't be made, read or written, or would not outlive a restart.
        """
        self.directory = _state_directory()
        self._file: FilePinStore | None = None
        self._files: dict[str, FilePinStore] = {}
        self._found: dict[str, Mapping[str, History] | PinStoreError] = {}
        _check(self.directory)
        self.read()

    def bind(self, cluster_id: str) -> Mapping[str, History]:
        """Keep to one cluster from now on; return what was known of it when the files were read. No I/O.

        Raises:
            PinStoreError: its file could not be read.
        """
        if self._file is None:
            path = self.directory / f"pins-{quote(cluster_id, safe='')}.json"
            self._file = self._files.get(path.name) or FilePinStore(path)
            _log.info("pins_kept", path=str(self._file.path))
        found = self._found.get(self._file.path.name, {})
        if isinstance(found, PinStoreError):
            raise found
        return found

    @property
    def unreadable(self) -> Mapping[str, str]:
        """See `PinStore`; of the cluster that is kept to."""
        return {} if self._file is None else self._file.unreadable

    def read(self) -> Mapping[str, History]:
        """Return the history of every topic of the cluster; of none as long as that is not known.

        Raises:
            PinStoreError: a file can't be read, or holds something else than pins.
        """
        if self._file is not None:
            found = self._found[self._file.path.name] = self._file.read()
            return found
        for path in self.directory.glob("pins-*.json"):
            self._files[path.name] = FilePinStore(path)
            try:
                self._found[path.name] = self._files[path.name].read()
            except PinStoreError as error:  # another cluster's, most likely; `bind` raises if it is ours
                self._found[path.name] = error
        return {}

    def replace(self, topic: str, before: History | None, after: History) -> bool:
        """Write a topic's history if it still is what it was before; tell whether it was.

        Raises:
            PinStoreError: the file can't be read or written, or nobody has told the cluster's id yet.
        """
        if self._file is None:
            raise PinStoreError(
                f"{self.directory}: the cluster has not told its id, which names the file there; until it "
                "does, pins are in memory only"
            )
        return self._file.replace(topic, before, after)

    def close(self) -> None:
        """Do nothing: no file is open."""


def _state_directory() -> Path:
    systemd, user = (os.environ.get(name, "") for name in ("STATE_DIRECTORY", "XDG_STATE_HOME"))
    for state in (systemd.partition(":")[0], user, os.path.expanduser("~/.local/state")):  # noqa: PTH111
        if Path(state).is_absolute():  # XDG: a relative one is to be ignored; without a home "~" stays
            return Path(state) / "kafka-partition-events"
    raise PinStoreError(f"~/.local/state/kafka-partition-events: there is no home directory. {_CURE}")


def _check(directory: Path) -> None:
    kind = _file_system(directory.resolve())
    if kind in _LOST_AT_A_RESTART:
        raise PinStoreError(
            f"{directory}: pins would be lost with the next restart of the container or the machine: it is "
            f"on a file system of the type {kind}. {_CURE}"
        )
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "it may not be written")
    except OSError as error:
        raise PinStoreError(f"{directory}: can't write pins: {error.strerror or error}. {_CURE}") from error


def _file_system(path: Path) -> str | None:
    """Return the type of the file system that a path is on; None where nobody tells, as but on Linux."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    longest, kind = "", None
    for mount in mounts:
        place, _, source = mount.partition(" - ")
        point = place.split()[4].replace("\\040", " ")
        if len(point) >= len(longest) and f"{path}/".startswith(f"{point.rstrip('/')}/"):
            longest, kind = point, source.split()[0]
    return kind
