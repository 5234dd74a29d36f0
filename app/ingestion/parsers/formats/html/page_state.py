"""State that the readers of one page share: its address, counts of omitted parts, and ids that buttons open."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from selectolax.lexbor import LexborNode

from app.ingestion.parsers.formats.html.elements import count_words
from app.ingestion.parsers.formats.html.page_positions import PagePositions
from app.warnings import ServiceWarning, WarningCode

_OPENERS = '[aria-controls], [data-target], [data-bs-target], [popovertarget], [commandfor], [href^="#"]'
_OPENER_ATTRIBUTES = ("aria-controls", "data-target", "data-bs-target", "popovertarget", "commandfor", "href")


@dataclass
class PageState:
    """State of one page.

    Attributes:
        root: Element that contains the whole page.
        base: Address that relative addresses are resolved against; empty if it is unknown.
        reads_boilerplate: Whether navigation, page header, page footer and asides are read.
        words_left_out: Number of words that were left out.
        images: Number of images without an alternative text.
        media: Number of videos, sounds, embedded pages and objects.
        abbreviations: Abbreviations whose long form the text already has.
        positions: Positions of the page in its file; None if they are not known.
        handled: Identifiers of elements that were read out of order, such as the caption below a table.
    """

    root: LexborNode
    base: str = ""
    reads_boilerplate: bool = True
    words_left_out: int = 0
    images: int = 0
    media: int = 0
    abbreviations: set[str] = field(default_factory=set)
    handled: set[int] = field(default_factory=set)
    positions: PagePositions | None = None

    @cached_property
    def has_main(self) -> bool:
        """Whether the page marks its main content."""
        return self.root.css_first("main, article, [role=main]") is not None

    @cached_property
    def opened_ids(self) -> frozenset[str]:
        """Identifiers of the elements that a button or a link of the page opens."""
        ids: set[str] = set()
        for node in self.root.css(_OPENERS):
            attributes = node.attributes
            for name in _OPENER_ATTRIBUTES:
                ids.update(word.lstrip("#") for word in (attributes.get(name) or "").split())
        return frozenset(ids - {""})

    def leave_out(self, node: LexborNode) -> None:
        """Count the words of an element that is left out."""
        self.words_left_out += count_words(node)

    def get_report(self) -> "MarkupReport":
        """Return the counts of what was not read."""
        return MarkupReport(self.words_left_out, self.images, self.media)


@dataclass(frozen=True, slots=True)
class MarkupReport:
    """Report about the markup of one page or fragment.

    Attributes:
        words_left_out: Number of words that were left out.
        images: Number of images without an alternative text.
        media: Number of videos, sounds, embedded pages and objects.
    """

    words_left_out: int = 0
    images: int = 0
    media: int = 0


def merge_reports(reports: Iterable[MarkupReport]) -> MarkupReport:
    """Return the sums of reports, for example of the chapters of a book."""
    listed = list(reports)
    return MarkupReport(
        sum(report.words_left_out for report in listed),
        sum(report.images for report in listed),
        sum(report.media for report in listed),
    )


def list_markup_warnings(report: MarkupReport) -> list[ServiceWarning]:
    """Return the warnings about images and media that were not read."""
    warnings = []
    if report.images:
        subject = "1 image without an alternative text was"
        if report.images > 1:
            subject = f"{report.images} images without an alternative text were"
        warnings.append(ServiceWarning(WarningCode.IMAGES_NOT_READ, f"{subject} not read.", report.images))
    if report.media:
        subject = "1 video, sound or embedded page was"
        if report.media > 1:
            subject = f"{report.media} videos, sounds and embedded pages were"
        warnings.append(ServiceWarning(WarningCode.MEDIA_NOT_READ, f"{subject} not read.", report.media))
    return warnings
