"""Where templates are compiled and rendered: away from Python's own objects, and with small sums only."""

import re
from collections.abc import Sized
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.meta import TrackingCodeGenerator
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_BITS: Final = 4_096
"""How many bits a power may have."""

_WIDTH: Final = re.compile(r"%(?:\(.*?\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d+))?")
_ANY: Final = 1 << 62


@pass_context
def _as_it_is(_context: Context, value: Any) -> Any:
    return value


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's, without sums that would fill the memory: neither when a template is loaded nor later.

    Jinja2 works out what is constant when it compiles a template: ``{{ "x" * 300000000 }}`` took 1.2 GiB
    before anybody could ask how long the result is. Thread-safe, as Jinja2's own is.
    """

    intercepted_binops = frozenset({"*", "**", "%"})  # which Jinja2 then does not work out beforehand

    def __init__(self, largest: int) -> None:
        """Make it.

        Args:
            largest: How long a text or a list may be that ``*`` or ``%`` makes.
        """
        super().__init__(
            autoescape=False,
            undefined=StrictUndefined,
            keep_trailing_newline=True,
            optimized=False,
            finalize=_as_it_is,  # as it wants a context, nothing is filtered at compile time either
        )
        self._largest = largest

    def check_sums(self, parsed: nodes.Template) -> None:
        """Return if no sum of constants in a template is too large.

        Raises:
            TemplateSyntaxError: one is.
        """
        for node in parsed.find_all(nodes.BinExpr):
            if node.operator not in self.intercepted_binops:
                continue
            try:
                self._measure(node.operator, node.left.as_const(), node.right.as_const())
            except nodes.Impossible:
                continue
            except SecurityError as error:
                raise TemplateSyntaxError(str(error), node.lineno) from error

    def undeclared_in(self, parsed: nodes.Template) -> set[str]:
        """Return the names that a template takes for granted."""
        generator = TrackingCodeGenerator(self)  # `find_undeclared_variables`, but for:
        generator.optimizer = None
        generator.visit(parsed)
        return generator.undeclared_identifiers - self.globals.keys()

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Return the result of ``*``, ``**`` or ``%``.

        Raises:
            SecurityError: it would be too large.
        """
        self._measure(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _measure(self, operator: str, left: Any, right: Any) -> None:
        match operator, left, right:
            case "*", Sized(), int():
                self._limit(len(left) * right)
            case "*", int(), Sized():
                self._limit(left * len(right))
            case "**", int(), int() if left.bit_length() * right > _BITS:
                raise SecurityError(f"a power has more than {_BITS} bits")
            case "%", str() | bytes(), _:
                text = left if isinstance(left, str) else left.decode("latin-1")
                self._limit(sum(_numbers(text, right)))

    def _limit(self, length: int) -> None:
        if length > self._largest:
            raise SecurityError(f"a sum makes more than {self._largest} characters or items")


def _numbers(form: str, values: Any) -> list[int]:
    """Return the widths that a ``%`` format asks for; ``*`` takes them from its values."""
    asked = [number for pair in _WIDTH.findall(form) for number in pair if number]
    widths = [int(number) if len(number) < 10 else _ANY for number in asked if number != "*"]
    if "*" in asked:
        given = values if isinstance(values, tuple) else (values,)
        widths += [abs(value) for value in given if isinstance(value, int)]
    return widths
