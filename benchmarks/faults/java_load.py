"""Compile `LoadProducer.java` and say how to start it."""

import shutil
import subprocess
from pathlib import Path

from attrs import asdict

from benchmarks.errors import BenchError
from benchmarks.faults.layouts import LINGER_MS, VALUE_BYTES
from benchmarks.faults.plan import JAVA_SETTINGS
from benchmarks.faults.spec import LoadSpec
from kafka_partition_events.jvm import java, kafka_classpath

_SOURCE = Path(__file__).with_name("LoadProducer.java")
_COMPILE_LIMIT_S = 120


def compile_load(into: Path) -> str:
    """Compile the program and return the class path to run it with.

    Raises:
        BenchError: there is no JDK, or it refuses the program.
    """
    runtime = java()
    beside = runtime.resolve().with_name("javac") if runtime else None
    compiler = str(beside) if beside and beside.exists() else shutil.which("javac")
    if compiler is None:
        raise BenchError(
            "the Java producers need a JDK (javac), and only a Java runtime was found: install one, or leave "
            "them out with --producer"
        )
    classpath = kafka_classpath()
    command = [compiler, "-Xlint:all", "-Werror", "-cp", classpath, "-d", str(into), str(_SOURCE)]
    done = subprocess.run(  # noqa: S603 - fixed arguments
        command, capture_output=True, text=True, timeout=_COMPILE_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise BenchError(f"{compiler} refuses {_SOURCE.name}:\n{done.stdout}{done.stderr}")
    return f"{into}:{classpath}"


def java_command(spec: LoadSpec, classpath: str) -> list[str]:
    """Return the command line of one load."""
    settings = {
        "acks": spec.acks,
        "linger.ms": str(LINGER_MS),
        "delivery.timeout.ms": str(spec.delivery_limit_ms),
        "request.timeout.ms": str(spec.request_limit_ms),
        "max.block.ms": str(spec.delivery_limit_ms),
        **JAVA_SETTINGS[spec.producer],
    }
    return [
        str(java()),
        "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
        "-cp",
        classpath,
        "LoadProducer",
        *(f"{name}={value}" for name, value in asdict(spec).items()),
        f"value.bytes={VALUE_BYTES}",
        f"warm.up.s={spec.warm_up_s}",
        *(f"config.{name}={value}" for name, value in settings.items()),
    ]
