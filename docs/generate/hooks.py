"""What MkDocs calls: adds the pages that are made from the code, and leads links to them.

None of these pages is a file in the repository, so none can be stale.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mkdocs.structure.files import File

import kafka_partition_events
from docs.generate import alerts, api, commands, events, metrics, settings
from docs.generate.outside import HOME, linked, relinked
from kafka_partition_events.links import REPOSITORY

_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "reference/commands.md": commands.page,
    "reference/settings.md": settings.page,
    "reference/events.md": events.page,
    "reference/metrics.md": metrics.page,
    "reference/alerts.md": alerts.page,
}


def on_config(config: Any) -> Any:
    """Let each page end with the version and the way to the repository.

    Not by `repo_url`: with that the theme asks GitHub for stars.
    """
    version = kafka_partition_events.__version__
    config.copyright = (
        f'kafka-partition-events {version} · <a href="{REPOSITORY}">repository</a> · Apache-2.0'
    )
    return config


def on_page_context(context: Any, page: Any, **_: Any) -> Any:
    """Let a page that is a file be edited where it is."""
    path = page.file.src_uri
    if path == "index.md":
        page.edit_url = f"{REPOSITORY}/edit/main/{HOME}"
    elif page.file.generated_by is None:
        page.edit_url = f"{REPOSITORY}/edit/main/docs/{path}"
    return context


def on_files(files: Any, config: Any) -> Any:
    """Add pages to those that are files."""
    written = {file.src_uri: file.content_string for file in files.documentation_pages()}
    made = {**{path: page() for path, page in _PAGES.items()}, **api.pages()}
    for path, text in {**made, **events.documents(), **linked(written)}.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead a page's links to files outside of ``docs`` to their pages."""
    return relinked(markdown, page.file.src_uri)
