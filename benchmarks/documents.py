"""The generated parts of the documents: text between two markers, and whole files in `docs/benchmarks/`."""

from __future__ import annotations

import re
from pathlib import Path


def fill(document: Path, name: str, text: str) -> bool:
    """Put a text between `<!-- name: generated -->` and `<!-- end of name -->`. Returns False without these markers."""
    if not document.is_file():
        return False
    begin, end = f"<!-- {name}: generated -->", f"<!-- end of {name} -->"
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    new, count = pattern.subn(lambda _: f"{begin}\n\n{text}\n\n{end}", document.read_text())
    if count:
        document.write_text(new)
    return bool(count)
