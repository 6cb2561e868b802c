"""The laboratory knows the kind of its links: a fault over another kind would not show what its test says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.lab import Lab

pytestmark = pytest.mark.timeout(120)


def test_link_that_has_fallen_back(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", proxies=1, workers=1)
    lab.mgr.settings["direct_listen"] = "off"
    with pytest.raises(AssertionError, match=r"links of another kind: \{'proxy0': 'batched'\}"), lab:
        raise RuntimeError("it has begun")
    assert not any(member.alive for member in lab.members)
