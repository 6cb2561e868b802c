"""`taskd-net faults explain`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import click

from taskd_net.base.codes import ArgumentError
from taskd_net.cli.command import JSON
from taskd_net.cli.faults.options import config, options, rules_of
from taskd_net.cli.lines import say, say_json
from taskd_net.job.faults.events import Severity, fault_code
from taskd_net.job.faults.levels import FaultType, JobKind, Mode, SubHealth, steps
from taskd_net.job.faults.rules import FaultRules


@click.command(
    params=[*options("fault_config", "fault_edition", "linkdown_timeout", "sub_health"), JSON],
    short_help="Explain the level of a fault code, and its answers.",
)
@click.argument("code", metavar="CODE")
@click.pass_context
def explain(ctx: click.Context, /, code: str, as_json: bool, **_: object) -> None:
    """Show the level and type of a fault CODE, the steps in both modes and for both kinds of job, and its rules.

    Without a folder with files the severity alone decides.

    \b
    Examples:
      taskd-net faults explain 8C0A4E00 --fault-config /etc/mindx-dl/fault-config
      taskd-net faults explain 81078603

    \b
    Exit codes:
      0      shown
      1      the files cannot be used
      2      a flag, or CODE, is wrong
    """
    settings = config(ctx)
    try:
        code = fault_code(code, "CODE")
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    rules = rules_of(settings)
    document = _document(code, rules, settings.answer_to_sub_health)
    if as_json:
        say_json(document)
        return
    for line in _lines(code, rules, settings.answer_to_sub_health):
        say(line)


def _types(code: str, rules: FaultRules) -> Iterator[tuple[str, FaultType]]:
    """The types that the code may have, each with its condition."""
    base = rules.codes.get(code)
    if base is not None:
        yield "by the list of codes", base
    elif code in rules.duration:
        yield "in no list, before its duration counts", rules.type_of(code, None)
    else:
        mild = rules.type_of(code, Severity.MINOR)
        yield "unknown, of severity notice or minor", mild
        yield "unknown, of any other severity or of none", rules.type_of(code, None)
        yield "unknown, and of the network", rules.type_of(code, None, network=True)
    frequency, duration = rules.frequency.get(code), rules.duration.get(code)
    if duration is not None:
        text = f"standing for more than {duration.timeout} s, until it is gone for {duration.recovery} s"
        yield text, duration.handling
    if frequency is not None:
        counted = "exceeding that duration" if duration is not None else "occurring"
        release = "" if frequency.release is None else f", released after {frequency.release} s"
        yield f"{counted} {frequency.times} times within {frequency.window} s{release}", frequency.handling


def _answers(fault_type: FaultType, rules: FaultRules, sub_health: SubHealth) -> Iterator[tuple[Mode, JobKind, str]]:
    for mode, kind in product(Mode, JobKind):
        found = steps(fault_type, mode, kind, rules.grace, sub_health)
        yield mode, kind, ", ".join(map(str, found)) or "nothing"


def _lines(code: str, rules: FaultRules, sub_health: SubHealth) -> Iterator[str]:
    yield f"{code}, edition {rules.edition.value}"
    for condition, fault_type in _types(code, rules):
        yield f"  {fault_type.level:2} {fault_type.word}: {condition}"
        for mode, kind, text in _answers(fault_type, rules, sub_health):
            yield f"       {mode.value:12} {kind.value:9}  {text}"


def _document(code: str, rules: FaultRules, sub_health: SubHealth) -> dict[str, object]:
    cases = [
        {
            "condition": condition,
            "level": fault_type.level,
            "type": fault_type.word,
            "steps": {
                f"{mode.value}, {kind.value}": text for mode, kind, text in _answers(fault_type, rules, sub_health)
            },
        }
        for condition, fault_type in _types(code, rules)
    ]
    return {"code": code, "edition": rules.edition.value, "cases": cases}
