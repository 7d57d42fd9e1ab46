"""What MkDocs calls: adds the pages that are made from the code, and leads links to them.

None of these pages is a file in the repository, so none can be stale.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from mkdocs.structure.files import File

from docs.generate import alerts, api, commands, events, metrics, settings
from docs.generate.outside import linked, relinked

_PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "reference/commands.md": commands.page,
    "reference/settings.md": settings.page,
    "reference/events.md": events.page,
    "reference/metrics.md": metrics.page,
    "reference/alerts.md": alerts.page,
}


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
