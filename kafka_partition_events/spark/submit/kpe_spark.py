# ruff: noqa: INP001
"""``kpe spark ...`` on the Spark that spark-submit gives. docs/fleet.md has the line.

It stands alone in its directory, because Python finds modules beside the script that it runs.
"""

import sys

from kafka_partition_events.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "spark")
    main()
