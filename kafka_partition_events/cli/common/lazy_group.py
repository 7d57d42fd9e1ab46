"""Groups of commands that are imported one by one: all together take a second of a processor."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

Table = Mapping[str, tuple[str, str]]
"""The commands by name: the function or the group that each is, ``module:name``, and what it is for."""


class LazyGroup(TyperGroup):
    """A group whose commands, its ``table``, are imported when they are asked for."""

    table: ClassVar[Table]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = _Commands(self.table)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let flags that are absent be False: None would be checked, and to check takes pydantic."""
        for option in self.get_params(ctx):
            if getattr(option, "is_flag", False) and option.default is None:
                option.default = False
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Show the commands from the table."""
        with self._unimported():
            super().format_commands(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete names from the table."""
        with self._unimported():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _unimported(self) -> Iterator[None]:
        """Have commands by their names and the table's words alone, which takes no import."""
        commands = self.commands
        self.commands = {
            name: TyperCommand(name, short_help=about) for name, (_, about) in self.table.items()
        }
        try:
            yield
        finally:
            self.commands = commands


class _Command(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take what is typed as it is where a shell wants to complete it: to check it takes pydantic."""
        if not ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        typed, rest, _ = self.make_parser(ctx).parse_args(list(args))
        ctx.params.update(typed)
        ctx.args = [*rest]
        return [*rest]


class _Commands(Mapping[str, Any]):
    def __init__(self, table: Table) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Any:
        return _command(name, *self._table[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


@cache
def _command(name: str, where: str, about: str) -> Any:
    module, _, attribute = where.partition(":")
    made = getattr(import_module(f"kafka_partition_events.cli.{module}"), attribute)
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    if isinstance(made, typer.Typer):
        group.add_typer(made, name=name, short_help=about)
    else:
        group.command(name, cls=_Command, short_help=about)(made)
    group.callback()(lambda: None)  # with one, the group is no command itself
    return typer.main.get_group(group).commands[name]
