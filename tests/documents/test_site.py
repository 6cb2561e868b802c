"""The site of the documents, without building it: complete reference, links that lead on, citations with targets."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import taskd_net
import taskd_net.job.api
from tests.documents.pages import PAGES, ROOT
from website import links, repository

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

DOCS: Final = ROOT / "docs"
CODE: Final = ("taskd_net", "compat", "tests", "benchmarks", "examples", "lab", "proto", "website")
CITED: Final = re.compile(r"\b(docs/[\w/-]+\.md)(?:,\s+section\s+(\d+))?")


class Settings(yaml.SafeLoader):
    """YAML with the tags of MkDocs, whose values do not matter here."""


Settings.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, _tag, _node: None)


def settings() -> dict[str, Any]:
    """The settings of MkDocs."""
    found: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), Settings)  # noqa: S506 - makes no objects
    return found


def in_nav(entries: list[Any]) -> list[str]:
    """The pages of the navigation."""
    found: list[str] = []
    for entry in entries:
        for value in entry.values():
            found += in_nav(value) if isinstance(value, list) else [value]
    return found


def test_reference_has_each_public_name_once() -> None:
    named = [
        name for page in (DOCS / "reference").glob("*.md") for name in re.findall(r"(?m)^::: (\S+)", page.read_text())
    ]
    public = {f"taskd_net.{name}" for name in (*taskd_net.__all__, *taskd_net.job.api.__all__)}
    assert sorted(named) == sorted(public | {"taskd_net.base.codes"})


def test_each_public_name_has_a_docstring() -> None:
    missing = [
        name
        for name in {*taskd_net.__all__, *taskd_net.job.api.__all__} - {"__version__"}
        if not vars(getattr(taskd_net, name)).get("__doc__", getattr(taskd_net, name).__doc__)
    ]
    assert missing == []


def test_navigation_has_each_document_once() -> None:
    pages = in_nav(settings()["nav"])
    assert len(pages) == len(set(pages))
    brought = repository.brought()
    assert [page for page in pages if not (DOCS / page).exists() and page not in brought] == []
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert written - set(pages) == set()
    assert {repository.place(ROOT / name) for name in repository.ALWAYS} <= set(pages)


def test_citations_in_the_code_have_targets() -> None:
    sections = set(re.findall(r"(?m)^## (\d+)\. ", (DOCS / "contract.md").read_text()))
    wrong = []
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for page, section in CITED.findall(path.read_text()):
                if not (ROOT / page).exists() or (section and (page != "docs/contract.md" or section not in sections)):
                    wrong.append(f"{path.relative_to(ROOT)}: {page} {section}")
    assert wrong == []


def test_other_citations_are_explained() -> None:
    sources = (DOCS / "contract.md").read_text().partition("\n## Sources\n")[2]
    cited = {
        reference
        for path in (ROOT / "taskd_net").rglob("*.py")
        for reference in re.findall(r"\b[\w-]+ API reference\b", path.read_text())
    }
    assert cited
    assert {reference for reference in cited if f"*{reference}*" not in sources} == set()
    bare = [
        path.name
        for path in (ROOT / "taskd_net").rglob("*.py")
        if re.search(r"(?<!/)\bcontract, section", path.read_text())
    ]
    assert bare == []


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    brought = repository.brought()
    assert brought["index.md"] == ROOT / "README.md"
    assert brought["repository/taskd_net/base/limits.py.md"] == ROOT / "taskd_net" / "base/limits.py"
    text = "[limits](../taskd_net/base/limits.py) [trust](../SECURITY.md#trust) [terms](glossary.md) [none](none.md) [web](https://a.test/b.md)"
    assert repository.placed(text, DOCS / "api.md") == (
        "[limits](repository/taskd_net/base/limits.py.md) [trust](repository/SECURITY.md#trust) [terms](glossary.md) "
        "[none](none.md) [web](https://a.test/b.md)"
    )
    assert repository.placed("[all](docs/glossary.md#x)", ROOT / "README.md") == "[all](glossary.md#x)"
    assert repository.placed("[up](../docs/api.md)", ROOT / "deploy" / "README.md") == "[up](../../api.md)"


def test_links_in_code_stay() -> None:
    text = "[a](../README.md)\n```\n[a](../README.md)\n```\n"
    assert repository.placed(text, DOCS / "api.md") == "[a](index.md)\n```\n[a](../README.md)\n```\n"


def test_file_and_folder_have_pages() -> None:
    assert "\n````python\n" in repository.shown(ROOT / "examples" / "train.py")
    assert "- [train.py](examples/train.py)\n" in repository.shown(ROOT / "examples")
    assert repository.place(ROOT / "examples") == "repository/examples.md"


def test_broken_links_of_built_pages_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "below"
    folder.mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="below/a.html#there">1</a><a href="below/a.html#gone">2</a><a href="none.html">3</a>'
        '<img src="none.png"><a href="#here">4</a><a id="here" href="https://a.test/none">5</a>'
    )
    (folder / "a.html").write_text('<h2 id="there">A</h2><a href="../index.html#here">1</a><a href="#">2</a>')
    assert links.broken(tmp_path) == [
        "index.html: below/a.html#gone: there is no such anchor",
        "index.html: none.html: there is no such file",
        "index.html: none.png: there is no such file",
    ]


def test_signatures_of_calls_are_readable() -> None:
    """The calls keep the signature and the docstring that the reference shows, through their decorator."""
    assert next(iter(inspect.signature(taskd_net.init_taskd_worker).parameters)) == "rank_id"
