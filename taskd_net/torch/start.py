"""The start program: `python start.py SCRIPT ...` does what `python SCRIPT ...` does, and keeps the script's failure.

The script is `__main__`, in the real main module. `-m MODULE`, a folder and a zip file work, too.

- It runs by its path and imports nothing of this package, whose import takes longer than Python's own start. An older
  Python may run it (`PYTHON_EXEC`), so its syntax is that of Python 3.6.
- The script may overwrite every name of the main module. So the functions here get globals of their own, which have
  the built-in functions, too.
- `write_reason.py` beside it writes the file of a failure. It is read at a failure only.
- `beat.py` beside it beats in a thread. It is read once the script has imported torch's groups.
"""

import os
import sys

TYPE_CHECKING = False  # `typing` costs half of Python's own start
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any


def folder_here() -> "list[str]":
    """The current folder; empty where it is gone."""
    try:
        return [os.getcwd()]
    except OSError:
        return []


ERROR_FILE = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
if ERROR_FILE:
    ERROR_FILE = os.path.join(*folder_here(), ERROR_FILE)
PID = os.getpid()
STACKS = os.environ.get("TASKD_NET_STACKS", "")
RECORD = os.environ.get("TASKD_NET_RANK_RECORD", "")
GROUPS = "torch.distributed.distributed_c10d"
BEGUN = []  # type: list[str]
"""The module that the beat has begun with."""
BESIDE = (".own", ".thread", ".fault")
"""Ends of the names of files beside it: ours where torch's `@record` was first, a thread's, the stack at a signal."""


def run(main: "dict[str, Any]") -> None:
    """Run the script of `sys.argv`, and end as Python would.

    Args:
        main: the names of the main module.
    """
    watch_threads_and_signals()
    offer_stacks()
    await_torch()
    failed: BaseException | None = None
    work = None
    try:
        work = prepared(main)
        if work is not None:
            work[0](*work[1])
    except SystemExit as end:
        if end.code is not None and (not isinstance(end.code, int) or end.code & 0xFF):
            keep(end, script_part(end))
        raise
    except BaseException as error:  # noqa: BLE001 - Python shows any
        failed = error
    if failed is not None:
        # A hook of the script sees no frame of this program, and no exception in handling.
        failed.__traceback__ = script_part(failed)
        keep(failed, failed.__traceback__)
        show(failed)
        if isinstance(failed, KeyboardInterrupt):  # Python then ends by SIGINT
            sys.excepthook = lambda *_: None
            raise failed
        sys.exit(1)
    if work is None:
        sys.exit(2)


def prepared(main: "dict[str, Any]") -> "tuple[Callable[..., object], tuple[object, ...]] | None":
    """Make the main module, `sys.argv` and `sys.path` those of the script.

    Returns:
        The function that runs the script, with its arguments. None: the script cannot be read, which has been said.
    """
    finders: Any = sys.modules["_frozen_importlib_external"]
    python = [*getattr(sys, "orig_argv", [sys.executable, *sys.argv])[: -len(sys.argv)], *sys.argv[1:]]
    del sys.argv[0]
    for name in [name for name in main if name[:2] != "__"]:
        del main[name]
    main["__doc__"] = None
    safe_path = sys.flags.isolated or getattr(sys.flags, "safe_path", False)
    if not safe_path:
        del sys.path[0]  # the folder of this program
    script = sys.argv[0]
    if script == "-m":
        if not safe_path:
            sys.path[:0] = folder_here()
        return module(main, sys.argv.pop(1))
    file = script
    if sys.version_info >= (3, 9) and script[0] != "/":
        file = "/".join([*folder_here(), script])  # not normalised
    for hook in sys.path_hooks:
        try:
            hook(file)
        except ImportError:
            continue
        sys.path.insert(0, file)  # a folder or a zip file
        return module(main, "__main__", False)
    if not safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(file) if file[0] == "/" else file))
    try:
        with open(file, "rb") as opened:
            source = opened.read()
    except OSError as error:
        sys.stderr.write(f"{python[0]}: can't open file {file!r}: [Errno {error.errno}] {error.strerror}\n")
        keep(error, None)
        return None
    compiled = file.endswith(".pyc") or source[:2] == finders.MAGIC_NUMBER[:2]
    loader = finders.SourcelessFileLoader if compiled else finders.SourceFileLoader
    main.update(__file__=file, __cached__=None, __loader__=loader("__main__", file))
    if compiled:
        import marshal

        if source[:4] != finders.MAGIC_NUMBER:
            raise RuntimeError("Bad magic number in .pyc file")
        return exec, (marshal.loads(source[16 if sys.version_info >= (3, 7) else 12 :]), main)  # noqa: S302 - the script
    try:
        return exec, (compile(source, file, "exec", dont_inherit=True), main)
    except (SyntaxError, ValueError) as error:
        keep(error, None)
        if hasattr(sys, "orig_argv"):
            os.execv(sys.executable, python)  # noqa: S606 - Python words a few of these errors otherwise for a file
        raise


def module(main: "dict[str, Any]", *arguments: object) -> "tuple[Callable[..., object], tuple[object, ...]]":
    """The function of Python's that runs a module, as of `prepared`."""
    del main["__file__"], main["__cached__"]
    main["__loader__"] = sys.modules["_frozen_importlib"].BuiltinImporter
    import runpy

    return runpy._run_module_as_main, arguments  # type: ignore[attr-defined]


