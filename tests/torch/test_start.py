"""The start program against plain Python: a script has the same output and the same exit status under both."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zipapp
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

import taskd_net

PROGRAM: Final = Path(taskd_net.__file__).parent / "torch" / "start.py"
WRITER: Final = PROGRAM.with_name("write_reason.py")
BEAT: Final = PROGRAM.with_name("beat.py")
RECORD: Final = PROGRAM.parents[1] / "base" / "rank_record.py"
SOON: Final = 60.0
PYTHON: Final = os.environ.get("TASKD_NET_TEST_PYTHON", sys.executable)
"""The Python of the script, which may be another one than that of the launcher."""


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and how Python is called.

    Args:
        source: of `train.py`.
        arguments: after Python's options.
        options: of Python.
        files: further ones, by name.
        stdin: input.
        variables: of the environment.
    """

    source: str = ""
    arguments: Sequence[str | bytes] = ("train.py",)
    options: Sequence[str] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)


SHOW_MAIN: Final = """
import sys
names = dict(globals())
for name in names:
    if name.startswith("__") and name != "__builtins__":
        value = names[name]
        print(name, type(value), value if isinstance(value, (str, type(None), dict)) else "")
print(list(names), __builtins__, sys.modules["__main__"].__dict__ is globals())
print(__spec__ and __spec__.name, __loader__ and getattr(__loader__, "path", None))
print(sys.argv, sys.path, sys.flags)
"""
SPAWN: Final = """
import multiprocessing, os, sys

class Box:
    pass

def work(number):
    return number + 1, __name__, Box.__module__, os.path.basename(sys.argv[0]), len(sys.argv)

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with context.Pool(1) as pool:
        print(pool.map(work, range(3)))
        pool.close()
        pool.join()  # otherwise the child may lose its output
"""
AT_THE_END: Final = """
import atexit, pickle, threading

class Box:
    def __init__(self):
        self.value = 7

def look():
    print(pickle.loads(pickle.dumps(Box())).value, flush=True)

def later():
    threading.main_thread().join()
    look()

atexit.register(look)
threading.Thread(target=later).start()
print("end")
"""
PACKAGE: Final = {
    "pkg/__init__.py": "import sys\nprint('package', sys.argv, hasattr(sys.modules['__main__'], '__file__'))",
    "pkg/__main__.py": "from . import other\n" + SHOW_MAIN,
    "pkg/other.py": "name = __name__",
    "pkg/mod.py": "from .other import name\nprint(name)\n" + SPAWN.format(method="spawn"),
}
CHAINED: Final = """
def inner():
    raise KeyError("one")

try:
    try:
        inner()
    except KeyError as error:
        raise ValueError("two") from error
finally:
    raise RuntimeError("three")
"""
FAILS: Final = "def step():\n    raise ValueError('boom')\n\nstep()\n"
HOOK: Final = """
import sys, traceback

def hook(kind, error, part):
    print(kind, error, error.__context__, error.__traceback__ is part, sys.exc_info(), sys.last_value is error)
    traceback.print_tb(part)
    {more}

sys.excepthook = hook
"""
THREADS: Final = """
import sys, threading

def fails():
    raise ValueError("in a thread")

print(threading.excepthook is threading.__excepthook__)
for target in (fails, lambda: sys.exit(5)):
    thread = threading.Thread(target=target, name="reader")
    thread.start()
    thread.join()
"""
END: Final = """
import threading, time

class Box:
    def __del__(self):
        print("deleted", flush=True)

box = Box()
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
"""
FORK: Final = """
import os, sys
sys.stdout.flush()
child = os.fork()
if child == 0:
    {child}
_, status = os.waitpid(child, 0)
print("status", status)
"""
DATA: Final = """
import dataclasses, doctest, inspect, linecache, pickle, sys, typing, unittest

@dataclasses.dataclass
class Box:
    value: "int"
    others: "list[Box]"

class Pair(typing.NamedTuple):
    left: int

def double(number):
    '''
    >>> double(2)
    4
    '''
    return 2 * number

print(typing.get_type_hints(Box), Box(1, []), pickle.loads(pickle.dumps(Pair(1))))
print(inspect.getsource(double), inspect.getsourcefile(double), inspect.getmodule(double).__name__)
print(linecache.getline(__file__, 4), doctest.testmod())
import __main__
print(__main__.Box is Box)
"""
OVERWRITES: Final = """
import builtins, os, sys
open = print_ = Exception = BaseException = isinstance = type = len = exec = compile = None
run = keep = show = prepared = OWN = ERROR_FILE = PID = __file__ = __name__ = None
for name in ("open", "isinstance", "getattr", "type", "str", "compile", "globals"):
    setattr(builtins, name, None)
raise ValueError("boom")
"""
EXECUTOR: Final = """
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        print(pool.submit(len, "abc").result())
        pool.submit(divmod, 1, 0).result()
"""
AGAIN: Final = """
import os, sys
print({}, flush=True)
if "again" not in sys.argv:
    os.execv(sys.executable, {})
"""
COLLECT: Final = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--collect-only", "test_it.py")

