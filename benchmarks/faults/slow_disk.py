"""A disk that can be made slow, for one broker: no device does that in user space, so its writes are held."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from benchmarks.errors import BenchError
from benchmarks.faults.plan import DISK_MS

_SOURCE = Path(__file__).with_name("SlowDisk.c")
_COMPILE_LIMIT_S = 60


@frozen
class SlowDisk:
    """Slows down processes that were started while `preloaded` was open."""

    _flags: Path

    def slow_down(self, pid: int) -> None:
        """Let each write of a process to a file take `DISK_MS` longer."""
        (self._flags / str(pid)).touch()

    def heal(self) -> None:
        for flag in self._flags.iterdir():
            flag.unlink()


@contextmanager
def preloaded(wanted: bool) -> Iterator[SlowDisk | None]:
    """Compile the library, and have every process that is started from here on load it; None if not wanted.

    Raises:
        BenchError: there is no C compiler, or it refuses the library.
    """
    if not wanted:
        yield None
        return
    compiler = shutil.which("cc")
    if compiler is None:
        raise BenchError("a slow disk needs a C compiler (cc): install one, or leave it out with --fault")
    with tempfile.TemporaryDirectory(prefix="bench-faults-disk-") as scratch:
        library, flags = Path(scratch) / "slow_disk.so", Path(scratch) / "flags"
        flags.mkdir()
        command = [compiler, "-O2", "-Wall", "-shared", "-fPIC", f"-DDISK_MS={DISK_MS}", "-o", str(library)]
        done = subprocess.run(  # noqa: S603 - fixed arguments
            [*command, str(_SOURCE), "-ldl"],
            capture_output=True,
            text=True,
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BenchError(f"{compiler} refuses {_SOURCE.name}:\n{done.stderr}")
        os.environ.update(LD_PRELOAD=str(library), BENCH_SLOW_DISK=str(flags))
        try:
            yield SlowDisk(flags)
        finally:
            del os.environ["LD_PRELOAD"], os.environ["BENCH_SLOW_DISK"]
