"""The command line: ``kpe``."""

import sys

_EXTRA = {"typer", "rich"}


def main() -> None:
    """Run ``kpe`` and exit with its code.

    typer and rich come with an extra. They are imported here and not above, so that a plain installation
    says in one line what is missing.
    """
    try:
        from kafka_partition_events.cli.app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(
            f"kpe: the command line needs {error.name}, which is not installed; "
            'run: pip install "kafka-partition-events[cli]"\n'
        )
        sys.exit(2)
    sys.exit(run(sys.argv[1:]))
