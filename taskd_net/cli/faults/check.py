"""`taskd-net faults check`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.cli.command import JSON
from taskd_net.cli.faults.options import Files, config, options, read_files
from taskd_net.cli.lines import say, say_json
from taskd_net.job.faults.rules import Problem, RulesRefused

REFUSED: Final = 1
"""Exit code: the files would be refused."""


@click.command(
    params=[*options("fault_edition", "linkdown_timeout"), JSON],
    short_help="Check the files of fault levels.",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.pass_context
def check(ctx: click.Context, /, folder: Path, as_json: bool, **_: object) -> None:
    """Check faultCode.json, faultCustomization.json and PollInterval in DIR, and name every problem with its place.

    A problem costs a value or an entry, and the line says what is done instead. Only files that cannot be used at all
    are refused: a running Manager keeps its rules then.

    \b
    Examples:
      taskd-net faults check /etc/mindx-dl/fault-config
      taskd-net faults check /etc/mindx-dl/fault-config --fault-edition current --json

    \b
    Exit codes:
      0      the files would be used, with the problems that were named
      1      they would be refused
      2      a flag, or DIR, is wrong
    """
    try:
        files = read_files(config(ctx, fault_config=str(folder)))
    except RulesRefused as error:
        _show(error.problems, None, as_json=as_json)
        sys.exit(REFUSED)
    except ConfigError as error:
        if not folder.is_dir():
            raise click.UsageError(f"DIR is {str(folder)!r}; expected a folder") from None
        say(f"Error: {error}", err=True)
        sys.exit(REFUSED)
    _show(files.problems, files, as_json=as_json)


def _show(problems: tuple[Problem, ...], files: Files | None, *, as_json: bool) -> None:
    if as_json:
        parts = ("file", "entry", "value", "expected", "effect")
        found = [{part: getattr(each, part) for part in parts} for each in problems]
        say_json({"refused": files is None, "problems": found, **(_numbers(files) if files else {})})
        return
    for each in problems:
        say(f"{'note' if each.hint else 'problem'}: {each}")
    if files is None:
        say("refused: the files would not be used")
        return
    numbers = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in _numbers(files).items())
    say(f"accepted: {numbers}")


def _numbers(files: Files) -> dict[str, object]:
    rules = files.rules
    return {
        "edition": rules.edition.value,
        "codes": len(rules.codes),
        "frequency_rules": len(rules.frequency),
        "duration_rules": len(rules.duration),
        "poll_interval": files.interval,
    }
