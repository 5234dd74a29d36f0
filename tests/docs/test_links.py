"""Links between the repository's pages: each file and each heading exists. Links to other hosts are not checked."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s#]*)(?:#([^)\s]+))?(?:\s[^)]*)?\)")
CODE = re.compile(r"^(`{3,}).*?^\1$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("clients/**/*.md")]


@cache
def list_anchors(page: Path) -> frozenset[str]:
    text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for path, anchor in LINK.findall(CODE.sub("`code`", page.read_text("utf-8"))):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in list_anchors(target)):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def test_navigation_names_every_page() -> None:
    docs = ROOT / "docs"
    text = (docs / "index.md").read_text("utf-8")
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    named = {line.strip() for block in blocks for line in block.splitlines() if line.strip() and line[0] != ":"}
    pages = {page.relative_to(docs).with_suffix("").as_posix() for page in docs.rglob("*.md")}
    assert {page for page in pages if not re.match(r"index$|adr/0|reference/http-api/", page)} == named
