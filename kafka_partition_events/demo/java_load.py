"""How the Java client's process is started."""

import shutil
import subprocess
from pathlib import Path

from kafka_partition_events.cli.common.errors import CliError, one_line
from kafka_partition_events.demo.plan import (
    DELIVERY_LIMIT_MS,
    LINGER_MS,
    REQUEST_LIMIT_MS,
    VALUE_BYTES,
    Part,
)
from kafka_partition_events.jvm import java, kafka_classpath

_SOURCE = Path(__file__).with_name("DemoLoad.java")
_COMPILE_LIMIT_S = 120.0


def java_command(part: Part, bootstrap_servers: str, tape: Path) -> list[str]:
    """Return a command that does what `load` does, with Apache Kafka's own producer.

    Raises:
        CliError: there is no JDK to compile it with.
    """
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "acks": "all",
        "linger.ms": LINGER_MS,
        "delivery.timeout.ms": DELIVERY_LIMIT_MS,
        "request.timeout.ms": REQUEST_LIMIT_MS,
        "max.block.ms": DELIVERY_LIMIT_MS,
    }
    return [
        str(java()),
        "-Xmx256m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "-cp",
        f"{_compiled(tape.parent)}:{kafka_classpath()}",
        _SOURCE.stem,
        part.topic,
        str(tape),
        str(VALUE_BYTES),
        *(f"{name}={value}" for name, value in settings.items()),
    ]


def _compiled(into: Path) -> Path:
    runtime = java()
    beside = runtime.resolve().with_name("javac") if runtime else None
    compiler = str(beside) if beside and beside.exists() else shutil.which("javac")
    if compiler is None:
        raise CliError("--java needs a JDK (javac), and only a Java runtime was found: install one")
    command = [compiler, "-cp", kafka_classpath(), "-d", str(into), str(_SOURCE)]
    done = subprocess.run(  # noqa: S603 - fixed arguments
        command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False
    )
    if done.returncode:
        raise CliError(f"{compiler} refuses {_SOURCE.name}: {one_line(done.stdout + done.stderr)}")
    return into
