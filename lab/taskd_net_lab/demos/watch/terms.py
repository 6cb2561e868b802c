"""Names and numbers that the training script and the demo share. It imports nothing, as the script does it first."""

from __future__ import annotations

from typing import Final

CODE: Final = "code"
LOADER: Final = "loader"
NATIVE: Final = "native"
EVALUATION: Final = "evaluation"

FAULT: Final = "DEMO_WATCH_FAULT"
"""Variable with what a rank does; empty for nothing."""

RANKS: Final = "DEMO_WATCH_RANKS"
"""Variable with the ranks that do it, with commas between."""

PAUSE_S: Final = 0.1
"""Seconds of the training in a step."""

FAULT_STEP: Final = 20
"""The step before which a rank does it: two seconds after the first one, so that all ranks are known by then."""

LONG_S: Final = 600
"""Seconds for which a rank does nothing: longer than the demo."""

EVALUATIONS: Final = 4
"""Parts of the long evaluation."""

EVALUATION_S: Final = 3.5
"""Seconds of each part: less than the limit. All together are much more than the limit."""
