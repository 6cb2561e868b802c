"""The stand of the attacks by cost measures the attacked node, and not the scheduler of the machine."""

from __future__ import annotations

import os
from pathlib import Path

from tests.security.bystander.stand import Stand


async def test_its_processes_have_the_session_of_the_attacker_and_groups_of_their_own(tmp_path: Path) -> None:
    """The scheduler has no share of the processors for each, and a Ctrl-C reaches the attacker alone."""
    async with Stand(tmp_path, one_session=True) as stand:
        assert len(stand.pids) == 3
        assert {os.getsid(pid) for pid in stand.pids} == {os.getsid(0)}
        assert {os.getpgid(pid) for pid in stand.pids} == set(stand.pids)
