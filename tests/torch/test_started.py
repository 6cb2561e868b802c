"""The start program in the launcher: where it is put in, and scripts that use torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from taskd_net.torch import start
from taskd_net.torch.context import by_start_program
from tests.torch.cluster import launched
from tests.torch.test_start import PROGRAM, Case, written
from tests.torch.test_start import run as run_case

SHOW = "import os, sys\nprint(*map(os.path.basename, sys.orig_argv), flush=True)\n"

FILE = start.__file__


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-u", "train.py", "--lr", "1"), ("-u", FILE, "train.py", "--lr", "1")),
        (("-u", "-m", "pkg.train", "-x"), ("-u", FILE, "-m", "pkg.train", "-x")),
        (("-u", "folder/"), ("-u", FILE, "folder/")),
        (("-u", "-", "x"), ("-u", "-", "x")),
        (("-u", "-c", "print(1)"), ("-u", "-c", "print(1)")),
        (("-u",), ("-u",)),
        (("train.py",), ("train.py",)),
        ((), ()),
    ],
)
def test_arguments_of_python(arguments: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert by_start_program(arguments) == expected


@pytest.mark.torch_range
@pytest.mark.parametrize(
    ("arguments", "stdin", "expected"),
    [
        (["train.py", "--lr", "1"], "", "python -u start.py train.py --lr 1"),
        (["-m", "train"], "", "python -u start.py -m train"),
        (["--no-python", sys.executable, "-u", "train.py"], "", "python -u train.py"),
        (["-"], SHOW, "python -u -"),
    ],
    ids=["script", "module", "no-python", "standard-input"],
)
def test_launcher_starts_scripts_by_it(arguments: list[str], stdin: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHOW)
    done = launched(tmp_path, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout.splitlines()


COMPILED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1

@torch.jit.script
def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x

print(torch.compile(Model(), backend="eager")(torch.ones(2)))
print(double(torch.ones(2)), torch.jit.script(Model())(torch.ones(1)))
"""
RECORDED = """
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    raise ValueError("boom")

main()
"""
LOADED = """
import torch
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, at):
        return at

if __name__ == "__main__":
    for context in ("fork", "spawn"):
        print([batch.tolist() for batch in DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context=context)])
"""


@pytest.mark.parametrize("source", [COMPILED, RECORDED, LOADED], ids=["compiled", "recorded", "data-loader"])
def test_script_with_torch_does_the_same_as_under_python(source: str, tmp_path: Path) -> None:
    here = written(tmp_path, case := Case(source, variables={"PYTHONWARNINGS": "ignore"}))
    ours, plain = (
        run_case(here, case, *program, TORCHELASTIC_ERROR_FILE=str(tmp_path / f"{len(program)}.json"))
        for program in ([PROGRAM], [])
    )
    assert ours == plain
