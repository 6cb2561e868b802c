"""The commands of `taskd-net`."""

from __future__ import annotations

import click

from taskd_net import __version__
from taskd_net.cli.bench import bench
from taskd_net.cli.demo.command import demo


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def group() -> None:
    """A message mesh for distributed training jobs: Mgr, Proxies, Agents and Workers, joined by gRPC."""


group.add_command(bench)
group.add_command(demo)
