"""Choice of a document's title, for all formats."""

import re
from collections.abc import Sequence
from itertools import takewhile

from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import Block, BlockKind

MAX_TITLE_HEADING_PAGE = 3
"""Last page or slide whose headings can be the title of a document without a title in its metadata."""

_FILE_NAME = re.compile(
    r"(?:[\w.()\[\] &,+~-]{1,200}|.{0,300}[/\\][^/\\]{1,200})\."
    r"(?:docx?|dotx?|docm|odt|rtf|pptx?|ppsx?|potx?|odp|xlsx?|xlsm|ods|csv|pdf|ps|eps|tex|dvi|indd|qxd|pub|wpd|pages|key|"
    r"html?|xhtml|xml|md|txt|epub|eml|msg|jpe?g|png|tiff?)",
    re.IGNORECASE,
)
_FILE_STEM = re.compile(r"(?=\S*_|\S+ \S*_)[^\W_]\S*(?: \S+){0,2}")
_PATH = re.compile(
    r"(?:[a-z]:[\\/]|\\\\|file:|https?://|/(?:home|users|tmp|var|private|mnt|media)/).{0,400}", re.IGNORECASE
)
_PROGRAM = re.compile(
    r"(?:microsoft (?:word|powerpoint|excel|office)|powerpoint|word|writer|impress|libreoffice|openoffice|adobe)"
    r"(?:\s*[-–—:].{0,300}|\s+(?:document|presentation|slide show|show)|)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:untitled|unnamed|unbenannt|sans titre|sin título|senza titolo|no title|none|null|title|titel|titre|titolo|"
    r"presentation|präsentation|présentation|presentación|document|dokument|documento|file|scan|print|blank|"
    r"(?:slide|folie|diapositiva|page|seite|sheet|tabelle|doc|img|image)[\s_-]?\d*|new (?:document|page)|"
    r"scanned (?:document|image))[\s_-]?\d{0,4}",
    re.IGNORECASE,
)
_ACCESSION = re.compile(
    r"[\d\W_]+|\d{10}-\d{2}-\d{6}.{0,20}|[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}|[0-9a-f]{16,64}", re.IGNORECASE
)
_BOILERPLATE = re.compile(
    r"(?:united states|u\.s\.)?\s?securities and exchange commission.{0,40}|united states|washington,? d\.?c\.?.{0,20}|"
    r"form \d{0,2}-?[a-z0-9]{1,4}(?:/a)?(?:\s*[-–:]?\s*(?:current|annual|quarterly) report)?|"
    r"(?:current|annual|quarterly|transition) report(?: pursuant to .{0,120})?|\(?mark one\)?|table of contents|"
    r"contents|index|inhalt|inhaltsverzeichnis|table des matières|índice|date of report.{0,120}|"
    r"commission file number.{0,60}",
    re.IGNORECASE,
)
_EXHIBIT = re.compile(
    r"(?:exhibit|ex|annex|anlage|appendix|attachment)[\s.-]*[\d.]{1,8}[a-z]?(?:\s*[-–]\s*[\d./-]{1,12})?", re.IGNORECASE
)
_ADDRESS = re.compile(
    r".{0,200}, ?[a-z]{2,15}\.? \d{5}(?:-\d{4})?|"
    r"\d{1,5} .{0,80}\b(?:street|avenue|road|drive|boulevard|st\.|ave\.|rd\.).{0,80}",
    re.IGNORECASE,
)


def choose_title(metadata_title: str | None, blocks: Sequence[Block]) -> str | None:
    """Choose the title of a document.

    Args:
        metadata_title: Title from the file's metadata; None if there is none.
        blocks: Blocks of the document, in reading order.

    Returns:
        The metadata title if it is a real title, else the first real heading of the highest level on the first pages.
        None if there is neither; then the service uses the name of the file.
    """
    title = clean_line(metadata_title or "")
    if is_real_title(title):
        return title
    first_blocks = takewhile(lambda block: (block.page or block.slide or 1) <= MAX_TITLE_HEADING_PAGE, blocks)
    headings = [block for block in first_blocks if block.kind is BlockKind.HEADING and is_real_title(block.text)]
    return min(headings, key=lambda block: block.level).text if headings else None


def is_real_title(title: str) -> bool:
    """Return whether a text names its document.

    File names, paths, accession numbers, addresses, placeholders of programs and boilerplate of forms are no titles.
    """
    text = title.strip(" \"'“”.:")
    if len(text) < (3 if text.isascii() else 2) or not any(map(str.isalpha, text)):
        return False
    patterns = (_FILE_NAME, _FILE_STEM, _PATH, _PROGRAM, _PLACEHOLDER, _ACCESSION, _BOILERPLATE, _EXHIBIT, _ADDRESS)
    return not any(pattern.fullmatch(text) for pattern in patterns)
