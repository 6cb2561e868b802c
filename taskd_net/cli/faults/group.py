"""The commands of `taskd-net faults`."""

from __future__ import annotations

import click

from taskd_net.cli.faults.check import check
from taskd_net.cli.faults.explain import explain
from taskd_net.cli.faults.mesh import listing, release, report
from taskd_net.cli.faults.simulate import simulate


@click.group(name="faults", short_help="Fault levels: check files, explain codes, simulate events.")
def faults() -> None:
    """Fault levels: from a fault code of a device to what is done about it (docs/faults.md).

    \b
    Examples:
      taskd-net faults check /etc/mindx-dl/fault-config
      taskd-net faults explain 8C0A4E00 --fault-config /etc/mindx-dl/fault-config
      taskd-net faults simulate events.jsonl --fault-config /etc/mindx-dl/fault-config
    """


for _command in (check, explain, simulate, report, listing, release):
    faults.add_command(_command)
