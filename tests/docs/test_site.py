"""The site builds without a warning, leads nowhere wrong and asks nobody else for anything."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import kafka_partition_events
from kafka_partition_events import listeners
from kafka_partition_events.assets import schemas
from kafka_partition_events.clients import confluent, kafka_python
from kafka_partition_events.links import REPOSITORY
from kafka_partition_events.observe.settings import SECTIONS

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "srcset", "video": "src"}
LINKS_THAT_LOAD = {"stylesheet", "preload", "icon", "preconnect", "manifest", "dns-prefetch"}
ROOT = Path(__file__).resolve().parents[2]
Tag = tuple[str, dict[str, str]]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Tag] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def tags(site: Path) -> Iterator[tuple[Path, Tag]]:
    for page in site.rglob("*.html"):
        for tag in Tags(page.read_text(encoding="utf-8")).found:
            yield page, tag


def test_nothing_is_warned_of(built: tuple[Path, str]) -> None:
    assert "WARNING" not in built[1]


def test_no_page_loads_anything_from_another_host(built: tuple[Path, str]) -> None:
    loaded = []
    for page, (name, given) in tags(built[0]):
        if name == "link" and LINKS_THAT_LOAD & set(given.get("rel", "").split()):
            loaded.append((page, given["href"]))
        elif name in LOADING and LOADING[name] in given:
            loaded.append((page, given[LOADING[name]]))
    assert loaded
    assert [(page.name, what) for page, what in loaded if urlsplit(what).netloc] == []
    styles = [style.read_text(encoding="utf-8") for style in built[0].rglob("*.css")]
    assert [
        found for style in styles for found in re.findall(r"url\([\"']?(?:https?:)?//|@import", style)
    ] == []


def test_every_link_and_picture_leads_to_a_file(built: tuple[Path, str]) -> None:
    wrong = []
    for page, (_, given) in tags(built[0]):
        for link in filter(None, (given.get("href"), given.get("src"))):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not parts.path or page.name == "404.html":
                continue
            target = page.parent / unquote(parts.path)
            if not (target.is_file() or (target / "index.html").is_file()):
                wrong.append((str(page.relative_to(built[0])), link))
    assert wrong == []


def test_each_page_says_the_version_and_where_it_is_edited(built: tuple[Path, str]) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in built[0].rglob("*.html")}
    version = f"kafka-partition-events {kafka_partition_events.__version__}"
    assert all(version in text for text in pages.values())
    edited = {
        page.parent.relative_to(built[0]): found[1]
        for page, text in pages.items()
        if (found := re.search(rf'href="{REPOSITORY}/edit/main/([^"]+)"', text))
    }
    assert edited[Path()] == "README.md"
    assert edited[Path("tutorials/first-alert")] == "docs/tutorials/first-alert.md"
    assert all((ROOT / path).is_file() for path in edited.values())


def test_every_public_name_has_its_place(built: tuple[Path, str]) -> None:
    told = "".join(
        page.read_text(encoding="utf-8") for page in (built[0] / "reference" / "api").rglob("*.html")
    )
    for module in (kafka_partition_events, confluent, kafka_python, listeners):
        for name in module.__all__:
            assert f'id="{module.__name__}.{name}"' in told, name


def test_every_setting_and_schema_is_listed(built: tuple[Path, str]) -> None:
    settings = (built[0] / "reference" / "settings" / "index.html").read_text(encoding="utf-8")
    assert [name for name in SECTIONS if f"[{name}]" not in settings] == []
    events = (built[0] / "reference" / "events" / "index.html").read_text(encoding="utf-8")
    assert [name for name in schemas() if f"schemas/{name}.json" not in events] == []


def test_each_row_of_a_table_has_the_cells_of_its_header() -> None:
    wrong = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        wanted = 0
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
            cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
            if wanted and cells and cells != wanted:
                wrong.append(f"{page.name}:{number}")
            wanted = cells and (wanted or cells)
    assert wrong == []
