"""Every command in the documentation and in the help exists, with each of its options."""

import itertools
import re
import shlex
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import typer

from docs.generate import commands as commands_page
from kafka_partition_events.cli.app import app
from tests.docs_kit import ROOT, Block, blocks, blocks_of, inline_commands

SHELL = blocks("", "console")
HELP = [
    re.split(r"\s{2,}", line)[0]  # what it is for stands behind some blanks
    for block in blocks_of("--help", commands_page.page())
    for line in block.code.replace("\\\n", " ").splitlines()
    if line.startswith("kpe ")
]
KPE: Any = typer.main.get_command(app)
BEHIND = {"|", "||", "&&", ">", "2>"}
"""What ends a command of a shell, and what stands behind it is another's."""
SHELLS = {"cd", "git", "jq", "spark-submit", "tail", "ssh"}
OF_KAFKA = re.compile(r"kafka-[a-z-]+\.sh")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
EXTRAS = set(metadata("kafka-partition-events").get_all("Provides-Extra") or ())


def commands(block: Block) -> Iterator[str]:
    """Return what is typed in a block: all of it, or what stands behind prompts if there is one."""
    lines = block.code.replace("\\\n", " ").replace("&&\n", "&& ").splitlines()
    prompts = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in prompts or lines:
        for command in line.partition(" #")[0].split(" && "):
            if command.strip() and not command.startswith("#"):
                yield command.strip()


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_what_is_typed_exists(block: Block) -> None:
    for command in commands(block):
        check(command)


@pytest.mark.parametrize("command", HELP)
def test_what_help_shows_exists(command: str) -> None:
    check(command)


@pytest.mark.parametrize(("page", "command"), inline_commands())
def test_what_a_sentence_names_exists(page: str, command: str) -> None:
    check_kpe(command.split()[1:])


def check(command: str) -> None:
    program, *words = shlex.split(command, comments=True)
    if program == "kpe":
        check_kpe(words)
    elif program == "make":
        assert {word for word in words if "=" not in word} <= TARGETS, command
    elif program == "pip":
        for extras in re.findall(r"kafka-partition-events\[([^]]+)\]", command):
            assert set(extras.split(",")) <= EXTRAS, command
    elif Path(program).name == "python" and words[0] != "-m":
        assert (ROOT / words[0]).exists() or words[0] == "first.py", command
    elif Path(program).name == "python":
        assert list(ROOT.glob(f"{words[1].replace('.', '/')}*")), command
    else:
        assert OF_KAFKA.fullmatch(program) or program in SHELLS, command


def check_kpe(words: list[str]) -> None:
    """Check the words behind ``kpe``: commands, then options of one of them."""
    known, command = options(KPE), KPE
    rest = list(itertools.takewhile(lambda word: word not in BEHIND, words))
    while rest and (inner := getattr(command, "commands", {}).get(rest[0])) is not None:
        known |= options(command := inner)
        rest.pop(0)
    assert command is not KPE or not rest or not rest[0].isalpha() or rest[0].isupper(), (
        f"there is no kpe {rest[0]}"
    )
    given = {word.partition("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)}
    assert given <= known, f"kpe {' '.join(words)}: {given - known}"


def options(command: Any) -> set[str]:
    found = {"--help", "-h"}
    for parameter in command.params:
        found |= {*parameter.opts, *parameter.secondary_opts}
    return found
