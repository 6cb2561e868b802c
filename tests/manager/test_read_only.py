"""The files of a Manager that may not write them: nobody, in a folder of another user."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net import Node
from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.manager.cluster import Leaf, agent
from tests.scenarios.test_host_process import NOBODY, as_nobody, needs_root


@pytest.fixture
def theirs() -> Iterator[Path]:
    """A folder that nobody may read, and only root may write."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


@needs_root
@pytest.mark.timeout(120)
async def test_record_in_a_folder_of_another_user_is_refused_in_one_line(theirs: Path) -> None:
    arguments = ("mgr", "--log-path", theirs, "--record", theirs / "file")
    async with Command(*arguments, wrapper=as_nobody(NOBODY)) as command:
        code, errors = await command.exit_code(), command.errors
    why = f"Error: record is '{theirs}/file'; expected a file that can be written: Permission denied (from --record)"
    assert code == 1 and errors.splitlines()[1:] == [why] and "no_log_file" in errors, errors


@needs_root
@pytest.mark.timeout(120)
async def test_manager_serves_without_a_log_and_a_state_that_it_may_not_write(theirs: Path) -> None:
    """Each is one line, and `job` shows that a restart forgets its decisions."""
    arguments = ("mgr", "--job-id", "J", "--state", theirs / "state")
    async with Daemon(*arguments, logs=theirs, wrapper=as_nobody(NOBODY)) as mgr, Node(agent(0)(mgr.address)) as node:
        leaf = Leaf(node)
        await node.joined(PATIENCE_S)
        await leaf.register()
        assert (await leaf.command()).code == 210
        _, output, _ = await run("job", "--at", mgr.address, "--json")
        assert f"the state in {theirs}/state is not durable" in json.loads(output)["trouble"][0]
    assert mgr.errors.count("no_log_file") == mgr.errors.count("state_not_stored") == 1, mgr.errors
