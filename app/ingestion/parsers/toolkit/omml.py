"""Equations of Office files (OMML) as linear text, such as ``x = 12/34`` and ``√(x²+1)``."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

from app.ingestion.parsers.toolkit.ooxml import (
    Element,
    find_child,
    get_attribute,
    get_tag,
    is_switched_on,
)
from app.ingestion.parsers.toolkit.superscripts import format_subscript, format_superscript


class _Binding(IntEnum):
    """Strength of the parts of a term: a sum needs brackets where a product or an atom needs none."""

    ATOM = 0
    PRODUCT = 1
    SUM = 2


@dataclass(frozen=True, slots=True)
class _Term:
    """Linear text of a part of an equation.

    Attributes:
        text: The text.
        binding: What the text needs before it becomes a part of another structure.
        structure: Tag of the structure that the text is; empty for several of them, ``m:r`` for plain characters.
    """

    text: str
    binding: _Binding = _Binding.ATOM
    structure: str = ""


_EMPTY = _Term("")
_Children = list[tuple[str, _Term]]

_NUMBER_OR_WORD = re.compile(r"(?:[^\W\d_][\u0300-\u036f]*)+|[^\W_]|\d+(?:[.,]\d+)*|[∞∅…°%]")
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\|[^|]*\|")
_PRODUCT = re.compile(r"[\w.\u0300-\u036f′″°⁰-₟·×⋅*!]+")
_RAISED_DIGIT = re.compile(r"[⁰¹²³⁴-₟]\Z")
_ACCENTS = MappingProxyType(
    {
        "^": "\u0302", "ˆ": "\u0302", "~": "\u0303", "˜": "\u0303", "¯": "\u0304", "‾": "\u0304", "˙": "\u0307",
        "¨": "\u0308", "ˇ": "\u030c", "´": "\u0301", "`": "\u0300", "˘": "\u0306", "→": "\u20d7", "←": "\u20d6",
    }
)  # fmt: skip
_ROOT_SIGNS = MappingProxyType({"": "√", "2": "√", "3": "∛", "4": "∜"})
_MARKS = "′″‴*†‡°'’"
"""Marks that are raised in their normal form."""

_LEFT_OUT = frozenset({"w:del", "w:moveFrom", "w:delText", "w:rPr", "w:instrText", "a:rPr", "a:endParaRPr"})


def format_equation(element: Element) -> str:
    """Return an equation as linear text.

    A fraction is ``a/b``, a power is ``x^2`` or ``x^(a+b)``, a root is ``√(x)``, a sum is ``∑_(i=1)^n x``, and a matrix
    is ``[a, b; c, d]``. Brackets appear only where the text would be read otherwise. The function uses a stack in the
    place of recursion, because equations may be nested deeper than Python can recurse.

    Args:
        element: An equation (``m:oMath``), a paragraph of equations (``m:oMathPara``), or an element around them.

    Returns:
        The text. The equations of a paragraph are on separate lines.
    """
    stack: list[tuple[Element, str, Iterator[Element], _Children]] = [
        (element, get_tag(element), _iter_parts(element), [])
    ]
    while True:
        parent, tag, children, terms = stack[-1]
        child = next(children, None)
        if child is not None:
            stack.append((child, get_tag(child), _iter_parts(child), []))
            continue
        stack.pop()
        term = _format_structure(parent, tag, terms)
        if not stack:
            return term.text.strip()
        stack[-1][3].append((tag, term))


def _iter_parts(element: Element) -> Iterator[Element]:
    """Yield the children that are visible; of alternatives, the first."""
    tag = get_tag(element)
    if tag == "mc:AlternateContent":
        choice = find_child(element, "mc:Choice")
        element = choice if choice is not None else find_child(element, "mc:Fallback")
    elif tag == "w:sdt":
        element = find_child(element, "w:sdtContent")
    for child in element if element is not None else ():
        name = get_tag(child)
        if name and name not in _LEFT_OUT and not (name.startswith("m:") and name.endswith("Pr")):
            yield child


def _format_structure(element: Element, tag: str, children: _Children) -> _Term:
    if tag in ("m:t", "w:t", "a:t"):
        return _format_characters(element)
    if tag in ("w:br", "a:br"):
        return _Term(" ", _Binding.SUM, "m:r")
    formatter = _FORMATTERS.get(tag)
    if formatter is not None:
        return formatter(element, children)
    return _join_terms([term for _, term in children])


def _format_characters(element: Element) -> _Term:
    text = element.text or ""
    core = text.strip()
    if _NUMBER_OR_WORD.fullmatch(core) or _BRACKETED.fullmatch(core):
        binding = _Binding.ATOM
    else:
        binding = _Binding.PRODUCT if _PRODUCT.fullmatch(core) else _Binding.SUM
    return _Term(text, binding, "m:r")


def _join_terms(terms: list[_Term]) -> _Term:
    """Join the parts of a row. A space divides parts that would be read as one number or one word."""
    terms = [term for term in terms if term.text]
    if len(terms) <= 1:
        return terms[0] if terms else _EMPTY
    pieces, previous = [terms[0].text], terms[0]
    for term in terms[1:]:
        if _needs_space(previous, term):
            pieces.append(" ")
        pieces.append(term.text)
        previous = term
    is_plain = all(term.structure == "m:r" for term in terms)
    text = "".join(pieces)
    if is_plain:
        return _Term(text, _measure_row(text, terms), "m:r")
    binding = max(max(term.binding for term in terms), _Binding.PRODUCT)
    return _Term(text, binding)


def _measure_row(text: str, terms: list[_Term]) -> _Binding:
    """Return the binding of plain characters in several runs: 1 and 2 in two runs are the number 12."""
    core = text.strip()
    if len(core) <= 60 and (_NUMBER_OR_WORD.fullmatch(core) or _BRACKETED.fullmatch(core)):
        return _Binding.ATOM
    return max(max(term.binding for term in terms), _Binding.PRODUCT)


def _needs_space(left: _Term, right: _Term) -> bool:
    if left.structure == right.structure == "m:r":
        return False
    end, start = left.text[-1], right.text[0]
    if start.isdigit() and (end.isdigit() or _RAISED_DIGIT.match(end)):
        return True
    if right.structure == "m:nary" and not end.isspace():
        return end.isalnum() or end in ")]"
    if left.structure == "m:f":
        return start.isalnum() or start in "([√"
    if right.structure in ("m:f", "m:func", "m:limLow", "m:limUpp"):
        return end.isalnum()
    if left.structure in ("m:sSup", "m:func"):
        has_plain_end = left.structure == "m:func" or "^" in left.text or "_" in left.text
        return start.isalnum() and end.isalnum() and has_plain_end
    return left.structure == "m:nary" and (start.isalnum() or start == "(")


def _wrap(term: _Term, limit: _Binding = _Binding.ATOM) -> str:
    """Return the text, in brackets if it binds more loosely than the limit."""
    text = term.text.strip()
    return f"({text})" if term.binding > limit else text


def _get(children: _Children, tag: str) -> _Term:
    return next((term for name, term in children if name == tag), _EMPTY)


def _get_property(element: Element, properties: str, name: str, default: str) -> str:
    """Return the value of a property; the default if the property is missing. An empty value stays empty."""
    child = find_child(element, properties, name)
    return default if child is None else get_attribute(child, "val")


def _format_fraction(element: Element, children: _Children) -> _Term:
    above, below = _get(children, "m:num"), _get(children, "m:den")
    if _get_property(element, "m:fPr", "m:type", "bar") == "noBar":
        return _Term(f"{above.text.strip()} choose {below.text.strip()}", _Binding.SUM, "m:f")
    numerator = f"({above.text.strip()})" if above.structure == "m:f" else _wrap(above, _Binding.PRODUCT)
    return _Term(f"{numerator}/{_wrap(below)}", _Binding.PRODUCT, "m:f")


def _raise(base: str, term: _Term) -> str:
    text = term.text.strip()
    if not base or not text or all(character in _MARKS for character in text):
        return text
    # The letter keeps a short exponent, such as the n of 2^n, from being read as an ordinal.
    raised = format_superscript(text, before="x")
    is_ambiguous = raised in (text, f"^{text}") and len(text) > 1 and not text.isdecimal()
    return f"^({text})" if is_ambiguous else f"^{text}" if raised == text else raised


def _lower(term: _Term) -> str:
    text = term.text.strip()
    lowered = format_subscript(text, before="x")
    return f"_{text}" if lowered == text and text else lowered


def _format_scripts(element: Element, children: _Children) -> _Term:
    del element
    base = _wrap(_get(children, "m:e"))
    text = base + _lower(_get(children, "m:sub")) + _raise(base, _get(children, "m:sup"))
    return _Term(text, _Binding.ATOM, "m:sSup")


def _format_leading_scripts(element: Element, children: _Children) -> _Term:
    del element
    text = _raise("x", _get(children, "m:sup")) + _lower(_get(children, "m:sub"))
    return _Term(text + _wrap(_get(children, "m:e")), _Binding.ATOM, "m:sPre")


def _format_root(element: Element, children: _Children) -> _Term:
    degree = _get(children, "m:deg").text.strip()
    if is_switched_on(find_child(element, "m:radPr", "m:degHide")):
        degree = ""
    content = _get(children, "m:e").text.strip()
    sign = _ROOT_SIGNS.get(degree)
    text = f"{sign}({content})" if sign else f"root({degree}; {content})"
    return _Term(text, _Binding.ATOM, "m:rad")


def _format_limits(sign: str, below: _Term, above: _Term) -> str:
    return sign + _lower(below) + _raise("x", above)


def _format_nary(element: Element, children: _Children) -> _Term:
    sign = _get_property(element, "m:naryPr", "m:chr", "∫") or "∫"
    head = _format_limits(sign, _get(children, "m:sub"), _get(children, "m:sup"))
    content = _get(children, "m:e").text.strip()
    return _Term(f"{head} {content}".strip(), _Binding.SUM, "m:nary")


def _format_delimiters(element: Element, children: _Children) -> _Term:
    opening = _get_property(element, "m:dPr", "m:begChr", "(")
    closing = _get_property(element, "m:dPr", "m:endChr", ")")
    separator = _get_property(element, "m:dPr", "m:sepChr", "|")
    terms = [term for tag, term in children if tag == "m:e"]
    texts = [
        term.text.strip()[1:-1] if term.structure == "m:m" and len(terms) == 1 and opening else term.text.strip()
        for term in terms
    ]
    text = (", " if separator == "," else separator).join(texts)
    return _Term(f"{opening}{text}{closing}", _Binding.ATOM if opening and closing else _Binding.SUM, "m:d")


def _format_matrix(element: Element, children: _Children) -> _Term:
    del element
    rows = [term.text.strip() for tag, term in children if tag == "m:mr"]
    return _Term(f"[{'; '.join(rows)}]", _Binding.ATOM, "m:m")


def _format_matrix_row(element: Element, children: _Children) -> _Term:
    del element
    return _Term(", ".join(term.text.strip() for tag, term in children if tag == "m:e"), _Binding.SUM)


def _format_lines(element: Element, children: _Children) -> _Term:
    """Join the lines of an array of equations. The sign & only aligns them."""
    del element
    lines = [term.text.replace("&", "").strip() for tag, term in children if tag == "m:e"]
    return _Term("; ".join(line for line in lines if line), _Binding.SUM)


def _format_accent(element: Element, children: _Children) -> _Term:
    base = _get(children, "m:e")
    text = base.text.strip()
    sign = _get_property(element, "m:accPr", "m:chr", "\u0302") or "\u0302"
    mark = sign if unicodedata.combining(sign[0]) else _ACCENTS.get(sign, "")
    return _Term(unicodedata.normalize("NFC", text + mark) if text else "", base.binding, base.structure)


def _format_bar(element: Element, children: _Children) -> _Term:
    base = _get(children, "m:e")
    text = base.text.strip()
    if _get_property(element, "m:barPr", "m:pos", "bot") != "top" or not text:
        return base
    if len(text) > 1:
        return _Term(f"bar({text})", _Binding.ATOM, "m:func")
    return _Term(unicodedata.normalize("NFC", text + "\u0304"), base.binding, base.structure)


def _format_group_sign(element: Element, children: _Children) -> _Term:
    """Return the content of a brace, or an arrow with the text above it."""
    base = _get(children, "m:e")
    sign = _get_property(element, "m:groupChrPr", "m:chr", "⏟")
    is_arrow = bool(sign) and "ARROW" in unicodedata.name(sign[0], "")
    return _Term(f" {sign}({base.text.strip()}) ", _Binding.SUM) if is_arrow else base


def _format_limit(element: Element, children: _Children) -> _Term:
    base, limit = _get(children, "m:e"), _get(children, "m:lim")
    is_below = get_tag(element) == "m:limLow"
    text = _format_limits(_wrap(base), limit if is_below else _EMPTY, _EMPTY if is_below else limit)
    return _Term(text, _Binding.ATOM, get_tag(element))


def _format_function(element: Element, children: _Children) -> _Term:
    del element
    name, argument = _get(children, "m:fName"), _get(children, "m:e")
    title, text = name.text.strip(), argument.text.strip()
    if not title or not text:
        return _Term(title + text, argument.binding, "m:func")
    if name.structure in ("m:limLow", "m:limUpp"):
        return _Term(f"{title} {text}", _Binding.SUM, "m:func")
    return _Term(title + (text if argument.structure == "m:d" else f"({text})"), _Binding.ATOM, "m:func")


def _format_phantom(element: Element, children: _Children) -> _Term:
    show = find_child(element, "m:phantPr", "m:show")
    return _get(children, "m:e") if show is None or is_switched_on(show) else _EMPTY


def _format_paragraph(element: Element, children: _Children) -> _Term:
    del element
    lines = [term.text.strip() for _, term in children]
    return _Term("\n".join(line for line in lines if line), _Binding.SUM)


_FORMATTERS: MappingProxyType[str, Callable[[Element, _Children], _Term]] = MappingProxyType(
    {
        "m:f": _format_fraction,
        "m:sSup": _format_scripts,
        "m:sSub": _format_scripts,
        "m:sSubSup": _format_scripts,
        "m:sPre": _format_leading_scripts,
        "m:rad": _format_root,
        "m:nary": _format_nary,
        "m:d": _format_delimiters,
        "m:m": _format_matrix,
        "m:mr": _format_matrix_row,
        "m:eqArr": _format_lines,
        "m:acc": _format_accent,
        "m:bar": _format_bar,
        "m:groupChr": _format_group_sign,
        "m:limLow": _format_limit,
        "m:limUpp": _format_limit,
        "m:func": _format_function,
        "m:phant": _format_phantom,
        "m:oMathPara": _format_paragraph,
    }
)
