"""Equations of Office files as linear text."""

import pytest
from lxml import etree  # type: ignore[import-untyped]  # lxml ships no types

from app.ingestion.parsers.toolkit.omml import format_equation
from tests.ingestion.parsers.word import NAMESPACES


def read(content: str, tag: str = "m:oMath") -> str:
    return format_equation(etree.fromstring(f"<{tag} {NAMESPACES}>{content}</{tag}>"))


def r(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


def fraction(above: str, below: str, kind: str = "") -> str:
    properties = f'<m:fPr><m:type m:val="{kind}"/></m:fPr>' if kind else ""
    return f"<m:f>{properties}<m:num>{above}</m:num><m:den>{below}</m:den></m:f>"


def power(base: str, exponent: str) -> str:
    return f"<m:sSup><m:e>{base}</m:e><m:sup>{exponent}</m:sup></m:sSup>"


def index(base: str, below: str) -> str:
    return f"<m:sSub><m:e>{base}</m:e><m:sub>{below}</m:sub></m:sSub>"


def root(content: str, degree: str = "") -> str:
    return f"<m:rad><m:deg>{degree}</m:deg><m:e>{content}</m:e></m:rad>"


def nary(sign: str, below: str, above: str, content: str) -> str:
    properties = f'<m:naryPr><m:chr m:val="{sign}"/></m:naryPr>' if sign else ""
    return f"<m:nary>{properties}<m:sub>{below}</m:sub><m:sup>{above}</m:sup><m:e>{content}</m:e></m:nary>"


def brackets(content: str, opening: str = "", closing: str = "") -> str:
    properties = f'<m:dPr><m:begChr m:val="{opening}"/><m:endChr m:val="{closing}"/></m:dPr>' if opening else ""
    return f"<m:d>{properties}<m:e>{content}</m:e></m:d>"


def matrix(*rows: tuple[str, ...]) -> str:
    return (
        f"<m:m>{''.join('<m:mr>' + ''.join(f'<m:e>{r(cell)}</m:e>' for cell in row) + '</m:mr>' for row in rows)}</m:m>"
    )


def accent(sign: str, content: str) -> str:
    return f'<m:acc><m:accPr><m:chr m:val="{sign}"/></m:accPr><m:e>{content}</m:e></m:acc>'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (r("x=") + fraction(r("12"), r("34")), "x=12/34"),
        (
            r("x=") + fraction(r("12"), r("34")) + r("·") + power(r("10"), r("6")) + r("·") + root(r("2")),
            "x=12/34·10⁶·√(2)",
        ),
        (fraction(r("a+b"), r("2c")), "(a+b)/(2c)"),
        (fraction(r("1") + r("2"), r("3") + r("4")), "12/34"),
        (fraction(r("-") + r("b") + r("±") + root(r("c")), r("2") + r("a")), "(-b±√(c))/(2a)"),
        (fraction(r("a") + r("·") + r("b"), r("c")), "a·b/c"),
        (fraction(r("1"), r("∞")), "1/∞"),
        (fraction(fraction(r("a"), r("b")), r("c")), "(a/b)/c"),
        (fraction(r("a"), fraction(r("b"), r("c"))), "a/(b/c)"),
        (r("2") + fraction(r("1"), r("2")), "2 1/2"),
        (fraction(r("1"), r("2")) + brackets(r("a+b")), "1/2 (a+b)"),
        (brackets(fraction(r("n"), r("k"), "noBar")), "(n choose k)"),
        (r("E=m") + power(r("c"), r("2")), "E=mc²"),
        (r("2") + power(r("10"), r("6")), "2 10⁶"),
        (power(r("2"), r("x")), "2^x"),
        (power(r("e"), r("iπ")), "e^(iπ)"),
        (power(brackets(r("a+b")), r("2")), "(a+b)²"),
        (power(r("a+b"), r("2")), "(a+b)²"),
        (power(r("x"), r("a")) + r("b"), "x^a b"),
        (index(r("H"), r("2")) + r("O"), "H₂O"),
        (index(r("x"), r("ij")), "x_ij"),
        (f"<m:sSubSup><m:e>{r('x')}</m:e><m:sub>{r('1')}</m:sub><m:sup>{r('2')}</m:sup></m:sSubSup>", "x₁²"),
        (f"<m:sPre><m:sub>{r('6')}</m:sub><m:sup>{r('14')}</m:sup><m:e>{r('C')}</m:e></m:sPre>", "¹⁴₆C"),
        (root(r("x+1"), r("3")), "∛(x+1)"),
        (root(r("x"), r("n")), "root(n; x)"),
        (nary("∑", r("i=1"), r("n"), index(r("x"), r("i"))), "∑_(i=1)ⁿ x_i"),
        (nary("", r("0"), r("∞"), r("f(x)dx")), "∫₀^∞ f(x)dx"),
        (brackets(matrix(("1", "2"), ("3", "4")), "[", "]"), "[1, 2; 3, 4]"),
        (matrix(("a", "b")), "[a, b]"),
        (brackets(f"<m:eqArr><m:e>{r('x&amp;=1')}</m:e><m:e>{r('y&amp;=2')}</m:e></m:eqArr>", "{", ""), "{x=1; y=2"),
        (accent("\u0302", r("y")), "ŷ"),
        (accent("\u20d7", r("F")), "F\u20d7"),
        (accent("¯", r("x")), "x̄"),
        (f'<m:bar><m:barPr><m:pos m:val="top"/></m:barPr><m:e>{r("AB")}</m:e></m:bar>', "bar(AB)"),
        (f"<m:func><m:fName>{r('sin')}</m:fName><m:e>{r('x')}</m:e></m:func>", "sin(x)"),
        (f"<m:func><m:fName>{r('log')}</m:fName><m:e>{brackets(r('x+1'))}</m:e></m:func>", "log(x+1)"),
        (
            f"<m:func><m:fName><m:limLow><m:e>{r('lim')}</m:e><m:lim>{r('x→0')}</m:lim></m:limLow></m:fName>"
            f"<m:e>{fraction(r('1'), r('x'))}</m:e></m:func>",
            "lim_(x→0) 1/x",
        ),
        (f"<m:borderBox><m:e>{r('a=1')}</m:e></m:borderBox>", "a=1"),
        (f'<m:phant><m:phantPr><m:show m:val="0"/></m:phantPr><m:e>{r("x")}</m:e></m:phant>{r("y")}', "y"),
        (f"<w:ins>{r('new')}</w:ins><w:del>{r('old')}</w:del>", "new"),
        (f"<m:unknown>{r('kept')}</m:unknown>", "kept"),
        ("", ""),
    ],
)  # fmt: skip
def test_format_equation_structure_becomes_linear_text(content: str, text: str) -> None:
    assert read(content) == text


def test_format_equation_paragraph_has_a_line_for_each_equation() -> None:
    content = f"<m:oMath>{r('a=1')}</m:oMath><m:oMath>{r('b=2')}</m:oMath>"
    assert read(content, "m:oMathPara") == "a=1\nb=2"


@pytest.mark.parametrize("left", [fraction(r("1"), r("2")), power(r("3"), r("4")), index(r("5"), r("6")), root(r("7"))])
@pytest.mark.parametrize("right", [fraction(r("1"), r("2")), power(r("3"), r("4")), index(r("5"), r("6")), r("8")])
def test_format_equation_neighbors_never_join_their_digits(left: str, right: str) -> None:
    first, second = read(left), read(right)
    assert read(left + right) == (first + second if first.endswith(")") else f"{first} {second}")


def test_format_equation_deep_nesting_needs_no_recursion() -> None:
    element = etree.Element("{http://schemas.openxmlformats.org/officeDocument/2006/math}oMath")
    inner = element
    for _ in range(5_000):
        inner = etree.SubElement(inner, "{http://schemas.openxmlformats.org/officeDocument/2006/math}e")
    inner.append(etree.fromstring(f"<m:t {NAMESPACES}>x</m:t>"))
    assert format_equation(element) == "x"