CASES: Final = {
    "main-module": Case(SHOW_MAIN, ["train.py", "--lr", "0.1", "", "-m", "-"]),
    "docstring": Case("'''Of the script.'''\nx: int = 1\nprint(__doc__, __annotations__)"),
    "folder-of-the-script": Case(
        "", ["a/b/train.py"], files={"a/b/train.py": "import near" + SHOW_MAIN, "a/b/near.py": ""}
    ),
    "dot": Case(SHOW_MAIN, ["./train.py"]),
    "dots": Case(SHOW_MAIN, ["../here/.//train.py"]),
    "symlink": Case("", ["link.py"], files={"a/real.py": SHOW_MAIN, "link.py": "-> a/real.py"}),
    "symlink-of-a-symlink": Case(
        "", ["b/link.py"], files={"a/real.py": SHOW_MAIN, "l.py": "-> a/real.py", "b/link.py": "-> ../l.py"}
    ),
    "safe-path": Case(SHOW_MAIN, options=["-P"]),
    "safe-path-by-variable": Case(SHOW_MAIN, variables={"PYTHONSAFEPATH": "1"}),
    "isolated": Case(SHOW_MAIN, options=["-I"]),
    "no-site": Case(SHOW_MAIN, options=["-S"]),
    "optimised": Case("assert False\nprint(__debug__)", options=["-O"]),
    "developer-mode": Case(SHOW_MAIN + "\nopen(__file__)\n" + FAILS, options=["-X", "dev"]),
    "warnings-are-errors": Case("x = 1 is 1", options=["-W", "error"]),
    "warning": Case("import warnings\nwarnings.warn('old', DeprecationWarning)\nx = 1 is 1\nprint(warnings.filters)"),
    "cookie": Case("# coding: latin-1\nprint(ascii('\u00c3\u00a9'))"),
    "future": Case("from __future__ import annotations\ndef f(x: never): pass\nprint(f.__annotations__)"),
    "no-future": Case("def f(x: int): pass\nprint(f.__annotations__)"),
    "shebang": Case("#!/usr/bin/env python\nprint(1)"),
    "carriage-returns": Case("print(1)\r\nprint('''a\r\nb''' == 'a\\nb')\r\n"),
    "name-without-encoding": Case(
        "", [b"tr\xe9.py"], files={"tr\udce9.py": "import sys\nprint(ascii(sys.argv), ascii(__file__))"}
    ),
    "no-suffix": Case("", ["train"], files={"train": SHOW_MAIN}),
    "data": Case(DATA),
    "pickle-at-the-end": Case(AT_THE_END),
    "spawn": Case(SPAWN.format(method="spawn"), ["train.py", "--lr"]),
    "forkserver": Case(SPAWN.format(method="forkserver")),
    "fork": Case(SPAWN.format(method="fork")),
    "exception-in-a-forked-child": Case(FORK.format(child="raise ValueError('child')")),
    "exit-of-a-forked-child": Case(FORK.format(child="sys.exit('bye')")),
    "module-of-a-package": Case("", ["-m", "pkg", "--lr"], files=PACKAGE),
    "module-with-spawn": Case("", ["-m", "pkg.mod", "x"], files=PACKAGE),
    "module-safe-path": Case("", ["-m", "pkg"], ["-P"], files=PACKAGE, variables={"PYTHONPATH": "."}),
    "module-that-fails": Case(FAILS, ["-m", "train"]),
    "module-that-is-missing": Case("", ["-m", "nope.nothing"]),
    "module-with-an-error-in-its-package": Case(
        "", ["-m", "pkg.mod"], files={"pkg/__init__.py": FAILS, "pkg/mod.py": ""}
    ),
    "pickle-in-a-module": Case(AT_THE_END, ["-m", "train"]),
    "folder": Case(
        "", ["folder", "x"], files={"folder/__main__.py": "import near\n" + SHOW_MAIN, "folder/near.py": ""}
    ),
    "folder-safe-path": Case("", ["folder"], ["-P"], files={"folder/__main__.py": SHOW_MAIN}),
    "folder-without-main": Case("", ["folder"], files={"folder/near.py": ""}),
    "folder-that-fails": Case("", ["folder/"], files={"folder/__main__.py": FAILS}),
    "zip-file": Case("", ["app.pyz", "x"], files={"app/__main__.py": SHOW_MAIN + FAILS}),
    "compiled": Case(SHOW_MAIN + FAILS, ["train.pyc"]),
    "compiled-without-suffix": Case(SHOW_MAIN, ["compiled"]),
    "compiled-by-another-python": Case("", ["old.pyc"], files={"old.pyc": "\x00\x00\r\n" + 12 * "\x00"}),
    "pytest-inside": Case(
        f"import pytest, sys\nsys.exit(pytest.main({COLLECT}))", files={"test_it.py": "def test_one(): pass"}
    ),
    "module-pytest": Case(
        "",
        ["-m", "pytest", *COLLECT],
        files={"test_it.py": "def test_one(): pass"},
    ),
    "module-coverage": Case("print(__name__)\n" + FAILS, ["-m", "coverage", "run", "train.py"]),
    "module-profile": Case(
        SHOW_MAIN.partition("print(sys.argv")[0] + "print(sys.argv)", ["-m", "cProfile", "-o", "profile", "train.py"]
    ),
    "module-runpy": Case("print(__name__, __import__('sys').argv)", ["-m", "runpy", "train", "x"]),
    "module-pdb": Case("x = 1\nprint(x)", ["-m", "pdb", "train.py"], stdin="next\np x\nc\nq\n"),
    "module-unittest": Case("", ["-m", "unittest", "-q", "nope"]),
    "breakpoint": Case("x = 1\nbreakpoint()\nprint(x)", stdin="p x\nl\nc\n"),
    "arguments-that-are-wrong": Case(
        "import argparse\nparser = argparse.ArgumentParser()\nparser.parse_args()", ["train.py", "--lr"]
    ),
    "exception": Case(FAILS),
    "exception-without-a-module": Case(
        "", ["train.py"], files={"traceback.py": "1 / 0", "json.py": "1 / 0", "train.py": FAILS}
    ),
    "exception-group": Case("raise ExceptionGroup('both', [ValueError(1), TypeError(2)])"),
    "exception-with-notes": Case("error = ValueError(1)\nerror.add_note('a note')\nraise error"),
    "exception-that-is-no-exception": Case("class Stop(BaseException): pass\nraise Stop('here')"),
    "exception-without-text": Case("class Odd(Exception):\n    def __str__(self): 1 / 0\nraise Odd"),
    "exception-at-the-end": Case("import atexit\natexit.register(lambda: 1 / 0)"),
    "exceptions-in-a-chain": Case(CHAINED),
    "syntax-error": Case("print(1)\nx = = 2\n"),
    "syntax-error-of-an-import": Case("import broken", files={"broken.py": "x = = 2"}),
    "indentation": Case("if True:\nx = 1"),
    "no-utf-8": Case("x = '\udce9'"),
    "null-byte": Case("x = '\0'"),
    "unknown-cookie": Case("# coding: nope\nx = 1"),
    "hook": Case(HOOK.format(more="") + FAILS),
    "hook-that-breaks": Case(HOOK.format(more="raise KeyError('hook')") + FAILS),
    "hook-that-exits": Case(HOOK.format(more="sys.exit(9)") + FAILS),
    "hook-that-is-gone": Case("import sys\ndel sys.excepthook\n" + FAILS),
    "hook-that-is-nothing": Case("import sys\nsys.excepthook = None\n" + FAILS),
    "hook-and-interrupt": Case(HOOK.format(more="") + "raise KeyboardInterrupt"),
    "hook-is-pythons": Case("import sys\nprint(sys.excepthook is sys.__excepthook__)"),
    "exit-0": Case("import sys\nsys.exit()"),
    "exit-3": Case("import sys\nsys.exit(3)"),
    "exit-256": Case("import sys\nsys.exit(256)"),
    "exit-text": Case("import sys\nsys.exit('no data')"),
    "exit-within-an-error": Case("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise SystemExit(4)"),
    "exit-at-once": Case("import os\nos._exit(7)"),
    "interrupt": Case("raise KeyboardInterrupt"),
    "interrupt-by-signal": Case("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(9)"),
    "interrupt-in-a-module": Case("raise KeyboardInterrupt", ["-m", "train"]),
    "end-by-signal": Case("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"),
    "abort": Case("import os\nos.abort()"),
    "segmentation-fault": Case("import ctypes\nctypes.string_at(0)"),
    "threads": Case(THREADS),
    "thread-with-a-hook": Case(
        "import threading\nthreading.excepthook = lambda args: print(args.exc_value)\n" + THREADS
    ),
    "objects-at-the-end": Case(END),
    "objects-after-an-error": Case(END + FAILS),
    "closed-output": Case("import sys\nprint(1)\nsys.stdout.close()\nsys.stderr.close()\n1 / 0"),
    "names-are-overwritten": Case(OVERWRITES),
    "execute-again": Case(AGAIN.format("sys.argv", "[sys.executable, *sys.argv, 'again']"), ["train.py", "x"]),
    "coroutine": Case("import asyncio\nasync def main():\n    raise ValueError('in a task')\nasyncio.run(main())"),
    "executor": Case(EXECUTOR),
    "missing-script": Case("", ["nope.py"]),
    "missing-absolute-script": Case("", ["/nope/\x1b.py"]),
}


