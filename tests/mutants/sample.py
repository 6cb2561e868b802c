"""Mutants of the code that decides and carries: every place where one can be made, and a seeded sample of them.

Cosmic Ray's operators make the changes, and `RemoveStatement`, which it does not have. Left out are changes that
no test can see (annotations, assertions, decorators, log lines) and those that end in a TypeError when the line runs.

A mutant's number depends on its function, its line's text and its operator, not on where the line stands. So a sample
keeps its members while other code moves.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

ROOMS: Final = tuple(f"taskd_net/{room}" for room in ("core", "links", "observe", "tls", "transport"))

Span = tuple[tuple[int, int], tuple[int, int]]

# By kind: at one place at most one mutant of a kind is made, as ten wrong comparisons in one place are one test's work.
_OPERATORS: Final = {
    "comparison": [
        f"core/ReplaceComparisonOperator_{pair}"
        for pair in (
            *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
            *("Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
        )
    ],
    "arithmetic": [
        f"core/ReplaceBinaryOperator_{pair}"
        for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul")
    ],
    "sign": ["core/ReplaceUnaryOperator_USub_UAdd"],
    "negation": ["core/ReplaceUnaryOperator_Delete_Not", "core/AddNot"],
    "boolean": ["core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"],
    "connective": ["core/ReplaceAndWithOr", "core/ReplaceOrWithAnd"],
    "loop": ["core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak", "core/ZeroIterationForLoop"],
    "exception": ["core/ExceptionReplacer"],
    "number": ["core/NumberReplacer"],
    "statement": ["RemoveStatement"],
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module.

    Args:
        key: the mutant's number, in hexadecimal; the same as long as its function and line are.
        module: the file, below the checkout.
        lines: the lines of the changed statement, as a test has to reach one of them.
        kind: the kind of change.
        source: the whole module with the change in it.
        before, after: the lines that differ.
    """

    key: str
    module: str
    lines: range
    kind: str
    source: str
    before: str
    after: str


class RemoveStatement:
    """An operator for Cosmic Ray: leave out a call whose result nobody takes, or an assignment to an attribute."""

    def mutation_positions(self, node: Any) -> Iterator[Span]:
        """The places in this node where the operator applies: none, or the node itself."""
        if node.type == "simple_stmt" and self._removable(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Put `pass` in the place of the statement."""
        statement = node.children[0]
        (node.children[0],) = get_ast("pass").children[:1]
        node.children[0].prefix = statement.get_first_leaf().prefix
        return node

    def _removable(self, statement: Any) -> bool:
        code = statement.get_code(include_prefix=False)
        try:
            (parsed,) = ast.parse(code).body
        except (SyntaxError, ValueError):
            return False
        match parsed:
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
                return True
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
                return True
            case _:
                return False


def sample(root: Path, seed: int, size: int) -> list[Mutant]:
    """The mutants that a seed picks in a tree, in the order of their numbers.

    Args:
        root: the checkout.
        seed: another one picks others.
        size: how many.
    """
    changes = [
        change for room in ROOMS for path in sorted((root / room).glob("*.py")) for change in _of(root, path, seed)
    ]
    mutants = (change.made() for change in sorted(changes, key=lambda change: change.key))
    return list(islice((mutant for mutant in mutants if mutant is not None), size))


@dataclass(frozen=True, slots=True)
class _Change:
    """A place and what may be done there; what comes of it is made when it is picked."""

    key: str
    module: str
    source: str
    lines: range
    kind: str
    operator: str
    occurrence: int

    def made(self) -> Mutant | None:
        """The mutant; None where the operator cannot do it, or what it makes is not Python."""
        try:
            mutated = mutate_code(self.source, _operator(self.operator), self.occurrence)
            compile(mutated, self.module, "exec")
        except (SyntaxError, AttributeError):  # its operator for exceptions knows no dotted names
            return None
        differs = list(difflib.unified_diff(self.source.splitlines(), mutated.splitlines(), n=0, lineterm=""))[3:]
        before = "\n".join(line[1:].strip() for line in differs if line.startswith("-"))
        after = "\n".join(line[1:].strip() for line in differs if line.startswith("+"))
        return Mutant(self.key, self.module, self.lines, self.kind, mutated, before, after)


def _of(root: Path, path: Path, seed: int) -> list[_Change]:
    """All changes of a module."""
    module = path.relative_to(root).as_posix()
    source = path.read_text()
    text = source.splitlines()
    parsed = ast.parse(source)
    functions = _functions(parsed)
    unseen = list(_unseen(parsed))
    nodes = list(ast_nodes(get_ast(source)))
    chosen: dict[tuple[str, Span], _Change] = {}
    twins: Counter[tuple[str, ...]] = Counter()
    for kind, names in _OPERATORS.items():
        for name in names:
            operator = _operator(name)
            places = ((node, place) for node in nodes for place in operator.mutation_positions(node))
            for occurrence, (node, place) in enumerate(places):
                (line, _), _ = place
                function = functions.get(line, "")
                # A constructor that leaves out an attribute fails in every test: that says nothing about any of them.
                if kind == "statement" and function.endswith(".__init__"):
                    continue
                # The marks between parameters, `*` and `/`, look like operators.
                if any(begin <= place[0] < end for begin, end in unseen) or node.parent.type == "parameters":
                    continue
                about = (str(seed), module, function, name, text[line - 1].strip())
                twins[about] += 1
                key = hashlib.sha256("\n".join((*about, str(twins[about]))).encode()).hexdigest()[:12]
                if (kind, place) not in chosen or key < chosen[kind, place].key:
                    lines = _statement(parsed, line)
                    chosen[kind, place] = _Change(key, module, source, lines, kind, name, occurrence)
    return list(chosen.values())


def _operator(name: str) -> Any:
    return RemoveStatement() if name == "RemoveStatement" else get_operator(name)()


def _span(node: ast.AST) -> Span:
    """The place of a node in the text. The columns are those of ASCII text, like the package's code."""
    assert isinstance(node, ast.stmt | ast.expr)
    assert node.end_lineno is not None and node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _unseen(parsed: ast.Module) -> Iterator[Span]:
    """The places where a change shows in no test, or says nothing about one."""
    for node in ast.walk(parsed):
        match node:
            case ast.AnnAssign(annotation=annotation):
                yield _span(annotation)
            case ast.arg(annotation=ast.expr() as annotation):
                yield _span(annotation)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield from map(_span, node.decorator_list)
                if not isinstance(node, ast.ClassDef) and node.returns is not None:
                    yield _span(node.returns)
            case ast.Assert():
                yield _span(node)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield _span(node)
            case ast.Call(func=ast.Attribute(value=value)) if ast.unparse(value).rpartition(".")[2] in ("log", "_log"):
                yield _span(node)
            case _:
                pass


def _functions(parsed: ast.Module) -> dict[int, str]:
    """The function or class that each line belongs to, by its name."""
    found: dict[int, str] = {}
    # From the outside in, as the innermost is the last to name its lines.
    for node in ast.walk(parsed):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            outer = found.get(node.lineno, "")
            assert node.end_lineno is not None
            found.update(dict.fromkeys(range(node.lineno, node.end_lineno + 1), f"{outer}.{node.name}"))
    return found


def _statement(parsed: ast.Module, line: int) -> range:
    """The lines of the innermost statement around a line, without its body."""
    innermost = range(line, line + 1)
    begin = 0
    for node in ast.walk(parsed):
        if isinstance(node, ast.stmt) and begin <= node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno
            if end is not None and line <= max(end, node.lineno):
                begin, innermost = node.lineno, range(node.lineno, max(end, node.lineno) + 1)
    return innermost
