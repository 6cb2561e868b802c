"""Two jobs of real processes on one machine, with each other's addresses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.processes import Command, Daemon, run
from tests.ports import free_address

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


def job(name: str) -> dict[str, str]:
    """The environment of a job's processes: the id is set once, for all of them."""
    return {"TASKD_NET_JOB_ID": name}


async def test_job_with_the_address_of_another_stays_out_and_harms_nothing(tmp_path: Path) -> None:
    async with (
        Daemon("mgr", "--state", tmp_path / "a", logs=tmp_path / "mgr-a", env=job("a")) as mgr,
        Daemon("proxy", "--upstream", mgr.address, logs=tmp_path / "proxy-a", env=job("a")) as ours,
        Daemon("proxy", "--upstream", mgr.address, logs=tmp_path / "proxy-b", env=job("b")) as theirs,
        Command("listen", "--as", "Worker/0/0", "--upstream", ours.address, env=job("a")) as worker,
        Command("listen", "--as", "Worker/0/1", "--upstream", ours.address, env=job("b")) as astray,
    ):
        await worker.said(" ready, upstream")
        await theirs.said(f"join_failed.*this node is of job 'b', and Mgr/0 at {mgr.address} is of job 'a'")
        await astray.said(f"this node is of job 'b', and Proxy/0 at {ours.address} is of job 'a'")
        await mgr.said("child_refused.*Proxy/0 is of job 'b', and this node of job 'a'")
        send = ("send", "--upstream", mgr.address, "Worker/0/0")
        assert (await run(*send, "from a", env=job("a")))[0] == 0
        assert (await worker.line()).endswith(" default from a")
        code, _, errors = await run(*send, "from b", "--timeout", "2", env=job("b"))
        assert code != 0 and "this node is of job 'b'" in errors
        assert (await run(*send, "from a tool"))[0] == 0
        assert (await worker.line()).endswith(" default from a tool")
        code, text, _ = await run("tree", "--at", mgr.address)
        assert code == 0, text
        assert [" job a" in line for line in text.splitlines()] == [False, True, True, False], text
        _, text, _ = await run("tree", "--at", mgr.address, "--json")
        assert [(each["position"], each["job"]) for each in json.loads(text)["nodes"]] == [
            ("Mgr/0", "a"),
            ("Proxy/0", "a"),
            ("Worker/0/0", None),
        ]
        _, text, _ = await run("job", "--at", mgr.address)
        assert text.startswith("job a")


async def test_two_names_of_one_job_are_one_line(tmp_path: Path) -> None:
    code, _, errors = await run("mgr", "--job-id", "a", "--job", "b", "--listen", free_address())
    assert code == 2 and "job is 'b', and job_id 'a'; expected one name" in errors