def run(folder: Path, case: Case, *before: str | Path, **variables: str) -> tuple[int, bytes, bytes]:
    """Run a case. Returns the exit status, the output and the errors, without addresses and times."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TORCHELASTIC", "COVERAGE"))
    }
    always = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "80"}
    done = subprocess.run(
        [PYTHON, "-u", *case.options, *before, *case.arguments],
        cwd=folder,
        env=kept | always | {**case.variables, **variables},
        input=case.stdin.encode(),
        capture_output=True,
        timeout=SOON,
        check=False,
    )
    return done.returncode, CHANGES.sub(b"_", done.stdout), CHANGES.sub(b"_", done.stderr)


CHANGES: Final = re.compile(rb"0x[0-9a-f]+|in [0-9.]+s|refcount : \d+")


def written(folder: Path, case: Case) -> Path:
    """Write the files of a case. Returns the folder to run it in."""
    here = folder / "here"
    for name, text in {"train.py": case.source, **case.files}.items():
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("-> "):
            path.symlink_to(text[3:])
        else:
            encoding = "latin-1" if "coding: latin" in text else "utf-8"
            path.write_bytes(text.encode(encoding, "surrogateescape"))
    if "app.pyz" in case.arguments:
        zipapp.create_archive(here / "app", here / "app.pyz")
    for name in {"train.pyc", "compiled"} & {*map(str, case.arguments)}:
        compiles = "import py_compile, sys; py_compile.compile('train.py', sys.argv[1])"
        subprocess.run([PYTHON, "-c", compiles, name], cwd=here, check=True)
    return here


@pytest.mark.parametrize("name", CASES)
def test_script_does_the_same_as_under_python(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    here = written(tmp_path, case)
    ours = run(here, case, PROGRAM, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    assert ours == run(here, case)


@pytest.mark.parametrize("name", ["main-module", "exception", "exit-3", "threads", "interrupt"])
def test_script_does_the_same_without_an_error_file(name: str, tmp_path: Path) -> None:
    """torch sets none with `--log-dir /dev/null`."""
    here = written(tmp_path, CASES[name])
    assert run(here, CASES[name], PROGRAM, TORCHELASTIC_ERROR_FILE="") == run(here, CASES[name])


def test_script_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print(__file__)")
    gone = tmp_path / "gone"
    shell = f'mkdir {gone}; cd {gone}; rmdir {gone}; exec "$@"'
    said = [
        subprocess.run(
            ["/bin/sh", "-c", shell, "sh", PYTHON, *before, *arguments], capture_output=True, timeout=SOON, check=False
        )
        for before in ([], [PROGRAM])
        for arguments in ([script], ["train.py"])
    ]
    plain, ours = said[:2], said[2:]
    assert [(each.returncode, each.stdout, each.stderr) for each in ours] == [
        (each.returncode, each.stdout, each.stderr) for each in plain
    ]
    assert plain[0].stdout and not plain[1].stdout


DIFFERENCES: Final = {
    "frames-below-the-script": ("import inspect\nprint(len(inspect.stack()))", "1", "3"),
    "outermost-frame": (
        "import inspect, os\nprint(os.path.basename(inspect.stack()[-1].filename))",
        "train.py",
        "start.py",
    ),
    "depth-of-recursion": (
        """
