"""``kpe assets``: ready files for Prometheus, Grafana, systemd, dbt, Kubernetes, Airflow."""

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from kafka_partition_events.cli.common.errors import EXIT_DIFFERENT, CliError
from kafka_partition_events.cli.common.output import report, write_line

assets_app = typer.Typer(rich_markup_mode=None)


@assets_app.callback(
    epilog="Exit codes: 0 all is well; 1 files that differ were kept; 2 error, in one line on stderr."
)
def assets() -> None:
    """Get the files that go with `kpe observe`, `kpe tracker` and `kpe spark`.

    \b
    kpe assets export /etc/kpe
    """  # noqa: D301 - \b is typer's mark for "do not re-wrap"


@assets_app.command("export", short_help="Write alert rules, dashboards, schemas, manifests to a directory.")
def export_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where to; it is made if need be.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
) -> None:
    """Write the files that go with `kpe observe`, `kpe tracker` and `kpe spark`.

    \b
    kpe assets export ./kpe-assets
    kpe assets export /etc/kpe --force

    Alert rules with their tests, Grafana dashboards, Alertmanager routes, JSON Schemas, systemd units,
    Kubernetes manifests, an example configuration; for the fleet tables a dbt project, SQL
    views, a SparkApplication and an Airflow DAG. Existing files that differ are kept, unless --force is
    given; then a symbolic link is replaced, and not written through.

    Exit codes: 0 all files are there as they should be; 1 some differ and were kept; 2 can't be written.
    """  # noqa: D301
    kept = False
    for path, content in _files(files("kafka_partition_events") / "assets", PurePosixPath()):
        target = directory / path
        try:
            there = target.read_bytes() if target.exists() else None
            if there == content:
                outcome = "the same  "
            elif os.path.lexists(target) and not force:
                outcome, kept = "kept      ", True
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)  # it, and not what it is a link to
                with target.open("xb") as file:
                    file.write(content)
                outcome = "written   "
        except OSError as error:
            raise CliError(f"{target}: can't be written: {error.strerror or error}") from error
        write_line(f"{outcome}{target}")
    if kept:
        report("note: files that differ were kept; --force overwrites them")
        raise typer.Exit(EXIT_DIFFERENT)


def _files(directory: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, bytes]]:
    for item in sorted(directory.iterdir(), key=lambda item: item.name):
        if item.is_dir() and not item.name.startswith("__"):
            yield from _files(item, path / item.name)
        elif item.is_file() and (path.parts or not item.name.endswith(".py")):  # ours are on top
            yield path / item.name, item.read_bytes()
