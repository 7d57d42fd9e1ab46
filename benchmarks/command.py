"""What the commands of the two campaigns share: options, exit codes, where page and pictures go."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import frozen

from benchmarks.errors import BenchError
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing.errors import KitError

_ROOT = Path(__file__).parents[1]


def say(line: str) -> None:
    print(line, flush=True)


def add_options(parser: argparse.ArgumentParser, *, of_each: str) -> None:
    """Add the options that every campaign has. ``of_each`` is what takes turns: "producer", say."""
    add = parser.add_argument
    add(
        "--rounds",
        type=_positive,
        default=3,
        metavar="N",
        help=f"runs of each {of_each}; default %(default)s",
    )
    add("--quick", action="store_true", help="one short round, to see that it works")
    add("--results", type=Path, metavar="FILE", help="keep the results here, not in benchmarks/results/")
    add("--render", action="store_true", help="measure nothing; make page and pictures")


def exit_code_of(campaign: Callable[[], bool]) -> int:
    """Run a campaign, which tells whether it was complete; return the exit code."""
    try:
        return 0 if campaign() else 1
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except (BenchError, KitError, JvmError) as error:
        say(f"error: {error}")
        return 2


@frozen
class Paper:
    """Where page and pictures go: into the project's docs, or beside the results."""

    page: Path
    images: Path
    link: str

    def write(
        self, render: Callable[[str, str], str], new_page: str, pictures: Mapping[str, str | None]
    ) -> None:
        """Make the page anew by ``render``, and the pictures (SVG by file name; None is left out)."""
        self.images.mkdir(parents=True, exist_ok=True)
        text = self.page.read_text(encoding="utf-8") if self.page.exists() else new_page
        self.page.write_text(render(text, self.link), encoding="utf-8")
        for name, picture in pictures.items():
            if picture is not None:
                (self.images / name).write_text(picture, encoding="utf-8")
        say(f"rendered {self.page}")


def paper_for(results: Path, page: str, *, official: bool) -> Paper:
    """Return the project's own page of this name, or one beside the results."""
    if official:
        return Paper(_ROOT / "docs" / page, _ROOT / "docs" / "img", "img")
    return Paper(results.with_suffix(".md"), results.parent, ".")


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