def depth(error):
    part, count = error.__traceback__, 0
    while part is not None:
        part, count = part.tb_next, count + 1
    return count

def recurse():
    recurse()

try:
    recurse()
except RecursionError as error:
    print(depth(error))
""",
        "1000",
        "997",
    ),
    "warning-of-a-caller-above": (
        """
import os, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    warnings.warn("old", stacklevel=2)
print(os.path.basename(caught[0].filename))
""",
        "sys",
        "start.py",
    ),
    "original-arguments": (
        "import os, sys\nprint(*map(os.path.basename, sys.orig_argv[1:]))",
        "-u train.py",
        "-u start.py train.py",
    ),
    "process-list": (
        "print(*[part.rpartition('/')[2] for part in open('/proc/self/cmdline').read().split(chr(0))[1:-1]])",
        "-u train.py",
        "-u start.py train.py",
    ),
    "faulthandler": ("import faulthandler\nprint(faulthandler.is_enabled())", "False", "True"),
    "exception-hook-at-the-end-after-an-interrupt": (
        "import atexit, sys\natexit.register(lambda: print(sys.excepthook.__module__))\nraise KeyboardInterrupt",
        "sys",
        "start",
    ),
}
"""Scripts that show what is not the same, with the output under Python and under the start program."""


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions count recursion otherwise")
@pytest.mark.parametrize("name", DIFFERENCES)
def test_differences_that_remain(name: str, tmp_path: Path) -> None:
    """The list of docs/training.md."""
    source, plain, ours = DIFFERENCES[name]
    here = written(tmp_path, case := Case(source))
    said = [
        run(here, case, *program, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))[1].decode().strip()
        for program in ([], [PROGRAM])
    ]
    assert said == [plain, ours]


def test_arguments_that_execute_a_script_again_decide_whether_it_is_started_so_again(tmp_path: Path) -> None:
    for arguments, expected in (
        ("[sys.executable, *sys.argv, 'again']", ["4", "3"]),
        ("[*sys.orig_argv, 'again']", ["4", "5"]),
    ):
        folder = tmp_path / str(expected[1])
        here = written(folder, case := Case(AGAIN.format("len(sys.orig_argv)", arguments)))
        assert run(here, case, PROGRAM)[1].decode().split() == expected


@pytest.mark.parametrize("program", [PROGRAM, WRITER, BEAT, RECORD])
def test_program_is_of_python_3_6(program: Path) -> None:
    ast.parse(program.read_text(), feature_version=(3, 6))


def test_program_imports_nothing_on_the_way_to_the_script(tmp_path: Path) -> None:
    """Beside modules that are part of the interpreter."""
    script = tmp_path / "train.py"
    script.write_text("import sys\nprint(*sorted(sys.modules))")
    case = Case("", [str(script)])
    before, after = (
        set(run(tmp_path, case, *program, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))[1].decode().split())
        for program in ([], [PROGRAM])
    )
    assert after - before <= {"faulthandler"}
