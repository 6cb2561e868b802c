"""taskd_net.job.faults.reload: looks at the files, and the periods between them."""

from __future__ import annotations

import math

from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import FaultType
from taskd_net.job.faults.reload import Reload
from taskd_net.job.faults.rules import CODES_FILE, CUSTOMIZATION_FILE, POLL_FILE
from tests.fault_levels.scene import CODES, L1, LINK, files


def polled(seconds: object, codes: object = CODES) -> dict[str, bytes]:
    """The files with an interval."""
    return {**files(codes), POLL_FILE: str(seconds).encode()}


def test_the_first_look_is_due_at_once_and_the_next_after_the_interval() -> None:
    reload = Reload()
    assert reload.due == -math.inf
    first = reload.look(files(), 100.0)
    assert first is not None and first.rules is not None and first.rules.codes[L1] is FaultType.NOT_HANDLE
    assert reload.due == 400.0
    assert reload.look(files(), 400.0) is None and reload.due == 700.0


def test_a_changed_interval_counts_from_the_next_period_on() -> None:
    reload = Reload()
    reload.look(polled(60), 0.0)
    assert reload.due == 60.0
    reload.look(polled(30), 10.0)  # told by the file system
    assert reload.due == 60.0
    reload.look(polled(30), 60.0)
    assert reload.due == 90.0
    reload.look(polled(3600), 90.0)
    assert reload.due == 90.0 + 3600.0


def test_an_interval_that_is_no_number_is_300_and_said() -> None:
    reload = Reload()
    found = reload.look(polled("soon"), 0.0)
    assert found is not None and [problem.file for problem in found.problems] == [POLL_FILE]
    assert found.rules is not None and reload.due == 300.0


def test_a_change_is_told_once_and_a_broken_file_has_no_rules() -> None:
    reload = Reload()
    reload.look(files(), 0.0)
    broken = {**files(), CODES_FILE: b"{", POLL_FILE: b"7"}
    found = reload.look(broken, 300.0)
    assert found is not None and found.rules is None
    assert found.reason.startswith(f"{CODES_FILE} is no JSON") and len(found.problems) == 2
    assert reload.look(broken, 600.0) is None
    mended = reload.look(files(), 900.0)
    assert mended is not None and mended.rules is not None


def test_files_that_cannot_be_read_are_told_once_for_each_reason() -> None:
    reload = Reload()
    found = reload.look("no folder", 0.0)
    assert found is not None and (found.rules, found.reason) == (None, "no folder")
    assert reload.look("no folder", 300.0) is None
    assert reload.look("a hung disk", 600.0) is not None
    assert reload.look(files(), 900.0) is not None


def test_the_settings_of_the_reading() -> None:
    reload = Reload(Edition.DOCUMENTED, 9)
    found = reload.look(files(), 0.0)
    assert found is not None and found.rules is not None and found.rules.duration[LINK].timeout == 9
    current = Reload(Edition.CURRENT).look({**files(), CUSTOMIZATION_FILE: b"{}"}, 0.0)
    assert current is not None and current.rules is not None and current.rules.edition is Edition.CURRENT