def script_part(error: BaseException) -> "TracebackType | None":
    """The traceback of an error below the frames of this program."""
    part = error.__traceback__
    while part is not None and part.tb_frame.f_globals is globals():
        part = part.tb_next
    return part


def show(error: BaseException) -> None:
    """Show an error by `sys.excepthook`, and a broken hook's own error, as Python does."""
    shown = type(error), error, error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = shown
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    if not hasattr(sys, "excepthook"):
        sys.stderr.write("sys.excepthook is missing\n")
        sys.__excepthook__(*shown)
        return
    broken: BaseException | None = None
    try:
        sys.excepthook(*shown)
    except SystemExit:
        raise
    except BaseException as raised:  # noqa: BLE001 - of a hook of the script
        broken = raised
    if broken is not None:
        sys.stderr.write("Error in sys.excepthook:\n")
        broken.__traceback__ = script_part(broken)
        sys.__excepthook__(type(broken), broken, broken.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(*shown)


def watch_threads_and_signals() -> None:
    """Keep the first failure of a thread, and the stack at a signal such as SIGSEGV, beside the file of the failure."""
    if not ERROR_FILE:
        return
    import _thread
    import faulthandler

    try:
        if not faulthandler.is_enabled():
            faulthandler.enable(
                os.open(ERROR_FILE + ".fault", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
            )
    except OSError:
        pass  # the folder is gone
    original = getattr(_thread, "_excepthook", None)
    if original is None:
        return  # before Python 3.8

    def failed_in_thread(args: "Any") -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            keep(args.exc_value, args.exc_traceback, ".thread")
        original(args)

    # `threading` takes it from there when it is imported, which takes longer than all of this.
    _thread._excepthook = failed_in_thread
    threading: Any = sys.modules.get("threading")
    if threading is not None and threading.excepthook is original:
        threading.excepthook = threading.__excepthook__ = failed_in_thread


def offer_stacks() -> None:
    """Have faulthandler write the stacks of all threads into memory of the Agent's, at a signal of the Agent's.

    It does so also while another thread holds the interpreter. A handler of the script's for that signal counts more.
    """
    if STACKS.split("/")[:4] != ["", "proc", str(os.getppid()), "fd"]:
        return  # a child of a rank
    try:
        import _signal  # type: ignore[import-not-found]
        import faulthandler

        number = _signal.SIGRTMAX - 3
        if _signal.getsignal(number) == _signal.SIG_DFL:
            faulthandler.register(number, os.open(STACKS, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC), True)
    except BaseException:  # noqa: BLE001, S110 - of any kind, such as memory of another user's Agent
        pass


def await_torch() -> None:
    """Have `beat.py` run in a thread once the script has imported torch's groups.

    Collections of garbage are the occasion to look for that: an import of torch has hundreds. So no thread runs in a
    script without torch, and the import of modules stays as it is. A finder in `sys.meta_path` would be asked for each
    module, an audit hook called for each event and never removed, and torch's entry points are of all its users.
    """
    if RECORD:
        import gc

        gc.callbacks.append(look_for_torch)


def look_for_torch(_: str, __: "dict[str, int]") -> None:
    """Begin to beat, if torch's groups are there. A forked child does not."""
    if not BEGUN and GROUPS in sys.modules and os.getpid() == PID:
        BEGUN.append(GROUPS)
        try:
            import _thread

            _thread.start_new_thread(beat, ())
        except BaseException:  # noqa: BLE001, S110 - no room for a thread: the script goes on without it
            pass


def beat() -> None:
    """Run `beat.py`, in a thread. It never raises: the script is what counts."""
    try:
        import gc

        gc.callbacks.remove(look_for_torch)
        here = os.path.dirname(__file__)
        programs = []
        for path in (os.path.join(os.path.dirname(here), "base", "rank_record.py"), os.path.join(here, "beat.py")):
            names: dict[str, Any] = {"__name__": os.path.basename(path)[:-3]}
            with open(path, "rb") as opened:
                exec(compile(opened.read(), path, "exec", dont_inherit=True), names)  # noqa: S102 - our own programs
            programs.append(names)
        programs[1]["run"](programs[0])
    except BaseException:  # noqa: BLE001, S110 - of any kind, such as a record that is closed
        pass


def keep(error: BaseException, traceback: "TracebackType | None", beside: str = "") -> None:
    """Write a failure of this process into its error file. It never raises: the failure itself comes first.

    Args:
        error: the failure.
        traceback: its part in the script.
        beside: end of the name of a further file.
    """
    if not ERROR_FILE or os.getpid() != PID:
        return
    try:
        import time

        at = time.time()
        program = os.path.join(os.path.dirname(__file__), "write_reason.py")
        names: dict[str, Any] = {"__name__": "write_reason"}
        with open(program, "rb") as opened:
            exec(compile(opened.read(), program, "exec", dont_inherit=True), names)  # noqa: S102 - our own program
        names["write"](ERROR_FILE, beside, error, traceback, at)
    except BaseException:  # noqa: BLE001, S110 - of any kind, such as a full disk
        pass


if __name__ == "__main__":
    OWN = dict(vars(sys.modules["builtins"]))
    OWN.update(globals(), __name__="start", made=type(run))
    for _own in (
        run,
        prepared,
        module,
        folder_here,
        script_part,
        show,
        watch_threads_and_signals,
        keep,
        offer_stacks,
        await_torch,
        look_for_torch,
        beat,
    ):
        OWN[_own.__name__] = OWN["made"](_own.__code__, OWN, _own.__name__, _own.__defaults__)
    OWN["run"](globals())
