"""MathML as linear text: fractions, powers, roots, matrices, accents, annotations and operators."""

import pytest

from app.ingestion.parsers.toolkit.mathml import MathElement, format_mathml, read_math_element
from app.ingestion.parsers.toolkit.safe_xml import read_xml

HALF = "<mfrac><mn>1</mn><mn>2</mn></mfrac>"
SQUARE = "<msup><mi>c</mi><mn>2</mn></msup>"
ONE, ZERO = "<mtd><mn>1</mn></mtd>", "<mtd><mn>0</mn></mtd>"
MATRIX = f"<mtable><mtr>{ONE}{ZERO}</mtr><mtr>{ZERO}{ONE}</mtr></mtable>"
TEX = "<annotation encoding='application/x-tex'>E=mc^2</annotation>"


def formatted(content: str) -> str:
    return format_mathml(read_math_element(read_xml(f"<math>{content}</math>")))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (f"<mi>x</mi><mo>=</mo>{HALF}", "x = 1/2"),
        (f"<mi>E</mi><mo>=</mo><mi>m</mi>{SQUARE}", "E = mc^2"),
        (f"<mn>1</mn>{HALF}", "1 1/2"),
        ("<mn>2</mn><mn>3</mn>", "2 3"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a + b)/2"),
        ("<mfrac><mn>1</mn><mrow><mn>2</mn><mi>a</mi></mrow></mfrac>", "1/(2a)"),
        (f"<mfrac>{SQUARE}<mn>4</mn></mfrac>", "c^2/4"),
        (f"<mfrac>{HALF}<mn>3</mn></mfrac>", "(1/2)/3"),
        ("<mfrac linethickness='0'><mi>n</mi><mi>k</mi></mfrac>", "(n choose k)"),
        ("<msqrt><mn>2</mn></msqrt>", "√(2)"),
        ("<msqrt><mi>a</mi><mo>+</mo><mi>b</mi></msqrt>", "√(a + b)"),
        ("<mroot><mn>8</mn><mn>3</mn></mroot>", "³√(8)"),
        ("<mn>3</mn><mo>×</mo><msup><mn>10</mn><mrow><mo>−</mo><mn>3</mn></mrow></msup>", "3 × 10^(−3)"),
        ("<msup><mrow><mo>(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mo>)</mo></mrow><mn>2</mn></msup>", "(a + b)^2"),
        ("<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x_1^2"),
        ("<msub><mi>x</mi><mrow><mi>i</mi><mo>,</mo><mi>j</mi></mrow></msub>", "x_(i, j)"),
        ("<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><msub><mi>x</mi><mi>i</mi></msub>",
         "∑_(i=1)^n x_i"),
        ("<munder><mi>lim</mi><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder><mi>f</mi>", "lim_(x → 0) f"),
        (f"<mo>(</mo>{MATRIX}<mo>)</mo>", "(1, 0; 0, 1)"),
        (f"<mfenced open='[' close=']'>{MATRIX}</mfenced>", "[1, 0; 0, 1]"),
        (f"<mi>A</mi><mo>=</mo>{MATRIX}", "A = [1, 0; 0, 1]"),
        ("<mtable><mtr><mtd><mi>y</mi></mtd><mtd><mo>=</mo><mn>2</mn></mtd></mtr><mtr><mtd/><mtd><mo>=</mo><mn>3</mn></mtd></mtr></mtable>",
         "y = 2; = 3"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
        ("<mi>sin</mi><mo>&#8289;</mo><mi>x</mi>", "sin x"),
        ("<mi>f</mi><mo>(</mo><mi>x</mi><mo>,</mo><mi>y</mi><mo>)</mo>", "f(x, y)"),
        ("<mi>x</mi><mo>=</mo><mo>-</mo><mn>1</mn>", "x = -1"),
        ("<mn>2</mn><mo>&#8290;</mo><mi>x</mi>", "2x"),
        ("<mover accent='true'><mi>x</mi><mo>¯</mo></mover>", "x̄"),
        ("<mover><mrow><mi>A</mi><mi>B</mi></mrow><mo>→</mo></mover>", "vec(AB)"),
        ("<msup><mi>f</mi><mo>′</mo></msup>", "f′"),
        ("<mtext>if </mtext><mi>x</mi><mo>&gt;</mo><mn>0</mn>", "if x > 0"),
        (f"<semantics><mi>a</mi>{TEX}</semantics>", "a"),
        (f"<semantics>{TEX}</semantics>", "E=mc^2"),
        ("<mi>a</mi><mphantom><mi>b</mi></mphantom>", "a"),
        ("<mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts>", "_6^14 C"),
        ("<apply><eq/><ci>x</ci><apply><divide/><cn>12</cn><cn>34</cn></apply></apply>", "x = 12/34"),
        ("<apply><plus/><ci>x</ci><apply><power/><ci>y</ci><cn>2</cn></apply></apply>", "x + y^2"),
        ("", ""),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_formula_is_linear_text(content: str, text: str) -> None:
    assert formatted(content) == text


@pytest.mark.parametrize("tag", ["mrow", "msup", "mfrac", "msqrt", "mtable", "mfenced", "apply"])
def test_deep_formula_is_cut(tag: str) -> None:
    root = MathElement("math")
    node = root
    for _ in range(20_000):
        inner = MathElement(tag)
        node.children.append(inner)
        node = inner
    node.children.append("x")
    assert len(format_mathml(root)) < 100_000
