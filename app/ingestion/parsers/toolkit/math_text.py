"""Linear text of the parts of a formula: fractions, roots, powers, rows and matrices."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.superscripts import format_superscript

_SPACED_OPERATORS = frozenset("=+-−±∓×·⋅∗*÷<>≤≥≠≈≡∼≃≅∝→←↔⇒⇐⇔↦∈∉⊂⊆⊃⊇∪∩∧∨:∣≪≫⟶⟹")
_OPENING, _CLOSING = frozenset("([{⟨⌈⌊"), frozenset(")]}⟩⌉⌋")
_MAX_BRACKETED = 500
_INVISIBLE = frozenset("\u2061\u2062\u2063\u2064\u200b")
_ACCENTS = {
    "^": "\u0302", "ˆ": "\u0302", "~": "\u0303", "˜": "\u0303", "¯": "\u0304", "‾": "\u0304", "_": "\u0304",
    "―": "\u0304", "→": "\u20d7", "⃗": "\u20d7", "˙": "\u0307", ".": "\u0307", "¨": "\u0308", "..": "\u0308",
    "ˇ": "\u030c", "´": "\u0301", "`": "\u0300", "˘": "\u0306",
}  # fmt: skip
_PRIMES = frozenset("′″‴'†‡°∘")


@dataclass(slots=True)
class Term:
    """Part of a formula as linear text.

    Attributes:
        text: The text.
        is_atom: Whether the text needs no parentheses as an operand.
        kind: operator, number, identifier, text, power, fraction, root, matrix or row.
        name: Name of an empty element of Content MathML, such as ``plus``.
        cells: Cells of a row of a matrix.
    """

    text: str
    is_atom: bool = False
    kind: str = "row"
    name: str = ""
    cells: list["Term"] = field(default_factory=list)

    @property
    def grouped(self) -> str:
        """Text in parentheses, unless it needs none."""
        return self.text if self.is_atom or not self.text or _is_bracketed(self.text) else f"({self.inner_text})"

    @property
    def inner_text(self) -> str:
        """Text for a place inside brackets: a matrix needs no brackets there."""
        return self.text[1:-1] if self.kind == "matrix" else self.text


def _is_bracketed(text: str) -> bool:
    """Return whether the bracket at the start of a short text is closed at its end, and not before."""
    if text[0] not in _OPENING or text[-1] not in _CLOSING or len(text) > _MAX_BRACKETED:
        return False
    depth = 0
    for character in text[:-1]:
        depth += (character in _OPENING) - (character in _CLOSING)
        if depth == 0:
            return False
    return True


def format_fraction(numerator: Term, denominator: Term, *, is_binomial: bool = False) -> Term:
    """Format a fraction, such as ``12/34`` or ``(a + b)/2``.

    Args:
        numerator: Part above the line.
        denominator: Part below the line.
        is_binomial: Whether the fraction has no line, which means a binomial coefficient.
    """
    if is_binomial:
        return Term(f"({numerator.text} choose {denominator.text})", is_atom=True)
    sides = [term.text if term.is_atom or term.kind == "power" else term.grouped for term in (numerator, denominator)]
    return Term("/".join(sides), kind="fraction")


def format_root(content: Term, index: Term) -> Term:
    """Format a root, such as ``√(2)``. The index is before the sign as a superscript, such as ``³√(8)``.

    Args:
        content: Part below the root.
        index: Index of the root; empty for a square root.
    """
    degree = index.text.strip()
    raised = format_superscript(degree, before="") if degree and degree != "2" else ""
    if raised and raised == degree:
        return Term(f"root({content.text}, {degree})", is_atom=True, kind="root")
    return Term(f"{raised}√({content.inner_text})", is_atom=True, kind="root")


def format_scripts(base: Term, sub: Term, sup: Term, *, has_accents: bool = False) -> Term:
    """Format a base with a subscript and a superscript, such as ``x_1^2`` and ``∑_(i=1)^n``.

    Args:
        base: The base.
        sub: Subscript, or the part below; empty if there is none.
        sup: Superscript, or the part above; empty if there is none.
        has_accents: Whether a sign above or below is an accent, such as a bar.
    """
    mark = _ACCENTS.get(sup.text.strip()) if has_accents and sup.text else None
    if mark is not None:
        letter = base.text.strip()
        return Term(letter + mark, is_atom=True, kind=base.kind) if len(letter) == 1 else _format_long(letter, mark)
    text = base.grouped
    if sub.text.strip():
        text += f"_{_shorten(sub)}"
    raised = sup.text.strip()
    if raised:
        text += raised if raised in _PRIMES else f"^{_shorten(sup)}"
    return Term(text, is_atom=False, kind="operator" if base.kind == "operator" and len(base.text) == 1 else "power")


def _format_long(text: str, mark: str) -> Term:
    names = {"\u0304": "bar", "\u0302": "hat", "\u0303": "tilde", "\u20d7": "vec", "\u0307": "dot", "\u0308": "ddot"}
    return Term(f"{names.get(mark, 'over')}({text})", is_atom=True)


def _shorten(term: Term) -> str:
    """Return a script in parentheses, unless it is one number, name or sign. Spaces around operators are left out."""
    text = term.inner_text.strip()
    if term.is_atom or len(text) == 1:
        return text
    return text if text.isalnum() else f"({text.replace(' = ', '=').replace(' + ', '+').replace(' − ', '−')})"


def format_matrix(rows: Sequence[Sequence[Term]]) -> Term:
    """Format a matrix as ``[1, 0; 0, 1]``. The rows of aligned equations are joined by semicolons without brackets.

    Args:
        rows: Cells of the rows.
    """
    texts = [[cell.text.strip() for cell in row] for row in rows]
    is_aligned = any(text[:1] in _SPACED_OPERATORS for row in texts for text in row[1:] if len(text) > 1)
    if is_aligned or max((len(row) for row in texts), default=0) == 1:
        lines = [" ".join(text for text in row if text) for row in texts]
        return Term("; ".join(line for line in lines if line), kind="row")
    return Term("[" + "; ".join(", ".join(row) for row in texts) + "]", is_atom=True, kind="matrix")


def join_terms(terms: Sequence[Term]) -> Term:
    """Join the terms of a row: operators between operands get spaces, and numbers are never joined.

    Args:
        terms: The terms in reading order.
    """
    parts: list[str] = []
    previous: Term | None = None
    visible = [term for term in terms if term.text.strip()]
    for index, term in enumerate(visible):
        text = term.text.strip()
        if text[0] in _INVISIBLE and len(text) == 1:
            # An invisible operator: function application, or a product.
            if text == "\u2061" and index + 1 < len(visible) and visible[index + 1].text.strip()[0] not in _OPENING:
                parts.append(" ")
            continue
        if term.kind == "matrix" and previous is not None and previous.text.strip() in ("(", "[", "{", "|", "‖"):
            text = term.inner_text
        is_infix = term.kind == "operator" and text[0] in _SPACED_OPERATORS and len(text) <= 3
        if is_infix and previous is not None and not _is_prefix_position(previous) and index + 1 < len(visible):
            parts.append(f" {text} ")
        elif is_infix and text[0] in "=<>≤≥≠≈→⇒≡":
            parts.append(f"{text} " if index + 1 < len(visible) else f" {text}")
        else:
            if previous is not None and _needs_space(previous, term):
                parts.append(" ")
            parts.append(f"{text} " if text in (",", ";") else text)
        previous = term
    return Term(" ".join("".join(parts).split()), kind=visible[0].kind if len(visible) == 1 else "row",
                is_atom=len(visible) == 1 and visible[0].is_atom)  # fmt: skip


def _is_prefix_position(previous: Term) -> bool:
    """Return whether a sign after a term is a prefix, such as the minus in ``(−1)`` or ``= −1``."""
    text = previous.text.strip()
    return previous.kind == "operator" and text[-1] not in _CLOSING and text[-1] not in "|!′‖%"


def _needs_space(previous: Term, term: Term) -> bool:
    before, after = previous.text.strip()[-1], term.text.strip()[0]
    if previous.kind == "text" or term.kind == "text":
        return previous.text[-1:] not in _OPENING and term.text[:1] not in _CLOSING and after not in ",.;"
    if after in _CLOSING or before in _OPENING or previous.kind == "operator" or term.kind == "operator":
        is_large = previous.kind == "operator" and (before.isalpha() or len(previous.text.strip()) > 1)
        return is_large and (after.isalnum() or after in "√∑∫")
    if "fraction" in (previous.kind, term.kind):
        return True
    if after.isdigit() or (before.isdigit() and previous.kind == "power"):
        return True
    is_long = len(previous.text.strip()) > 1 and previous.text.strip().isalpha()
    return is_long or (len(term.text.strip()) > 1 and term.text.strip().isalpha()) or previous.kind == "power"
