"""A command that ends at its arguments, in the process of the test: a third of a second less than one of its own."""

from __future__ import annotations

from click.testing import CliRunner

from taskd_net.cli.group import group


def refused(*arguments: str) -> str:
    """Run a command whose use is wrong. Returns the line without `Error: `; nothing else is printed."""
    done = CliRunner(env={"XDG_CONFIG_HOME": "/dev/null"}).invoke(group, arguments)
    assert done.exit_code == 2, (done.output, done.exception)
    assert done.output.startswith("Error: ") and done.output.count("\n") == 1
    return done.output.removeprefix("Error: ").removesuffix("\n")
