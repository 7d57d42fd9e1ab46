"""`kpe demo`, as far as it gets without brokers."""

import subprocess
import sys


def test_without_aiokafka_it_says_what_to_install() -> None:
    script = (
        "import sys\n"
        "sys.modules['aiokafka'] = None\n"  # import then raises ModuleNotFoundError
        "from kafka_partition_events.cli.app import run\n"
        "sys.exit(run(['demo', '--asyncio']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    told = 'kpe: this needs aiokafka; run: pip install "kafka-partition-events[demo,aiokafka]"\n'
    assert (done.returncode, done.stderr) == (2, told)
