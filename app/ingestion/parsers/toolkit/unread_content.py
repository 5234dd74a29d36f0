"""Counts of the content of an Office file that was not read, as warnings."""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from app.ingestion.parsers.toolkit.image_warnings import list_image_warnings
from app.warnings import ServiceWarning, WarningCode

_MESSAGES: Mapping[WarningCode, tuple[str, str]] = MappingProxyType(
    {
        WarningCode.CONTENTS_ENTRIES_REMOVED: (
            "{} entry of a table of contents was left out, because the text has its heading.",
            "{} entries of tables of contents were left out, because the text has their headings.",
        ),
        WarningCode.CONTROLS_NOT_READ: ("{} form control was not read.", "{} form controls were not read."),
        WarningCode.DAMAGED_PARTS_NOT_READ: ("{} damaged part was not read.", "{} damaged parts were not read."),
        WarningCode.EMBEDDED_DOCUMENTS_NOT_READ: (
            "{} embedded document was not read.",
            "{} embedded documents were not read.",
        ),
        WarningCode.EQUATIONS_NOT_READ: (
            "{} equation of an old format was not read.",
            "{} equations of an old format were not read.",
        ),
        WarningCode.HIDDEN_TEXT_NOT_READ: ("{} hidden word was not read.", "{} hidden words were not read."),
        WarningCode.MEDIA_NOT_READ: ("{} video or sound was not read.", "{} videos or sounds were not read."),
        WarningCode.PROMPTS_NOT_READ: (
            "{} prompt of an empty form field was not read.",
            "{} prompts of empty form fields were not read.",
        ),
        WarningCode.SHAPES_NOT_READ: ("{} shape was not read", "{} shapes were not read"),
        WarningCode.STRUCK_TEXT_NOT_READ: (
            "{} word that is struck through was not read.",
            "{} words that are struck through were not read.",
        ),
        WarningCode.SYMBOLS_NOT_READ: (
            "{} character of a symbol font has no equivalent and was not read.",
            "{} characters of symbol fonts have no equivalent and were not read.",
        ),
    }
)
"""Messages about one thing and about several things, in the order of the codes."""

_MAX_KINDS = 5


class UnreadContent:
    """Counter of the content that a parser does not read.

    Attributes:
        image_count: Number of images that were not read.
    """

    def __init__(self) -> None:
        self.image_count = 0
        self._counts: Counter[WarningCode] = Counter()
        self._kinds: dict[WarningCode, Counter[str]] = {}

    def add(self, code: WarningCode, count: int = 1, *, kind: str = "") -> None:
        """Count things that were not read.

        Args:
            code: Code of their warning.
            count: Number of things.
            kind: Kind of the things, for the end of the message; empty if the message needs none.
        """
        self._counts[code] += count
        if kind:
            self._kinds.setdefault(code, Counter())[kind] += count

    def list_warnings(self) -> list[ServiceWarning]:
        """Return a warning for each kind of content that was not read: images first, then in the order of the codes."""
        warnings = list_image_warnings(self.image_count)
        for code, (singular, plural) in _MESSAGES.items():
            if count := self._counts[code]:
                message = (singular if count == 1 else plural).format(count)
                warnings.append(ServiceWarning(code, message + self._format_kinds(code), count))
        return warnings

    def _format_kinds(self, code: WarningCode) -> str:
        kinds = self._kinds.get(code)
        if kinds is None:
            return ""
        return ": " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(_MAX_KINDS)) + "."
