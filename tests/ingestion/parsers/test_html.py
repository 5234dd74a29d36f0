"""HTML: hidden panels, boilerplate, links, superscripts, formulas, images, form fields, ruby and gaps."""

from pathlib import Path

import pytest

from app.ingestion.loss import measure_loss
from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import html
from app.ingestion.parsers.toolkit.text_cleanup import clean_line
from app.ingestion.types import BlockKind, ParsedDocument

FORMULA = "<math><mi>x</mi><mo>=</mo><mfrac><mn>12</mn><mn>34</mn></mfrac></math>"
QUESTION = "<h3><button aria-expanded=false>Can I return it?</button></h3>"


def parsed(markup: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / "page.html"
    path.write_text(markup, encoding="utf-8")
    return html.parse(path, options)


def texts(markup: str, directory: Path, options: ParseOptions) -> list[str]:
    return [block.text for block in parsed(markup, directory, options).blocks]


@pytest.mark.parametrize(
    "panel",
    [
        '<div style="display:none"><p>Yes, within 30 days.</p></div>',
        '<div style="visibility: hidden">Yes, within 30 days.</div>',
        "<div hidden>Yes, within 30 days.</div>",
        '<div hidden="until-found">Yes, within 30 days.</div>',
        "<details><summary>Answer</summary>Yes, within 30 days.</details>",
        "<div role=tabpanel hidden>Yes, within 30 days.</div>",
        '<section aria-hidden="true" class="panel">Yes, within 30 days.</section>',
        "<template><p>Yes, within 30 days.</p></template>",
        '<x-answer><template shadowrootmode="open">Yes, within 30 days.</template></x-answer>',
        "<noscript><p>Yes, within 30 days.</p></noscript>",
        '<p>Yes<span style="display:none">, within 30 days.</span></p>',
        "<div popover id=answer>Yes, within 30 days.</div>",
        "<table hidden><tr><th>Answer<th>Limit<tr><td>Yes<td>, within 30 days.</table>",
    ],
)
def test_hidden_panel_is_content(panel: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(f"<body>{QUESTION}{panel}<p>end</p>", tmp_path, options)
    assert "within 30 days." in " ".join(block.text for block in document.blocks)
    assert document.words_left_out == 0


@pytest.mark.parametrize(
    "panel",
    [
        f"{QUESTION}<div hidden>No.</div>",
        "<button aria-controls=a>Answer</button><p>or</p><div id=a hidden>No.</div>",
        '<a href="#a">Can I?</a><p>or</p><div id=a style="display:none">No.</div>',
        '<p>Can I?</p><div class="faq-answer" style="display:none">No.</div>',
        "<dl><dt>Can I?</dt><dd hidden>No.</dd></dl>",
        "<p>Can I?</p><div role=tooltip hidden>No.</div>",
        '<button data-bs-target="#a">Q</button><p>or</p><div class="x" id=a hidden>No.</div>',
    ],
)
def test_hidden_short_answer_that_something_opens_is_content(panel: str, tmp_path: Path, options: ParseOptions) -> None:
    assert "No." in " ".join(texts(f"<body>{panel}", tmp_path, options))


@pytest.mark.parametrize(
    "part",
    [
        "<div class='menu' hidden><a href=/a>Home page</a> <a href=/b>About us</a> <a href=/c>Contact us</a></div>",
        "<div role=dialog>We use cookies on this site.</div>",
        "<dialog>Subscribe to our newsletter now.</dialog>",
        "<div class='cookie-banner'>We use cookies on this site.</div>",
        "<div id='onetrust-consent-sdk' style='display:none'>We use cookies on this site.</div>",
        "<div role=alert hidden>This field is not valid.</div>",
        "<noscript>Please enable JavaScript in your browser.</noscript>",
        "<template>Dear {{ name }}, here is your order.</template>",
        "<div style='display:none;mso-hide:all'>Preview text of a mail.</div>",
        "<nav><a href=/a>Home page</a> <a href=/b>About us</a></nav>",
        "<header>Name of the whole site</header>",
        "<footer>Copyright by the whole site</footer>",
        "<div role=navigation><a href=/a>Home page</a> <a>two words</a></div>",
        "<aside>Advertisement of the whole site</aside>",
        "<form role=search><label>Search the whole site</label></form>",
        "<button>Add to the cart</button>",
        "<p><span style='display:none'>sort key 005</span></p>",
    ],
)
def test_left_out_part_is_counted(part: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(f"<body>{part}<main><p>Content stays here.</p></main>", tmp_path, options)
    assert [block.text for block in document.blocks] == ["Content stays here."]
    assert 3 <= document.words_left_out <= 8
    assert [warning.code for warning in measure_loss(document).list_warnings()] == ["words_left_out"]


def test_hidden_copy_of_visible_text_is_left_out(tmp_path: Path, options: ParseOptions) -> None:
    price = "The plan costs 10 EUR a month for one user."
    other = price.replace("10", "12")
    document = parsed(f"<body><p>{price}</p><div hidden>{price}</div><div hidden>{other}</div>", tmp_path, options)
    assert [block.text for block in document.blocks] == [price, other]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<main>a<aside class=x>Warning: hot</aside></main>", ["a", "Warning: hot"]),
        ("<article><aside><a href=/x>Related page</a></aside>b</article>", ["Related page", "b"]),
        ("<div role=main>a<div role=complementary>note</div></div>", ["a", "note"]),
        ("<div>a</div><aside>Never run this program as root.</aside>", ["a", "Never run this program as root."]),
        ("<article><header><h2>T</h2>by A</header>x<footer>From y</footer></article>", ["T", "by A", "x", "From y"]),
        ("<header><h1>T</h1><p>By Ada Lovelace, May 2024</p></header>x", ["T", "By Ada Lovelace, May 2024", "x"]),
        ("<header><h1>T</h1><a href=/>Home</a></header>x", ["T", "x"]),
        ("<main><nav>Turn left, then walk to the bridge.</nav></main>", ["Turn left, then walk to the bridge."]),
        ("<blockquote>Less is more<footer>An architect</footer></blockquote>", ["Less is more", "An architect"]),
        ("<h2><button>Is it open?</button></h2>Yes", ["Is it open?", "Yes"]),
        ("<button>Can I bring my dog?</button><div>Yes</div>", ["Can I bring my dog?", "Yes"]),
        ("<div role=heading aria-level=3>Part</div>x", ["Part", "x"]),
        ("<dialog open>Read me first</dialog>x", ["Read me first", "x"]),
        ("x<footer><ol class=footnotes><li>A note</li></ol></footer>", ["x", "1. A note"]),
    ],
)  # fmt: skip
def test_content_is_no_boilerplate(markup: str, expected: list[str], tmp_path: Path, options: ParseOptions) -> None:
    assert texts(f"<body>{markup}", tmp_path, options) == expected


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("10<sup>6</sup> cells, 10<sup>-3</sup> mol", "10⁶ cells, 10⁻³ mol"),
        ("H<sub>2</sub>O and x<sub>i</sub>", "H₂O and x_i"),
        ("note<sup><a href='#fn1'>1</a></sup> and", "note ¹ and"),
        ("10<a href='#fn2' role=doc-noteref><sup>2</sup></a>.", "10 ²."),
        ("10<a href='#note2'>2</a> and word<a href='#n'>[3]</a>", "10 ² and word [3]"),
        ("section <a href='#s'>2</a>, equation (<a href='#e'>3</a>)", "section 2, equation (3)"),
        ("12<small>50</small> EUR, the 1<small>st</small>", "12 50 EUR, the 1st"),
        ("word<sup class=footnote-ref>3</sup>", "word ³"),
        ("word<sup class=reference><a href='#c'>[4]</a></sup>", "word [4]"),
        ("the 1<sup>st</sup> of m<sup>2</sup>", "the 1st of m²"),
        ("x<sup>a</sup> and x<sup>n+1</sup>", "x^a and xⁿ⁺¹"),
        ("10<span style='vertical-align: super'>6</span>", "10⁶"),
        ("2<sup>2<sup>3</sup></sup>", "2^(2³)"),
    ],
)
def test_raised_text_is_not_glued(markup: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(f"<p>{markup}</p>", tmp_path, options) == [clean_line(text)]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        (f"Let {FORMULA} be", "Let x = 12/34 be"),
        (f"a{FORMULA}b", "a x = 12/34 b"),
        (
            f"<span class=katex><span class=katex-mathml>{FORMULA}</span>"
            "<span class=katex-html aria-hidden=true>x=1234</span></span>",
            "x = 12/34",
        ),
        (
            f"<span class=mwe-math-element><span style='display:none'>{FORMULA}</span>"
            "<img class=mwe-math-fallback-image-inline alt='{\\frac{12}{34}}'></span>",
            "x = 12/34",
        ),
        (f"<mjx-container><mjx-math aria-hidden=true>x=1234</mjx-math><mjx-assistive-mml>{FORMULA}"
         "</mjx-assistive-mml></mjx-container>", "x = 12/34"),
        (f"<span class=MathJax><nobr aria-hidden=true>x=1234</nobr><span class=assistive>{FORMULA}</span></span>"
         "<script type='math/tex'>x=1</script>", "x = 12/34"),
        ("<script type='math/tex'>\\frac{1}{2}</script> is half", "$\\frac{1}{2}$ is half"),
        ("<math><semantics><annotation encoding='application/x-tex'>a^2</annotation></semantics></math>", "a^2"),
        ("<math alttext='a to b'></math>", "a to b"),
        ("<img class=tex alt='E=mc^2'>", "E=mc^2"),
    ],
)  # fmt: skip
def test_formula_is_read_once(markup: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(f"<p>{markup}</p>", tmp_path, options) == [clean_line(text)]


@pytest.mark.parametrize(
    "struck",
    [
        "<del>10 EUR</del>", "<s>10 EUR</s>", "<strike>10 EUR</strike>",
        "<span style='text-decoration:line-through'>10 EUR</span>",
        "<span style='color:red; text-decoration-line: underline line-through'>10 EUR</span>",
        "<del><b>10</b> <i>EUR</i></del>",
    ],
)  # fmt: skip
def test_struck_text_is_left_out(struck: str, tmp_path: Path, options: ParseOptions) -> None:
    document = parsed(f"<p>It costs {struck} <ins>12 EUR</ins>.</p>", tmp_path, options)
    assert [block.text for block in document.blocks] == ["It costs 12 EUR."]
    assert document.words_left_out == 2


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<img alt='Red wire to L1'>", "Red wire to L1"),
        ("<p>Press <img alt='Enter'> now</p>", "Press Enter now"),
        ("<figure><img alt='A heron'><figcaption>Bird</figcaption></figure>", "A heron Bird"),
        ("<div role=img aria-label='Five stars'>★★</div>", "Five stars"),
        (
            "<svg><title>Sales</title><desc>They rise</desc><text>Q1 <tspan>5</tspan></text></svg>",
            "Sales; They rise; Q1 5",
        ),
        (
            "<map><area alt='Berlin office' href='https://example.org/b'></map>",
            "[Berlin office](https://example.org/b)",
        ),
        ("<img title='Plan of the house'>", "Plan of the house"),
        ("<picture><source><img alt='Two cats'></picture>", "Two cats"),
        ("<object data=x><p>Sales table</p></object>", "Sales table"),
        ("<video title='How to open it'></video>", "How to open it"),
        ("<svg><text><tspan>Hello</tspan><tspan>World</tspan></text></svg>", "Hello World"),
        ("<iframe srcdoc='&lt;p&gt;Inner page&lt;/p&gt;'></iframe>", "Inner page"),
    ],
)
def test_image_text_is_read(markup: str, expected: str, tmp_path: Path, options: ParseOptions) -> None:
    assert " ".join(texts(f"<body>{markup}", tmp_path, options)) == expected


