"""JSON, JSON Lines and XML: records, names, numbers as written, documents, and data that is nested too deep."""

import json
from pathlib import Path

import pytest

from app.ingestion.parsers import ParseOptions
from app.ingestion.parsers.formats import json_data, xml_data
from app.ingestion.parsers.toolkit.nested_data import MAX_BLOCK_CHARACTERS
from app.ingestion.types import CorruptFile, ParsedDocument, TextTooLong
from app.warnings import ServiceWarning

LONG = "It stands in every room on its own four legs, and never falls over, however hard it is pushed by anybody."
ENTITIES = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY y "inside">]>'
BILLION = '<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa">{}]><a b="&m;">&m;</a>'.format(
    "".join(f'<!ENTITY {chr(98 + step)} "{f"&{chr(97 + step)};" * 10}">' for step in range(12))
)


def parsed(content: str | bytes, suffix: str, directory: Path, options: ParseOptions) -> ParsedDocument:
    path = directory / f"data.{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return json_data.parse(path, options) if suffix == "json" else xml_data.parse(path, options)


def blocks_of(content: str | bytes, suffix: str, directory: Path, options: ParseOptions) -> list[tuple[str, int, str]]:
    blocks = parsed(content, suffix, directory, options).blocks
    return [(block.kind.value, block.level, block.text) for block in blocks]


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (
            '[{"id": 1, "name": "Lamp"}, {"id": 2, "user_ID": "x", "text": "' + LONG + '"}]',
            [("paragraph", 0, "id: 1\nname: Lamp"), ("record", 0, f"id: 2\nuser_ID: x\ntext: {LONG}")],
        ),
        (
            '{"n": 123456789012345678901234567890, "f": 1.10, "e": 1e400, "t": true, "nothing": null, "empty": [{}]}',
            [("paragraph", 0, "n: 123456789012345678901234567890\nf: 1.10\ne: 1e400\nt: true")],
        ),
        (
            '{"a": {"b": {"c.d": "deep"}}, "tags": ["x", "y"], "a": "again", "rows": [[1, 2], [3]]}',
            [("paragraph", 0, "a.b.c.d: deep\ntags: x, y\na: again\nrows[0]: 1, 2\nrows[1]: 3")],
        ),
        (
            '{"items": [{"k": 1}, {"k": 2}], "note": "first"}',
            [
                ("paragraph", 0, "note: first"),
                ("heading", 1, "items"),
                ("paragraph", 0, "k: 1"),
                ("paragraph", 0, "k: 2"),
            ],
        ),
        (
            json.dumps({"about": {"one": {"a": {"c": "x" * MAX_BLOCK_CHARACTERS, "d": 4}, "b": 2}, "two": 2},
            "after": 3}),
            [
                ("paragraph", 0, "after: 3"),
                ("heading", 1, "about"),
                ("paragraph", 0, "two: 2"),
                ("heading", 2, "one"),
                ("paragraph", 0, "a.c: " + "x" * MAX_BLOCK_CHARACTERS + "\na.d: 4\nb: 2"),
            ],
        ),
        (
            '[{"question": "Do you ship?", "answer": "No."}, {"问题": "你们发货吗"}, {"x": "1", "y": 2}]',
            [
                ("record", 0, "question: Do you ship?\nanswer: No."),
                ("record", 0, "问题: 你们发货吗"),
                ("paragraph", 0, "x: 1\ny: 2"),
            ],
        ),
        (f'[{{"tags": ["{LONG}", "b"]}}]', [("paragraph", 0, f"tags: {LONG}\ntags: b")]),
        ('["one", "two"]', [("paragraph", 0, "one\ntwo")]),
        ('"alone"', [("paragraph", 0, "alone")]),
        ("12345678901234567890.0", [("paragraph", 0, "12345678901234567890.0")]),
        ('{"a": 1}\n\n{"a": 2}\n[3]\n', [("paragraph", 0, "a: 1"), ("paragraph", 0, "a: 2"), ("paragraph", 0, "3")]),
        ('\ufeff{"größe": "\\ud800"}', [("paragraph", 0, "größe: \ufffd")]),
        ('{"a": 1}'.encode("utf-16"), [("paragraph", 0, "a: 1")]),
        ("[null, [], {}]", []),
        (" \n", []),
    ],
)  # fmt: skip
def test_json_gives_blocks(
    content: str | bytes, blocks: list[tuple[str, int, str]], tmp_path: Path, options: ParseOptions
) -> None:
    assert blocks_of(content, "json", tmp_path, options) == blocks


