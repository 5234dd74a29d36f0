"""Report of what a parser did not read: counts by kind, and the share of words that were left out."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from app.ingestion.types import BlockKind, ParsedDocument
from app.warnings import ServiceWarning, WarningCode

MAX_UNREPORTED_SHARE = 0.1
"""Share of words that may be left out without a warning, such as the navigation of a web page."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Report of what a parser did not read.

    Attributes:
        counts: Number of things that were not read, by the code of their warning.
        words_left_out: Number of words that were left out.
        left_out_share: Share of the words that were left out, from 0 to 1.
    """

    counts: Mapping[str, int]
    words_left_out: int
    left_out_share: float

    def list_warnings(self) -> list[ServiceWarning]:
        """Return a warning if more than a tenth of the words were left out."""
        if self.left_out_share <= MAX_UNREPORTED_SHARE:
            return []
        message = f"{self.words_left_out} words, {self.left_out_share:.0%} of the file, were left out as boilerplate."
        return [ServiceWarning(WarningCode.WORDS_LEFT_OUT, message, self.words_left_out)]


def measure_loss(parsed: ParsedDocument) -> Loss:
    """Measure what a parser did not read. The call blocks, because it counts all words.

    Args:
        parsed: Result of the parser.
    """
    counts: Counter[str] = Counter()
    for warning in parsed.warnings:
        if isinstance(warning, ServiceWarning) and warning.count is not None:
            counts[str(warning.code)] += warning.count
    left_out = parsed.words_left_out
    if not left_out:
        return Loss(dict(counts), 0, 0.0)
    words = sum(len(block.text.split()) for block in parsed.blocks if block.kind is not BlockKind.IMAGE)
    return Loss(dict(counts), left_out, round(left_out / (left_out + words), 4))
