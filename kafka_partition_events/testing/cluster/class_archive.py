"""Start JVMs with Kafka's classes parsed already: half of the processor time that a node takes to start.

The JVM can write the classes that a process has loaded to a file as it ends in good order, and map that file
into later ones (class data sharing; ``-XX:ArchiveClassesAtExit`` since JDK 13). So the first cluster of a
machine lets a controller write them when it is closed, beside the jars (45 MB). A JVM that finds a file of
other jars or another JDK does without it.
"""

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from attrs import frozen


@frozen
class ClassArchive:
    """The classes of one set of jars for one JDK.

    Attributes:
        path: Where they are kept; complete as soon as it exists.
        draft: Where a JVM of this cluster writes them, if they are not there.
    """

    path: Path
    draft: Path | None

    @classmethod
    def of(cls, java: Path, jars: Path, directory: Path) -> Self:
        """Return that of a directory of jars; `directory` is the cluster's own."""
        jdk = java.resolve()
        known_by = hashlib.sha256(f"{jdk} {jdk.stat().st_mtime_ns}".encode()).hexdigest()[:8]
        path = jars.with_name(f"{jars.name}-{known_by}.jsa")
        return cls(path, None if path.exists() else directory / "classes.jsa")

    @property
    def options(self) -> tuple[str, ...]:
        """What every JVM is started with. Nothing is said of a file that does not fit."""
        quiet = ("-Xlog:disable", "-Xlog:all=warning:stderr", "-Xlog:cds*=off:stderr")
        return () if self.draft is not None else (f"-XX:SharedArchiveFile={self.path}", *quiet)

    @property
    def options_of_writer(self) -> tuple[str, ...]:
        """What the one is started with that will write them, if need be."""
        return self.options if self.draft is None else (f"-XX:ArchiveClassesAtExit={self.draft}",)

    def keep(self) -> None:
        """Keep what was written, after the writer has ended. Of several clusters the last one wins."""
        if self.draft is None or not self.draft.exists():
            return
        with contextlib.suppress(OSError), _beside(self.path) as copy:  # a full disk costs time, no more
            shutil.copyfile(self.draft, copy)
            copy.replace(self.path)


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    copy = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    try:
        yield copy
    finally:
        copy.unlink(missing_ok=True)