@pytest.mark.parametrize(
    ("content", "title"),
    [('{"name": "b", "title": " A "}', "A"), ('{"name": "b", "title": 1}', "b"), ('{"title": {}}', None), ("[]", None)],
)
def test_json_title_is_found(content: str, title: str | None, tmp_path: Path, options: ParseOptions) -> None:
    expected = "1" if title == "b" else title
    assert parsed(content, "json", tmp_path, options).title == expected


def test_json_damaged_lines_are_counted(tmp_path: Path, options: ParseOptions) -> None:
    document = parsed('{"a": 1}\n{"a": \n{"a": 3}\n', "json", tmp_path, options)
    assert [block.text for block in document.blocks] == ["a: 1", "a: 3"]
    assert document.warnings == [ServiceWarning("lines_not_read", "1 of 3 lines are damaged and were not read.")]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ('{"a": 1', CorruptFile),
        ('[\n  {"a": 1},\n  {"a": 2},\n  {"a"', CorruptFile),
        ("plain words", CorruptFile),
        ("{\n" * 5000, CorruptFile),
        ("[" * 100_000, CorruptFile),
        ('{"a":' * 100_000, CorruptFile),
        ('{"a": 1} and more', CorruptFile),
        (bytes(range(256)), CorruptFile),
        (json.dumps({"k" * 150: [{"a": number} for number in range(2000)] * 2}), None),
        ("[" + ",".join(f'{{"{"k" * 150}": {{"a": {{"b": 1, "c": 2}}}}}}' for _ in range(2000)) + "]", TextTooLong),
        (json.dumps(["long " * 50_000]), TextTooLong),
    ],
    ids=[
        "cut off", "list cut off", "prose", "many bad lines", "deep lists", "deep objects", "more behind", "binary",
        "long name", "long names", "text",
    ],
)  # fmt: skip
def test_json_too_deep_or_invalid_is_refused(
    content: str | bytes, error: type[Exception] | None, tmp_path: Path, options: ParseOptions
) -> None:
    if error is None:
        assert len(parsed(content, "json", tmp_path, options).blocks) == 4001
        return
    with pytest.raises(error):
        parsed(content, "json", tmp_path, options)


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (
            '<?xml version="1.0" encoding="iso-8859-1"?><list><book id="b1"><name>Gr\xfcn</name>'
            "<price c='EUR'>4.50</price><tag>a</tag><tag>b</tag></book><!-- no -->"
            "<book id='b2'><name>Two</name></book></list>",
            [
                ("heading", 1, "book"),
                ("paragraph", 0, "id: b1\nname: Grün\nprice.c: EUR\nprice: 4.50\ntag: a, b"),
                ("paragraph", 0, "id: b2\nname: Two"),
            ],
        ),
        ("<a><b><c>x</c></b></a>", [("paragraph", 0, "b.c: x")]),
        ("<x:a xmlns:x='urn:x'><x:b x:href='1' y='2'/></x:a>", [("paragraph", 0, "b.href: 1\nb.y: 2")]),
        ("<a>only text</a>", [("paragraph", 0, "only text")]),
        (
            "<article><title>Main</title><section><title>One</title><para>Some <i>text</i>\n  here.</para>"
            "<list><listitem><para>x</para></listitem></list><programlisting>a\n  b</programlisting>"
            "<table><row><entry>h</entry><entry>i</entry></row><row><entry>1</entry><entry>2</entry></row></table>"
            "<section><title>Deep</title><para>inner</para></section></section></article>",
            [
                ("heading", 1, "Main"),
                ("heading", 2, "One"),
                ("paragraph", 0, "Some text here."),
                ("list_item", 0, "- x"),
                ("code", 0, "a\n  b"),
                ("table", 0, "| h | i |\n| --- | --- |\n| 1 | 2 |"),
                ("heading", 3, "Deep"),
                ("paragraph", 0, "inner"),
            ],
        ),
        (
            "<svg xmlns='http://www.w3.org/2000/svg'><style>p{}</style><title>Plan</title><path d='M0'/>"
            "<text>Exit</text></svg>",
            [("heading", 1, "Plan"), ("paragraph", 0, "Exit")],
        ),
        (f"{ENTITIES}<a><b>&x;</b><c>&y;</c><d>&amp;&#65;</d></a>", [("paragraph", 0, "b: &x;\nc: &y;\nd: &A")]),
        ("<!DOCTYPE a SYSTEM 'http://127.0.0.1/a.dtd'><p>t&nbsp;u</p>", [("paragraph", 0, "t u")]),
        ("<a>x</a>".encode("utf-16"), [("paragraph", 0, "x")]),
        ("<a/>", []),
        ("", []),
    ],
)  # fmt: skip
def test_xml_gives_blocks(
    content: str | bytes, blocks: list[tuple[str, int, str]], tmp_path: Path, options: ParseOptions
) -> None:
    data = content.encode("latin-1") if isinstance(content, str) else content
    assert blocks_of(data, "xml", tmp_path, options) == blocks


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("<rss><channel><title>News</title><item><title>x</title></item></channel></rss>", "News"),
        ("<feed><title>Feed</title><entry><title>x</title></entry></feed>", "Feed"),
        ("<list><book><title>x</title></book><book><title>y</title></book></list>", None),
    ],
)
def test_xml_title_is_found(content: str, title: str | None, tmp_path: Path, options: ParseOptions) -> None:
    assert parsed(content, "xml", tmp_path, options).title == title


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("<a><b></a>", CorruptFile),
        ("<a>", CorruptFile),
        ("words", CorruptFile),
        (bytes(range(256)), CorruptFile),
        (BILLION, CorruptFile),
        ("<a>" * 5000 + "</a>" * 5000, CorruptFile),
        ("<a>" + "long " * 50_000 + "</a>", TextTooLong),
    ],
    ids=["crossed", "cut off", "prose", "binary", "a billion laughs", "deep", "text"],
)
def test_xml_invalid_or_dangerous_is_refused(
    content: str | bytes, error: type[Exception], tmp_path: Path, options: ParseOptions
) -> None:
    with pytest.raises(error):
        parsed(content, "xml", tmp_path, options)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('<items><item sku="A-1" price="5">Bolt</item></items>', "item.sku: A-1\nitem.price: 5\nitem: Bolt"),
        ("<a><n>5</n><note>The <b>price</b> is <i>5</i> EUR.</note></a>", "n: 5\nnote: The price is 5 EUR."),
        ('<a><n>5</n><note id="1">See <ref to="x9">this</ref> page</note></a>', "note: See this page"),
        ('<a><n>5</n><note id="1">See <ref to="x9">this</ref> page</note></a>', "note.id: 1\nnote.ref.to: x9"),
        ("<a><n><![CDATA[5 < 6 & 7]]></n><m>1</m></a>", "n: 5 < 6 & 7\nm: 1"),
        ('<a xmlns:k="urn:k"><k:n k:unit="kg">5</k:n></a>', "n.unit: kg\nn: 5"),
    ],
)
def test_xml_attributes_and_mixed_text_are_read(content: str, text: str, tmp_path: Path, options: ParseOptions) -> None:
    shown = "\n".join(block.text for block in parsed(content, "xml", tmp_path, options).blocks)
    assert text in shown
