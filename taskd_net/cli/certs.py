"""`taskd-net certs`: a certificate authority for development, and certificates for nodes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from taskd_net import ConfigError
from taskd_net.base.position import Role
from taskd_net.base.untrusted import json_line
from taskd_net.cli.lines import say
from taskd_net.core.certificate_name import ANY, SCHEME, CertificateName

HERE: Final = ("localhost", "127.0.0.1", "::1")
"""Hosts in the certificate of a node that can be a parent, where none is given."""

FOLDER: Final = click.Option(
    ["--folder"],
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("certs"),
    show_default=True,
    help="Folder of the files.",
)


def _days(default: int) -> click.Option:
    kind = click.IntRange(1, 3650)
    return click.Option(["--days"], type=kind, default=default, show_default=True, help="Days of validity.")


def _require_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        text = "taskd-net certs needs cryptography, which is not installed: pip install 'taskd-net[tls]'"
        raise click.ClickException(text) from None


@click.group(
    name="certs",
    short_help="Make a CA for development, and certificates for nodes.",
)
def certs() -> None:
    """Make a certificate authority (CA) for development, and certificates for nodes.

    Production needs a CA whose key is kept more safely than in a folder.

    \b
    Examples:
      taskd-net certs init
      taskd-net certs issue > taskd-net.toml
      taskd-net mgr --config taskd-net.toml

    \b
    Exit codes:
      0    the files are written
      1    they cannot be written, or cryptography is not installed
      2    an argument is wrong, there is no CA (issue), or there is one (init)
    """


@certs.command(
    params=[FOLDER, _days(365)],
    short_help="Make a CA.",
)
def init(folder: Path, days: int) -> None:
    """Make a CA: ca.crt for every node, and ca.key for `issue` alone.

    \b
    Examples:
      taskd-net certs init
      taskd-net certs init --folder /etc/taskd-net/certs --days 30
    """
    _require_cryptography()
    from taskd_net.cli.authority import Authority

    try:
        Authority.new("taskd-net development CA", timedelta(days=days)).save(folder)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"folder is '{folder}'; expected one that can be written: {error}") from None
    say(f"{folder / 'ca.crt'} is for every node; keep {folder / 'ca.key'} to yourself")


@certs.command(
    params=[
        click.Argument(["name"], metavar="NAME", default="*/*/*"),
        FOLDER,
        click.Option(["--job"], default=ANY, show_default=True, help="Name of the job; * for any."),
        click.Option(
            ["--host", "hosts"],
            multiple=True,
            metavar="HOST",
            help=f"Name or IP address where the node listens; repeatable.  [default: {', '.join(HERE)}; leaves: none]",
        ),
        _days(90),
    ],
    short_help="Issue a certificate for a node.",
)
def issue(name: str, folder: Path, job: str, hosts: tuple[str, ...], days: int) -> None:
    """Issue a certificate for NAME: Role/serverRank, for a Worker Role/serverRank/processRank; * stands for any rank.
    Without NAME it is for every position.

    The certificate of a Worker or an Agent is for clients alone: no child accepts it from a parent.

    Prints the settings that use it, in the form of the file for --config. Repeating it replaces the files, and running
    nodes take the new ones.

    \b
    Examples:
      taskd-net certs issue > taskd-net.toml
      taskd-net certs issue Proxy/3 --host node-3 --host 10.0.0.3
      taskd-net certs issue "Worker/3/*" --job my-job
    """
    _require_cryptography()
    from taskd_net.cli.authority import Authority, write

    try:
        uri = CertificateName.parse(f"{SCHEME}{job}/{name}")
        parent = uri.role == ANY or not Role(uri.role).is_leaf
        hosts = hosts or (HERE if parent else ())
        key, crt = Authority.load(folder).issue([str(uri)], hosts, timedelta(days=days), parent=parent)
    except (ConfigError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    stem = "node" if name == "*/*/*" else name.lower().replace("/", "-").replace(ANY, "any")
    files = {"key": folder / f"{stem}.key", "crt": folder / f"{stem}.crt"}
    try:
        write(files["key"], key, 0o600)
        write(files["crt"], crt, 0o644)
    except OSError as error:
        raise click.ClickException(f"folder is '{folder}'; expected one that can be written: {error}") from None
    ends = ("server", "client") if parent else ("client",)
    settings = {"ca": folder / "ca.crt"} | {f"{end}_{kind}": path for end in ends for kind, path in files.items()}
    also = f", also as {', '.join(hosts)}" if hosts else ""
    say(f"# {uri}{also}, for {days} days{'' if parent else ', for clients alone'}")
    for setting, path in settings.items():
        say(f"{setting} = {json_line(str(path.resolve()))}")