@pytest.mark.parametrize(
    ("markup", "counts"),
    [
        ("<img src=a.png>", {"images_not_read": 1}),
        ("<img alt='IMG_1234.jpg'><img alt='DSC0012'><img alt=image>", {"images_not_read": 3}),
        ("<img alt=''><img width=1 height=1><img role=presentation>", {}),
        ("<iframe src=x></iframe><video></video><audio></audio>", {"media_not_read": 3}),
        ("<embed src=x><object data=y></object><canvas></canvas>", {"media_not_read": 3}),
        ("<video><p>Your browser does not support video.</p></video>", {"media_not_read": 1}),
    ],
)
def test_image_without_text_is_counted(
    markup: str, counts: dict[str, int], tmp_path: Path, options: ParseOptions
) -> None:
    document = parsed(f"<body>text{markup}", tmp_path, options)
    assert [block.text for block in document.blocks] == ["text"]
    assert measure_loss(document).counts == counts


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("Name: <input value='Ada Lovelace'>", "Name: Ada Lovelace"),
        ("City: <select><option>Oslo<option selected>Bonn</select>", "City: Bonn"),
        ("<input type=checkbox checked> yes <input type=checkbox> no", "☒ yes ☐ no"),
        ("<input type=radio checked>A<input type=radio>B", "☒ A ☐ B"),
        ("<textarea>Some lines</textarea>", "Some lines"),
        ("<label>Size <select><option>S<option>M</select></label>", "Size S"),
        ("a <input type=hidden value=token> <input type=password value=secret>b", "a b"),
    ],
)
def test_form_value_is_read(markup: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert " ".join(texts(f"<form>{markup}</form>", tmp_path, options)) == text


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<ruby>漢<rt>かん</rt>字<rt>じ</rt></ruby>", "漢字(かんじ)"),
        ("<ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp></ruby><ruby>京<rt>きょう</rt></ruby>に", "東京(とうきょう)に"),
        ("<ruby>北京<rt>Běijīng</rt></ruby>市", "北京(Běijīng)市"),
        ("<ruby><rb>旧</rb><rb>金</rb><rtc><rt>jiù</rt><rt>jīn</rt></rtc></ruby>", "旧金(jiùjīn)"),
        ("<ruby>水<rt></rt></ruby>", "水"),
    ],
)
def test_ruby_word_stays_whole(markup: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(f"<p>{markup}</p>", tmp_path, options) == [text]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<div><span class=l>Price</span><span class=v>10 EUR</span></div>", "Price 10 EUR"),
        ("<div><b>Plan</b><span>Basic</span></div>", "Plan Basic"),
        ("<div><a href=#a>one</a><a href=#b>two</a></div>", "one two"),
        ("<p><span style='display:block'>one</span><span style='display:block'>two</span></p>", "one|two"),
        ("<p><span style='display:inline-block'>one</span><span>two</span></p>", "one two"),
        ("<p><span role=cell>one</span><span role=cell>two</span></p>", "one|two"),
        ("<div style='display: grid'><b>A1</b><b>B1</b><i>x</i></div>", "A1 B1 x"),
        ("<p><span class=drop>O</span>nce</p>", "Once"),
        ("<p><span class=c1>Rout</span><span class=c2>ing</span></p>", "Routing"),
        ("<p><span>H</span><span>2</span><span>O</span></p>", "H2O"),
        ("<h2>One<br>Two</h2>", "One Two"),
        ("<h2>Is it? <button>+</button></h2>", "Is it?"),
        ("<div><label>Mail</label><span>us@example.org</span></div>", "Mail us@example.org"),
        ("<p>un<b>believ</b>able</p>", "unbelievable"),
        ("<p>Use <c-badge>beta</c-badge> now</p>", "Use beta now"),
        ("<p dir=rtl>שלום <bdo dir=ltr>abc</bdo></p>", "שלום abc"),
        ("<ul><li><input type=checkbox checked> done<li><input type=checkbox> open</ul>", "- ☒ done|- ☐ open"),
        ("<ol type=a start=2><li>x<li value=5>y<li>z</ol>", "b. x|e. y|f. z"),
        ("<p><abbr title='World Bank'>WB</abbr>, <abbr title='World Bank'>WB</abbr></p>", "WB (World Bank), WB"),
        ("<pre>a<br>b<div>c</div><div>d</div></pre>", "a\nb\nc\nd"),
        ("<table><tr><td class=linenos><pre>1\n2</pre><td><pre>x = 1\ny = 2</pre></table>", "x = 1\ny = 2"),
    ],
)  # fmt: skip
def test_inline_elements_separate_words(markup: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert "|".join(texts(f"<body>{markup}", tmp_path, options)) == text


@pytest.mark.parametrize(
    ("head", "link", "text"),
    [
        ("", '<a href="https://example.org/r">returns</a>', "[returns](https://example.org/r)"),
        ("", '<a href="mailto:help@example.org">write</a>', "[write](mailto:help@example.org)"),
        ("", '<a href="#part">part</a>', "part"),
        ("", '<a href="/r">returns</a>', "returns"),
        ("<base href='https://example.org/a/'>", '<a href="../r">returns</a>', "[returns](https://example.org/r)"),
        ("<link rel=canonical href='https://example.org/a'>", '<a href="b">b page</a>', "[b page](https://example.org/b)"),
        ("<meta property='og:url' content='https://example.org/a'>", '<a href="?p=1">next</a>', "[next](https://example.org/a?p=1)"),
        ("", '<a href="https://example.org/"><img alt="Home page"></a>', "[Home page](https://example.org/)"),
        ("", '<a href="https://example.org/x" aria-label="Our page"><svg></svg></a>', "[Our page](https://example.org/x)"),
        ("", '<a href="javascript:alert(1)">run</a>', "run"),
        ("", '<a href="https://example.org">https://example.org</a>', "https://example.org"),
    ],
)  # fmt: skip
def test_link_has_its_address(head: str, link: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    assert texts(f"<html><head>{head}</head><body><p>{link}</p>", tmp_path, options) == [text]


def test_link_in_heading_is_its_label(tmp_path: Path, options: ParseOptions) -> None:
    markup = '<h2><a href="https://example.org/r">Returns</a> <a class=headerlink href="#r">¶</a></h2><p>x</p>'
    assert texts(markup, tmp_path, options) == ["Returns", "x"]


def test_link_around_blocks_is_at_first_text(tmp_path: Path, options: ParseOptions) -> None:
    markup = '<a href="https://example.org/c"><h3>Card</h3><p>First text</p><p>Second</p></a>'
    assert texts(markup, tmp_path, options) == ["Card", "[First text](https://example.org/c)", "Second"]


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<title>Returns and refunds</title>", "Returns and refunds"),
        ("<title>Home</title>", "Our museum"),
        ("<title>Untitled Document</title>", "Our museum"),
        ("<title>Startseite</title>", "Our museum"),
        ("<title>C:\\site\\index.html</title>", "Our museum"),
        ("<title>ACME</title><meta property='og:site_name' content='Acme'>", "Our museum"),
        ("<title>ACME</title><meta name='application-name' content='ACME'>", "Our museum"),
        ("<title> </title>", "Our museum"),
        ("", "Our museum"),
    ],
)
def test_title_that_names_no_page_is_replaced(head: str, title: str, tmp_path: Path, options: ParseOptions) -> None:
    assert parsed(f"<head>{head}</head><body><h1>Our museum</h1>x", tmp_path, options).title == title


