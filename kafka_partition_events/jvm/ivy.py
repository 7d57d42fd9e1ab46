"""Fetch the pinned jars with Apache Ivy, which PySpark ships; where it is not installed jgo fetches it."""

import hashlib
import importlib.util
import subprocess
from pathlib import Path

from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm.java import JAVA_MISSING

TIMEOUT_S = 900.0
"""How long one download may take. Ivy has no limit of its own over all files."""

_TAIL_LINES = 12
_IVY = "org.apache.ivy:ivy:2.5.3"  # which PySpark 4.2 has
_IVY_SHA256 = "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b"


def ivy_jar(cache: Path) -> Path:
    """Return Ivy: PySpark's copy where PySpark is installed (not imported, which costs a second), or jgo's.

    Args:
        cache: Where jgo keeps what it has fetched.

    Raises:
        JvmError: neither PySpark nor jgo is installed; or PySpark brings no Ivy, or jgo could not fetch it.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return _by_jgo(cache)
    jars = Path(spec.origin).parent / "jars"
    found = sorted(jars.glob("ivy-2*.jar"))
    if not found:
        raise JvmError(f"the installed PySpark has no ivy-2*.jar in {jars}; reinstall PySpark 4.1 or newer")
    return found[-1]


def _by_jgo(cache: Path) -> Path:
    """Fetch Ivy, 1.4 MB, by a client of Java's registry that pip can install."""
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise JvmError(
            "jars are fetched with Apache Ivy, which comes with PySpark or by jgo, and neither is "
            'installed; install the extra: pip install "kafka-partition-events[demo]"'
        ) from error
    try:
        jar: Path = MavenContext(repo_cache=cache / "jgo").create_dependency(_IVY).artifact.resolve()
    except Exception as error:  # what its HTTP client raises is not of this interface
        raise JvmError(
            f"Apache Ivy could not be fetched: {error}; check the network and try again"
        ) from error
    if hashlib.sha256(jar.read_bytes()).hexdigest() != _IVY_SHA256:
        jar.unlink()
        raise JvmError(f"sha256 of {jar.name} differs from what it should be; it was removed, try again")
    return jar


def fetch(ivy_file: Path, into: Path, cache: Path, *, java: Path | None) -> str:
    """Download what `ivy_file` pins to ``into/<configuration>/<name>-<revision>.jar``.

    Whether everything has arrived is for the caller to verify: Ivy's exit code does not show
    every kind of failure.

    Args:
        ivy_file: The pinned dependencies.
        into: Where the jars go.
        cache: Ivy's own cache; what an earlier, interrupted attempt left there is used again.
        java: The executable from `java()`.

    Returns:
        The end of what Ivy said, for an error message.

    Raises:
        JvmError: Java or Ivy is missing, or Ivy did not finish in 15 minutes.
    """
    if java is None:
        raise JvmError(f"{JAVA_MISSING}: install it, or let JAVA_HOME name it, and try again")
    command: list[str | Path] = [java, "-jar", ivy_jar(cache), "-cache", cache, "-ivy", ivy_file]
    # Some jars (snappy) are of the type "bundle".
    command += ["-types", "jar", "bundle"]
    command += ["-retrieve", f"{into}/[conf]/[artifact]-[revision].[ext]"]
    try:
        # Ivy asks nothing, but a prompt of some wrapper must not wait for an answer.
        done = subprocess.run(  # noqa: S603  # fixed arguments
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JvmError(
            f"fetching {ivy_file.stem}'s jars did not finish in {TIMEOUT_S:.0f} s; "
            "check the network and try again (what has arrived is kept)"
        ) from error
    return "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
