"""`make guide`: run all situations, and write what the commands print into docs/operators-guide.md."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.guide.document import DOCUMENT, written
from tests.guide.situations import SITUATIONS
from tests.guide.stage import Stage


async def main() -> None:
    """One after the other, so that the figures are those of a machine with little to do."""
    texts: dict[str, str] = {}
    for name, situation in SITUATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            async with Stage(Path(folder)) as stage:
                await situation(stage)
        texts |= stage.shown
        print(f"{name}: {len(stage.shown)} commands")
    DOCUMENT.write_text(written(DOCUMENT.read_text(), texts))


asyncio.run(main())
