"""MathML as linear text, such as ``x = 12/34`` and ``√(2)``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.ingestion.parsers.toolkit.math_text import (
    Term,
    format_fraction,
    format_matrix,
    format_root,
    format_scripts,
    join_terms,
)
from app.ingestion.parsers.toolkit.safe_xml import Element, get_local_name

MAX_ELEMENTS = 20_000
"""Maximum number of elements of one formula. The rest of a longer formula is left out."""

MAX_DEPTH = 100
"""Maximum depth of a formula. The texts of deeper elements are only joined by spaces."""

_IGNORED = frozenset({"annotation", "annotation-xml", "mphantom", "mspace", "none", "maligngroup", "malignmark"})
_TOKENS = frozenset({"mi", "mn", "mo", "ms", "mtext", "ci", "cn", "csymbol"})
_OPERATORS: Mapping[str, str] = {
    "plus": "+", "minus": "−", "times": "·", "eq": "=", "neq": "≠", "lt": "<", "gt": ">", "leq": "≤", "geq": "≥",
    "approx": "≈", "in": "∈", "and": "∧", "or": "∨", "union": "∪", "intersect": "∩", "equivalent": "≡",
}  # fmt: skip


@dataclass(slots=True)
class MathElement:
    """Element of a formula, independent of the library that parsed the file.

    Attributes:
        name: Local name in lower case.
        attributes: Attributes.
        children: Elements and texts in reading order.
    """

    name: str
    attributes: Mapping[str, str | None] = field(default_factory=dict)
    children: list["MathElement | str"] = field(default_factory=list)


def read_math_element(root: Element) -> MathElement:
    """Return an lxml element and its descendants as a ``MathElement``.

    Args:
        root: The ``math`` element.
    """
    result = MathElement("math")
    waiting = [(root, result)]
    count = 0
    while waiting and count < MAX_ELEMENTS:
        element, target = waiting.pop()
        if element.text:
            target.children.append(element.text)
        for child in element:
            count += 1
            if isinstance(child.tag, str):
                inner = MathElement(get_local_name(child).lower(), dict(child.attrib))
                target.children.append(inner)
                waiting.append((child, inner))
            if child.tail:
                target.children.append(child.tail)
    return result


def format_mathml(root: MathElement) -> str:
    """Return a formula as linear text on one line.

    Fractions and powers get parentheses only if they need them. The TeX of an annotation is the result if the formula
    has nothing else. The time is linear in the size of the formula.

    Args:
        root: The ``math`` element.
    """
    order: list[MathElement] = []
    waiting = [(root, 0)]
    while waiting and len(order) < MAX_ELEMENTS:
        element, depth = waiting.pop()
        order.append(element)
        if depth == MAX_DEPTH:
            element.children[:] = [_collect_text(element)]
        waiting.extend((child, depth + 1) for child in element.children if isinstance(child, MathElement))
    terms: dict[int, Term] = {}
    for element in reversed(order):
        children = [child for child in element.children if isinstance(child, MathElement) and id(child) in terms]
        terms[id(element)] = _format_element(element, [(child.name, terms.pop(id(child))) for child in children])
    return terms[id(root)].text.strip() or _find_annotation(order)


def _find_annotation(order: Sequence[MathElement]) -> str:
    for element in order:
        if element.name == "annotation" and "tex" in (element.attributes.get("encoding") or "").lower():
            return " ".join(_get_text(element).split())
    return ""


def _collect_text(element: MathElement) -> str:
    """Return all the texts in an element, separated by spaces."""
    texts: list[str] = []
    waiting: list[MathElement | str] = [element]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            texts.append(part)
        else:
            waiting.extend(reversed(part.children))
    return " ".join(" ".join(texts).split())


def _get_text(element: MathElement) -> str:
    return " ".join("".join(child for child in element.children if isinstance(child, str)).split())


def _format_element(element: MathElement, named: list[tuple[str, Term]]) -> Term:
    name = element.name
    if name in _IGNORED:
        return Term("")
    if name in _TOKENS:
        return _format_token(element, [term for _, term in named])
    terms = [term for child_name, term in named if child_name not in _IGNORED]
    if name == "semantics":
        return terms[0] if terms else Term("")
    if name == "maction":
        return _select(element, terms)
    if name == "mfenced":
        return _format_fenced(element, terms)
    if name == "mmultiscripts":
        return _format_multiscripts(named)
    if name == "mfrac":
        is_binomial = (element.attributes.get("linethickness") or "").strip() in ("0", "0px", "0pt", "0em")
        return format_fraction(_get(terms, 0), _get(terms, 1), is_binomial=is_binomial)
    formatter = _FORMATTERS.get(name)
    if formatter is not None:
        return formatter(terms)
    if not terms:
        return Term(_get_text(element), name=name)
    return Term(join_terms(terms).text, is_atom=len(terms) == 1 and terms[0].is_atom, kind=_get_row_kind(terms))


def _get_row_kind(terms: Sequence[Term]) -> str:
    return terms[0].kind if len(terms) == 1 else "row"


def _get(terms: Sequence[Term], index: int) -> Term:
    return terms[index] if index < len(terms) else Term("")


def _format_token(element: MathElement, inner: list[Term]) -> Term:
    text = " ".join([_get_text(element), *(term.text for term in inner)]).strip()
    if element.name == "ms" and text:
        text = f'"{text}"'
    kind = {"mo": "operator", "mn": "number", "cn": "number", "mtext": "text"}.get(element.name, "identifier")
    return Term(text, is_atom=" " not in text, kind=kind)


def _select(element: MathElement, terms: Sequence[Term]) -> Term:
    number = element.attributes.get("selection") or "1"
    index = int(number) - 1 if number.isdecimal() and 0 < int(number[:6]) <= len(terms) else 0
    return _get(terms, index)


def _format_fenced(element: MathElement, terms: Sequence[Term]) -> Term:
    attributes = element.attributes
    opening, closing = attributes.get("open"), attributes.get("close")
    separators = "".join((attributes.get("separators") or ",").split()) if "separators" in attributes else ","
    text = ""
    for index, term in enumerate(terms):
        if index and separators:
            text += f"{separators[min(index - 1, len(separators) - 1)]} "
        text += term.inner_text
    return Term(f"{'(' if opening is None else opening}{text}{')' if closing is None else closing}", is_atom=True)


def _format_multiscripts(named: Sequence[tuple[str, Term]]) -> Term:
    """Format scripts before and after a base: pairs of subscript and superscript, and after ``mprescripts`` again."""
    if not named:
        return Term("")
    names = [name for name, _ in named]
    middle = names.index("mprescripts") if "mprescripts" in names else len(named)
    before, after = [term for _, term in named[middle + 1 :]], [term for _, term in named[1:middle]]
    text = named[0][1].text
    for sub, sup in zip(after[::2], [*after[1::2], Term("")], strict=False):
        text = format_scripts(Term(text, is_atom=True), sub, sup).text
    leading = "".join(
        format_scripts(Term("", is_atom=True), sub, sup).text
        for sub, sup in zip(before[::2], [*before[1::2], Term("")], strict=False)
    )
    return Term(f"{leading} {text}" if leading and text[:1].isalnum() else leading + text, is_atom=False, kind="power")


def _format_apply(terms: list[Term]) -> Term:
    """Format an operator of Content MathML and its operands."""
    if not terms:
        return Term("")
    name, operands = terms[0].name, terms[1:]
    if name == "divide" and len(operands) == 2:
        return format_fraction(operands[0], operands[1])
    if name == "power" and len(operands) == 2:
        return format_scripts(operands[0], Term(""), operands[1])
    if name == "root":
        return format_root(_get(operands, len(operands) - 1), _get(operands, 0) if len(operands) > 1 else Term(""))
    sign = _OPERATORS.get(name)
    if sign is not None and operands:
        sides = [operand.text if operand.is_atom else operand.grouped for operand in operands]
        if name in ("eq", "neq", "lt", "gt", "leq", "geq", "approx", "equivalent", "plus"):
            sides = [operand.text for operand in operands]
        return Term(f" {sign} ".join(sides) if len(sides) > 1 else f"{sign}{sides[0]}", kind="row")
    return Term(f"{name or terms[0].text}({', '.join(operand.text for operand in operands)})", is_atom=True)


_FORMATTERS: Mapping[str, Callable[[list[Term]], Term]] = {
    "msup": lambda terms: format_scripts(_get(terms, 0), Term(""), _get(terms, 1)),
    "mover": lambda terms: format_scripts(_get(terms, 0), Term(""), _get(terms, 1), has_accents=True),
    "msub": lambda terms: format_scripts(_get(terms, 0), _get(terms, 1), Term("")),
    "munder": lambda terms: format_scripts(_get(terms, 0), _get(terms, 1), Term(""), has_accents=True),
    "msubsup": lambda terms: format_scripts(_get(terms, 0), _get(terms, 1), _get(terms, 2)),
    "munderover": lambda terms: format_scripts(_get(terms, 0), _get(terms, 1), _get(terms, 2)),
    "msqrt": lambda terms: format_root(join_terms(terms), Term("")),
    "mroot": lambda terms: format_root(_get(terms, 0), _get(terms, 1)),
    "mtable": lambda terms: format_matrix([term.cells or [term] for term in terms]),
    "mtr": lambda terms: Term(" ".join(term.text for term in terms), cells=list(terms)),
    "mlabeledtr": lambda terms: Term(" ".join(term.text for term in terms), cells=[*terms[1:], *terms[:1]]),
    "apply": _format_apply,
}
