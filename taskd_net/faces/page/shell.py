"""The page as one HTML document, put together from the files in `face/`.

The document is complete, with the state of the mesh at that moment, so it can be saved and sent. Its policy permits its
own script and style, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import Final

# In the order in which they build on each other.
SCRIPTS: Final = (
    "mesh",
    "history",
    "past",
    "layout",
    "picture",
    "plots",
    "job",
    "details",
    "top",
    "moving",
    "find",
    "legend",
    "live",
)


class Shell:
    """The document without the state of the mesh; the files are read once."""

    def __init__(self) -> None:
        style = _read("page.css")
        script = "(() => {\n" + "\n".join(_read(f"{name}.js") for name in SCRIPTS) + "\n})();\n"
        page = _read("page.html").replace("/* style */", style).replace("/* script */", script)
        self._before, _, rest = page.partition("/* tree */")
        self._between, _, self._after = rest.partition("/* past */")
        self.policy = "; ".join(
            (
                "default-src 'none'",
                f"script-src '{_hash(script)}'",
                f"style-src '{_hash(style)}'",
                "connect-src 'self'",
                "img-src data:",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
            )
        )
        """The value of the header Content-Security-Policy."""

    def document(self, tree: str, past: str) -> str:
        """The whole page.

        Args:
            tree: the state of the mesh, as a JSON object.
            past: the last hour of all links together, as a JSON object.
        """
        # Inside a script element only a `<` could end it or change its meaning.
        told = [text.replace("<", "\\u003c") for text in (tree, past)]
        return self._before + told[0] + self._between + told[1] + self._after


def _read(name: str) -> str:
    return (resources.files("taskd_net.faces.page") / "face" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
