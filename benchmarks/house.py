"""The size and shape of the package's code, now and at an earlier version: figures to look at, not to pass.

    make house                          beside the commit that set version 0.2.0
    python -m benchmarks.house TREE     beside another checkout

A figure that would make the code worse, where it became smaller, stays as it is.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import checkout

VERSION: Final = "0.2.0"

LEFT_OUT: Final = (
    "**/wire/*_pb2.py",  # generated
    # Demos and stand-ins.
    "demo/**/*.py",
    "sim/**/*.py",
    "cli/clusterd_sim.py",
    "cli/simulate.py",
    # Import paths of earlier versions. Modules that serve those of TaskD and Elastic-Agent; `compat/` has them now.
    "moved.py",
    "**/api/elastic.py",
    "**/api/group_info.py",
    "**/api/run_log.py",
    "**/api/validators.py",
    "recover/elastic.py",
    "recover/stub.py",
    "torch/elastic.py",
)
"""Files that are no part of the figures, as patterns below the package."""

Figures = Mapping[str, str]
"""The figures of one checkout, by the name of their row."""


class Sources:
    """The modules of one checkout's package.

    Args:
        tree: the checkout.
    """

    def __init__(self, tree: Path) -> None:
        self._package = tree / "taskd_net"
        left_out = {path for pattern in LEFT_OUT for path in self._package.glob(pattern)}
        paths = (path for path in sorted(self._package.rglob("*.py")) if path not in left_out)
        self._texts = {path.relative_to(self._package): path.read_text() for path in paths}
        self._trees = {path: ast.parse(text) for path, text in self._texts.items()}

    def figures(self) -> Figures:
        """Count everything that the text of the modules tells."""
        lines = sum(map(logical_lines, self._texts.values()))
        imports = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in self._nodes())
        classes = Counter(node.name for node in self._nodes() if isinstance(node, ast.ClassDef))
        shared = sum(times > 1 for times in classes.values())
        tops = {path.parts[0] for path in self._texts} - {"__init__.py"}
        files = sum(name.endswith(".py") for name in tops)
        core, jobs = self._foreign_writes("core/"), self._foreign_writes("job/decide/", "jobs/")
        return {
            "logical lines": f"{lines:,}",
            "modules": f"{len(self._texts)}",
            "top level of the package: files + folders": f"{files} + {len(tops) - files}",
            "share of imports in logical lines": f"{imports / lines:.1%}",
            "foreign writes: core / jobs": f"{core} / {jobs}",
            "class names that several classes share": f"{shared}",
            "constants in files of limits": f"{self._limits()}",
        }

    def _nodes(self, *folders: str) -> Iterator[ast.AST]:
        for path, tree in self._trees.items():
            if path.as_posix().startswith(folders or ""):
                yield from ast.walk(tree)

    def _foreign_writes(self, *folders: str) -> int:
        return sum(map(foreign_writes, self._nodes(*folders)))

    def _limits(self) -> int:
        files = (tree for path, tree in self._trees.items() if path.name.endswith("limits.py"))
        return sum(_is_constant(node) for tree in files for node in tree.body)


def logical_lines(text: str) -> int:
    """The number of logical lines of a module, without docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = sum(token.type == tokenize.NEWLINE for token in tokens)
    expressions = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr))
    return lines - sum(isinstance(value, ast.Constant) and isinstance(value.value, str) for value in expressions)


def foreign_writes(node: ast.AST) -> int:
    """The number of attributes of other objects than `self` and `cls` that a statement assigns to."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
            targets = [target]
        case _:
            return 0
    flat = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return sum(isinstance(each, ast.Attribute) and not _is_own(each.value) for each in flat)


def _is_own(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _is_constant(node: ast.stmt) -> bool:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name.isupper()
    return False


def _running(tree: Path) -> Figures:
    """The figures that only the running package tells; "–" with the reason, if it cannot."""
    settings = "settings"
    walks = {"202": "walk of a 202 until its commands: calls / modules", "code": "the same for a fault code"}
    try:
        rows = {settings: checkout.run(tree, "benchmarks.house", "--settings").strip()}
    except subprocess.CalledProcessError as error:
        rows = {settings: _absent(error)}
    try:
        taken = json.loads(checkout.run(tree, "benchmarks.job_walk"))
        rows |= {row: f"{taken[walk][0]:,} / {taken[walk][1]}" for walk, row in walks.items()}
    except subprocess.CalledProcessError as error:
        rows |= dict.fromkeys(walks.values(), _absent(error))
    return rows


def _absent(error: subprocess.CalledProcessError) -> str:
    return f"– ({error.stderr.strip().splitlines()[-1]})"


def figures(tree: Path) -> Figures:
    """All figures of a checkout."""
    return {**Sources(tree).figures(), **_running(tree)}


def _commit_of(version: str) -> str:
    """The commit that set a version."""
    wanted = f'__version__ = "{version}"'
    command = ["git", "log", "--reverse", "--format=%h", f"-S{wanted}", "--", "taskd_net/version.py"]
    found = subprocess.run(command, cwd=checkout.HERE, capture_output=True, text=True, check=True).stdout.split()
    if not found:
        raise SystemExit(f"git's history has no commit that set version {version}; name a checkout to compare with")
    return found[0]


@contextmanager
def _earlier(tree: Path | None) -> Iterator[tuple[str, Path]]:
    """The name and folder of the checkout to compare with."""
    if tree is not None:
        yield str(tree), tree
        return
    commit = _commit_of(VERSION)
    with tempfile.TemporaryDirectory() as folder:
        checkout.extract(commit, Path(folder))
        yield f"{VERSION} ({commit})", Path(folder)


def show(columns: Sequence[tuple[str, Figures]]) -> Table:
    """The table: a row for each figure, a column for each checkout."""
    table = Table("without demos, stand-ins, aliases and generated code")
    for name, _ in columns:
        table.add_column(name, justify="right")
    for row in columns[0][1]:
        table.add_row(row, *(each[row] for _, each in columns))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", nargs="?", type=Path, help=f"another checkout, in place of version {VERSION}")
    parser.add_argument("--settings", action="store_true", help="print the number of settings of this package alone")
    arguments = parser.parse_args()
    if arguments.settings:
        from taskd_net.cli.settings import SETTINGS

        print(len(SETTINGS))
        return
    with _earlier(arguments.tree) as (name, tree):
        columns = [(name, figures(tree)), ("this checkout", figures(checkout.HERE))]
    Console().print(show(columns))


if __name__ == "__main__":
    main()
