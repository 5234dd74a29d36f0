"""Choice of a document's title for all formats."""

import pytest

from app.ingestion.parsers.toolkit.titles import choose_title, is_real_title
from app.ingestion.types import Block, BlockKind


@pytest.mark.parametrize(
    "title",
    [
        "0001193125-23-160746", "0000320193-23-000077", "Microsoft Word - Annual report.docx",
        "Microsoft PowerPoint - q3",
        "untitled", "Untitled-1", "PowerPoint Presentation", "PowerPoint-Präsentation", "C:\\Users\\ada\\report.doc",
        "/home/ada/thesis.tex", "file:///tmp/x.html", "report_final_v3.pdf", "Q4 22_EarningsRelease", "Document1",
        "UNITED STATES SECURITIES AND EXCHANGE COMMISSION", "SECURITIES AND EXCHANGE COMMISSION", "FORM 8-K",
        "Form 10-K/A",
        "CURRENT REPORT Pursuant to Section 13", "Slide 1", "", "   ", "12345", "Table of Contents", "Exhibit 99.1",
        "Exhibit 99.1 - 6.30.2023", "Washington, D.C. 20549", "300 Lakeside Drive Oakland, California 94612",
        "d41d8cd98f00b204e9800998ecf8427e", "scan0001.tif", "Microsoft Word", "Title",
    ],
)  # fmt: skip
def test_text_that_names_no_document_is_no_title(title: str) -> None:
    assert not is_real_title(title)


@pytest.mark.parametrize(
    "title",
    [
        "Harbour handbook 2026", "eBay Inc. Reports Better Than Expected Second Quarter 2023 Results",
        "Geometrie und Topologie",
        "Node.js", "The index of prices", "Form follows function", "Document management at sea", "Apple Inc.",
        "利用規約", "規約",
        "Report on 3.5 million ships", "United States of Sailing", "Scan of the horizon",
    ],
)  # fmt: skip
def test_text_that_names_a_document_is_a_title(title: str) -> None:
    assert is_real_title(title)


def test_title_without_a_real_metadata_title_is_first_real_heading() -> None:
    texts = ["UNITED STATES", "FORM 8-K", "Harbour Lines Inc. reports results", "Item 2"]
    blocks = [Block(BlockKind.HEADING, text, level=1, page=1) for text in texts]
    assert choose_title("Microsoft Word - 8k.doc", blocks) == "Harbour Lines Inc. reports results"
    assert choose_title("Results of Harbour Lines", blocks) == "Results of Harbour Lines"


def test_title_ignores_headings_of_late_pages() -> None:
    assert choose_title(None, [Block(BlockKind.HEADING, "Chapter nine", level=1, page=9)]) is None
    assert choose_title(None, [Block(BlockKind.PARAGRAPH, "Some prose", page=1)]) is None
