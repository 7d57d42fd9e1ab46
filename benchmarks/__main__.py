"""``python -m benchmarks [--quick] [NAME ...]``: run the benchmarks, write ``benchmarks/results/``."""

import argparse
from importlib import import_module

NAMES = ("partition", "metadata", "produce")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="fewer runs: to see that they work")
    arguments = parser.parse_args()
    for name in arguments.names or NAMES:
        print(f"-- {name}", flush=True)
        import_module(f"benchmarks.{name}").main(quick=arguments.quick)


if __name__ == "__main__":
    main()
