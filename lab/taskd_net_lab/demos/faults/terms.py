"""Names that the processes of the demo share."""

from __future__ import annotations

from typing import Final

RESET_FAILS: Final = "DEMO_FAULTS_RESET_FAILS"
"""Variable that lets every reset fail."""
