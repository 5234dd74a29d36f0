"""Fields of RTF files: links, symbols, equations, check boxes and lists of choices."""

import re
from dataclasses import dataclass, field

_ADDRESS = re.compile(r'\A\s*+HYPERLINK\s++(?:\\[a-z]\s++)*+(?:"([^"]*+)"|([^\s"\\]++))', re.IGNORECASE)
_SYMBOL = re.compile(r'\A\s*+SYMBOL\s++(0x[0-9a-f]{1,4}|\d{1,5})(?:.*?\\f\s*+"?([^"\\]{1,60})"?)?', re.IGNORECASE)
_EQUATION = re.compile(r"\A\s*+EQ\s", re.IGNORECASE)
_FRACTION = re.compile(r"\\f\s*+\(([^()\\]{1,200})[,;]([^()\\]{1,200})\)", re.IGNORECASE)
_DEFAULT_RESULT = 25
_CHECK_BOX, _CHOICES = 1, 2


@dataclass(slots=True)
class FormField:
    """Element of a form.

    Attributes:
        kind: 0 for text, 1 for a check box, 2 for a list of choices.
        result: Number of the state or choice; 25 for the default.
        default: Number of the default.
        choices: Texts of the choices.
    """

    kind: int = 0
    result: int = _DEFAULT_RESULT
    default: int = 0
    choices: list[str] = field(default_factory=list)

    def format_result(self) -> str:
        """Return the state of a check box, or the text of a choice; empty for a field of text."""
        number = self.default if self.result == _DEFAULT_RESULT else self.result
        if self.kind == _CHECK_BOX:
            return "☒" if number else "☐"
        if self.kind == _CHOICES and 0 <= number < len(self.choices):
            return self.choices[number]
        return ""


@dataclass(slots=True)
class FieldState:
    """Open field: its instruction, and what its result has added to the text.

    Attributes:
        instruction: Parts of the instruction.
        form: Element of a form; None if the field is none.
        has_result: Whether the result has text.
        is_link_open: Whether the result is the text of a link that must be closed.
    """

    instruction: list[str] = field(default_factory=list)
    form: FormField | None = None
    has_result: bool = False
    is_link_open: bool = False

    def find_address(self) -> str:
        """Return the address of a link; empty if the field is no link to another file."""
        match = _ADDRESS.match("".join(self.instruction))
        return (match[1] or match[2] or "") if match else ""

    def find_symbol(self) -> tuple[int, str] | None:
        """Return the code and the font of a symbol; None if the field is no symbol."""
        match = _SYMBOL.match("".join(self.instruction)[:300])
        return (int(match[1], 0), (match[2] or "").strip()) if match else None

    @property
    def is_equation(self) -> bool:
        """Whether the field is an equation, which has no result."""
        return _EQUATION.match("".join(self.instruction)) is not None

    def format_equation(self) -> str:
        """Return the fractions of an equation as linear text; empty if the equation has other parts."""
        text = _EQUATION.sub("", "".join(self.instruction)[:1000], count=1)
        text = _FRACTION.sub(lambda match: f"{_add_parentheses(match[1])}/{_add_parentheses(match[2])}", text)
        return "" if "\\" in text else text.strip()


def _add_parentheses(term: str) -> str:
    term = term.strip()
    return term if term.replace(".", "").replace(",", "").isalnum() else f"({term})"
