"""Fetch the pinned jars with the Apache Ivy that PySpark ships."""

import importlib.util
import subprocess
from pathlib import Path

from kafka_partition_events.errors import JvmError
from kafka_partition_events.jvm.java import JAVA_MISSING

TIMEOUT_S = 900.0
"""How long one download may take. Ivy has no limit of its own over all files."""

_TAIL_LINES = 12


def ivy_jar() -> Path:
    """Return PySpark's copy of Ivy, found without importing PySpark (which costs a second).

    Raises:
        JvmError: PySpark is not installed, or brings no Ivy.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JvmError(
            "Kafka's jars are fetched with the Apache Ivy that PySpark ships, but PySpark is not installed; "
            'install the extra: pip install "kafka-partition-events[testing]"'
        )
    jars = Path(spec.origin).parent / "jars"
    found = sorted(jars.glob("ivy-2*.jar"))
    if not found:
        raise JvmError(f"the installed PySpark has no ivy-2*.jar in {jars}; reinstall PySpark 4.1 or newer")
    return found[-1]


def fetch(ivy_file: Path, into: Path, cache: Path, *, java: Path | None) -> str:
    """Download what `ivy_file` pins to ``into/<configuration>/<name>-<revision>.jar``.

    Whether everything has arrived is for the caller to verify: Ivy's exit code does not tell it for
    every kind of failure.

    Args:
        ivy_file: The pinned dependencies.
        into: Where the jars go.
        cache: Ivy's own cache; what an earlier, interrupted attempt left there is used again.
        java: The executable from `java()`.

    Returns:
        The end of what Ivy said, for an error message.

    Raises:
        JvmError: Java or PySpark is missing, or Ivy did not finish in 15 minutes.
    """
    if java is None:
        raise JvmError(f"{JAVA_MISSING}: install it, or let JAVA_HOME name it, and try again")
    command: list[str | Path] = [java, "-jar", ivy_jar(), "-cache", cache, "-ivy", ivy_file]
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
            f"fetching Kafka's jars did not finish in {TIMEOUT_S:.0f} s; "
            "look at the network and try again (what has arrived is kept)"
        ) from error
    return "\n".join(done.stdout.splitlines()[-_TAIL_LINES:])
