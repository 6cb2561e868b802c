"""`make guide`: run all situations, and write the output of the commands into docs/operators-guide.md."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tests.guide.document import DOCUMENT, written
from tests.guide.situations import SITUATIONS
from tests.guide.stage import Stage


async def main() -> None:
    """Run the situations one after another, for figures of an idle machine."""
    texts: dict[str, str] = {}
    for name, situation in SITUATIONS.items():
        with tempfile.TemporaryDirectory() as folder:
            async with Stage(Path(folder)) as stage:
                await situation(stage)
        texts |= stage.shown
        print(f"{name}: {len(stage.shown)} commands")
    DOCUMENT.write_text(written(DOCUMENT.read_text(), texts))


asyncio.run(main())
