"""What the commands of all campaigns share: options, exit codes, what becomes of results."""

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from attrs import field, frozen

from benchmarks import kept
from benchmarks.errors import BenchError
from benchmarks.kept import Result
from benchmarks.measure import RESULTS
from kafka_partition_events.errors import JvmError
from kafka_partition_events.testing.errors import KitError

R = TypeVar("R")

_DOCS = Path(__file__).parents[1] / "docs"


def say(line: str) -> None:
    print(line, flush=True)


def parser_of(campaign: str, description: str, epilog: str, *, quick: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every campaign has; ``quick`` says what that one measures."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{campaign}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help=f"{quick}, to see that it works")
    add("--results", type=Path, metavar="FILE", help="keep the results here, not in benchmarks/results/")
    add("--render", action="store_true", help="measure nothing; make page and pictures")
    return parser


def add_rounds(parser: argparse.ArgumentParser, *, of_each: str, rounds: str | int = 3) -> None:
    """Add how many rounds there are. ``of_each`` is what takes turns: "producer", say.

    ``rounds`` is the default, or says in words what stands for it; then it is None.
    """
    parser.add_argument(
        "--rounds",
        type=_positive,
        default=rounds if isinstance(rounds, int) else None,
        metavar="N",
        help=f"runs of each {of_each}; default {rounds}",
    )


class Listing(argparse.Action):
    """Show what there is, as ``--help`` shows help."""

    def __init__(self, *names: Any, lines: Callable[[], Iterable[str]], **options: Any) -> None:
        super().__init__(*names, **{**options, "nargs": 0})
        self._lines = lines

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        say("\n".join(self._lines()))
        parser.exit()


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


@frozen(kw_only=True)
class Book(Generic[R]):
    """A campaign's results, kept in a file, and the page and pictures that are made of them.

    Attributes:
        name: The file of results in benchmarks/results/, without its suffix.
        page: The page in docs/.
        new_page: What stands there to begin with.
        parse: Reads a run.
        render: Returns the page, given what it was, all results, and the path to the pictures.
        draw: Returns pictures, SVG by file name; None is left out.
        also: Other pages with a part that is made of the results; not when those are kept elsewhere.
        elsewhere: Another file for the results; page and pictures are made beside it.
    """

    name: str
    page: str
    new_page: str
    parse: kept.Parse[R]
    render: Callable[[str, Mapping[str, Result[R]], str], str]
    draw: Callable[[Mapping[str, Result[R]]], Mapping[str, str | None]] = lambda _: {}
    also: Mapping[Path, Callable[[str, Mapping[str, Result[R]]], str]] = field(factory=dict)
    elsewhere: Path | None = None

    @property
    def results(self) -> Path:
        """The file of results."""
        return self.elsewhere or RESULTS / f"{self.name}.json"

    def load(self) -> dict[str, Result[R]]:
        """Return what was kept, by scenario."""
        return kept.load(self.results, self.parse)

    def add(self, result: Result[R]) -> None:
        """Keep a scenario's result, and make page and pictures anew."""
        self._write(kept.merge(self.results, result, self.parse))

    def render_again(self) -> int:
        """Make page and pictures anew; return the exit code."""
        found = self.load()
        if not found:
            say(f"error: no results in {self.results}; measure first")
            return 2
        self._write(found)
        return 0

    def _write(self, found: Mapping[str, Result[R]]) -> None:
        if self.elsewhere is None:
            page, images, link = _DOCS / self.page, _DOCS / "img", "img"
        else:
            page, images, link = self.elsewhere.with_suffix(".md"), self.elsewhere.parent, "."
        images.mkdir(parents=True, exist_ok=True)
        text = page.read_text(encoding="utf-8") if page.exists() else self.new_page
        page.write_text(self.render(text, found, link), encoding="utf-8")
        for name, picture in self.draw(found).items():
            if picture is not None:
                (images / name).write_text(picture, encoding="utf-8")
        for other, render in self.also.items() if self.elsewhere is None else ():
            other.write_text(render(other.read_text(encoding="utf-8"), found), encoding="utf-8")
        say(f"rendered {page}")


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number
