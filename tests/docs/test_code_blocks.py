"""Every block of Python in the documentation runs, or says why not.

What takes brokers is in tests/integration/test_docs_on_kafka.py.
"""

import re
import tomllib
from pathlib import Path

import pytest

from kafka_partition_events.observe.config import load_config
from tests.docs_kit import ROOT, Block, blocks

TENANT = (ROOT / "examples" / "tenant_partitioner.py").read_text(encoding="utf-8")
LONGEST_EXAMPLE = 15
PAGER = '[[sinks]]\nname = "pager"\ntype = "webhook"\nurl = "https://example.com/"\n'
"""A sink that a page may name without showing it."""
KNOWN = {"", "console", "diff", "mermaid", "python", "text", "toml", "yaml"}
PYTHON = blocks("python")
HERE = [block for block in PYTHON if block.why_not is None and not block.needs_kafka]


def test_each_block_has_a_language_that_is_looked_at() -> None:
    assert {block.language for block in blocks()} <= KNOWN


@pytest.mark.parametrize("block", [block for block in PYTHON if block.why_not], ids=str)
def test_what_is_not_run_names_the_test_that_runs_it(block: Block) -> None:
    named = re.findall(r"tests/[\w/]+\.py", block.why_not or "")
    assert named
    assert all((ROOT / test).exists() for test in named)


@pytest.mark.parametrize("block", HERE, ids=str)
def test_it_runs_and_prints_what_the_page_says(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "__main__" if block.shown else "docs"
    exec(compile(block.code, str(block), "exec"), {"__name__": name})  # noqa: S102 - our own page
    if block.shown is not None:
        assert capsys.readouterr().out == block.shown


def test_the_tenant_partitioner_is_short_and_shown_as_it_is() -> None:
    (block,) = (block for block in HERE if "class TenantPartitioner" in block.code)
    assert block.code in TENANT
    partitioner = block.code[block.code.index("class TenantPartitioner") : block.code.index("def main")]
    assert len([line for line in partitioner.split("\n") if line.strip()]) < LONGEST_EXAMPLE


@pytest.mark.parametrize("block", blocks("toml"), ids=str)
def test_a_configuration_is_one(block: Block, tmp_path: Path) -> None:
    assert tomllib.loads(block.code)
    (secret := tmp_path / "secret").write_text("https://example.com/hook", encoding="utf-8")
    secret.chmod(0o600)
    here = block.code if '"pager"' not in block.code else block.code + PAGER
    here = re.sub(r'(_file"? = ")[^"]*', rf"\g<1>{secret}", here)
    (path := tmp_path / "kpe.toml").write_text(here, encoding="utf-8")
    load_config(path, {})
