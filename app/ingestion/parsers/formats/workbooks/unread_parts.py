"""Counts of the parts of a workbook that the parser does not read, and their warnings."""

from collections import Counter
from dataclasses import dataclass, field

from app.warnings import ServiceWarning, WarningCode

# Singular and plural of each kind of part, with the code of its warning.
_KINDS = {
    WarningCode.HIDDEN_SHEETS_NOT_READ: ("hidden sheet", "hidden sheets"),
    WarningCode.DAMAGED_SHEETS_NOT_READ: ("damaged sheet", "damaged sheets"),
    WarningCode.IMAGES_NOT_READ: ("image", "images"),
    WarningCode.COMMENTS_NOT_READ: ("comment", "comments"),
    WarningCode.FORMULAS_WITHOUT_VALUES: ("formula without a stored value", "formulas without a stored value"),
    WarningCode.EMBEDDED_DOCUMENTS_NOT_READ: ("embedded document", "embedded documents"),
    WarningCode.EXTERNAL_LINKS_NOT_READ: ("link to another workbook", "links to other workbooks"),
    WarningCode.PIVOT_CACHES_NOT_READ: ("pivot cache", "pivot caches"),
    WarningCode.NUMBER_FORMATS_NOT_READ: ("sheet's number formats", "sheets' number formats"),
}


@dataclass(slots=True)
class UnreadParts:
    """Numbers of parts that are not read.

    Attributes:
        counts: Number of parts by the code of their warning.
        other_sheets: Number of macro, dialog and chart sheets, by kind.
    """

    counts: Counter[WarningCode] = field(default_factory=Counter)
    other_sheets: Counter[str] = field(default_factory=Counter)

    def list_warnings(self) -> list[ServiceWarning]:
        """Return a warning for each kind of part that is not read, with its count."""
        warnings = [
            ServiceWarning(code, f"{count} {names[count != 1]} {'was' if count == 1 else 'were'} not read.", count)
            for code, names in _KINDS.items()
            if (count := self.counts[code])
        ]
        others = [f"{count} {name} sheet{'s' * (count != 1)}" for name, count in self.other_sheets.items() if count]
        total = self.other_sheets.total()
        if total:
            message = f"{' and '.join(others)} {'was' if total == 1 else 'were'} not read."
            warnings.append(ServiceWarning(WarningCode.OTHER_SHEETS_NOT_READ, message, total))
        return warnings