def test_page_of_frames_shows_its_other_text(tmp_path: Path, options: ParseOptions) -> None:
    markup = "<frameset><frame src=a><frame src=b><noframes><body><p>Use frames.</p></body></noframes></frameset>"
    document = parsed(f"<html><head></head>{markup}</html>", tmp_path, options)
    assert [block.text for block in document.blocks] == ["Use frames."]
    assert measure_loss(document).counts == {"media_not_read": 2}


def test_notes_at_the_end_are_notes(tmp_path: Path, options: ParseOptions) -> None:
    markup = "<p>x</p><aside role=doc-footnote><p>1 A remark. <a href='#r' role=doc-backlink>↩︎</a></p></aside>"
    document = parsed(f"<main>{markup}</main>", tmp_path, options)
    assert [(block.kind, block.text) for block in document.blocks][1] == (BlockKind.NOTE, "1 A remark.")


@pytest.mark.parametrize(
    "markup",
    [
        "<nav>" * 20_000 + "word " * 20_000,
        "<div hidden>" * 20_000 + "word " * 20_000,
        "<div aria-hidden=true>" * 20_000 + "word " * 20_000,
        "<sup>" * 20_000 + "x",
        "<a href=https://example.org>" * 20_000 + "x",
        "<aside>" * 20_000 + "word " * 20_000,
        "<header><h1>x</h1>" * 5_000 + "word " * 20_000,
        "<div><span>Aa</span><span>Bb</span>" + "<span>Cc</span>" * 20_000,
        "<figure><table></table>" + "<figcaption>x</figcaption>" * 20_000,
        "<ul>" * 20_000 + "<li>x",
        "<math>" + "<msup>" * 20_000 + "<mi>x</mi>",
        "<ruby>" + "x<rt>y</rt>" * 20_000,
        "<table><tr><td>" * 3_000 + "x",
        "<p hidden>yes it is</p>" * 20_000,
        "<button>" * 10_000 + "x",
        "<dl>" + "<dt>x" * 30_000,
    ],
)
def test_hostile_page_takes_linear_time(markup: str, tmp_path: Path) -> None:
    """A quadratic parser would take minutes."""
    options = ParseOptions(None, max_pages=10, max_characters=4_000_000)
    assert parsed(f"<body>x{markup}", tmp_path, options).blocks
