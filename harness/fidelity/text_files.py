"""Cases of text formats: HTML, Markdown, plain text, CSV, JSON, XML, notebooks and mail."""

import base64
import json
from collections.abc import Iterator
from email.message import EmailMessage

from harness.fidelity.cases import FidelityCase

PROSE = "<p>The museum opens at nine and closes at five, also on public holidays, unless the city says otherwise.</p>"


def _build_page(
    kind: str, name: str, body: str, *, warning_codes: tuple[str, ...] = (), **texts: tuple[str, ...]
) -> FidelityCase:
    data = f"<html><head><title>Guide</title></head><body><main>{PROSE}{body}</main></body></html>".encode()
    return FidelityCase(kind, f"{name}.html", data, warning_codes=warning_codes, **texts)


def _build_markdown(kind: str, name: str, text: str, **texts: tuple[str, ...]) -> FidelityCase:
    return FidelityCase(kind, f"{name}.md", f"# Guide\n\n{text}\n".encode(), **texts)


def iter_pages() -> Iterator[FidelityCase]:
    """Yield the cases of HTML."""
    yield _build_page("superscripts", "power", "<p>10<sup>-9</sup> m and x<sub>12</sub></p>", has=("10⁻⁹ m", "x₁₂"))
    yield _build_page(
        "superscripts",
        "square",
        "<table><tr><th>Area</th></tr><tr><td>5 m<sup>2</sup></td></tr><tr><td>7 m<sup>3</sup></td></tr></table>",
        has=("5 m²", "7 m³"),
    )
    yield _build_page("superscripts", "letters", "<p>x<sup>a+b</sup> grows</p>", any_of=("x^(a+b)",), hasnot=("xa+b",))
    yield _build_page("superscripts", "note", "<p>It costs 49<sup><a href='#n1'>2</a></sup> EUR</p>", hasnot=("492",))
    yield _build_page("superscripts", "chemistry", "<h2>CO<sub>2</sub> limits</h2><p>Below 9.</p>", any_of=("CO₂",))
    yield _build_page(
        "equations",
        "fraction",
        "<p><math><mi>y</mi><mo>=</mo><mfrac><mn>56</mn><mn>78</mn></mfrac></math></p>",
        any_of=("56/78",),
        hasnot=("5678",),
    )
    yield _build_page(
        "equations",
        "power",
        "<p><math><msup><mn>2</mn><mn>10</mn></msup></math> bytes</p>",
        any_of=("2^10", "2¹⁰"),
        hasnot=("210 bytes",),
    )
    yield _build_page(
        "tables",
        "rows",
        "<table><tr><th>Region</th><th>Plan</th><th>Price</th></tr><tr><td rowspan=3>Asia</td>"
        "<td>Basic</td><td>5</td></tr><tr><td>Team</td><td>9</td></tr><tr><td>Max</td><td>13</td></tr></table>",
        any_of=("| Asia | Max | 13 |", "| | Max | 13 |"),
        hasnot=("| Max | 13 | |",),
    )
    yield _build_page(
        "tables",
        "columns",
        "<table><thead><tr><th></th><th colspan=2>2024</th></tr><tr><th>City</th><th>May</th>"
        "<th>June</th></tr></thead><tr><td>Rome</td><td>11</td><td>12</td></tr></table>",
        has=("| Rome | 11 | 12 |", "2024 June"),
    )
    yield _build_page(
        "tables",
        "paragraphs",
        "<table><tr><th>Plan</th><th>Support</th></tr><tr><td>Pro</td><td><p>Mail</p>"
        "<p>Phone</p></td></tr><tr><td>Max</td><td>All</td></tr></table>",
        any_of=("| Pro | Mail; Phone |", "| Pro | Mail Phone |"),
        hasnot=("MailPhone",),
    )
    yield _build_page(
        "tables",
        "grid",
        "<div role=table><div role=row><div role=columnheader>Plan</div><div role=columnheader>"
        "Price</div></div><div role=row><div role=cell>Basic</div><div role=cell>12 EUR</div></div></div>",
        has=("Basic",),
        hasnot=("Basic12", "PlanPrice"),
    )
    yield _build_page(
        "struck text", "price", "<p>Now <s>30 EUR</s> 25 EUR</p>", has=("25 EUR",), hasnot=("30 EUR 25 EUR",)
    )
    yield _build_page(
        "struck text",
        "style",
        "<p>Now <span style='text-decoration:line-through'>31</span> 26 EUR</p>",
        has=("26 EUR",),
        hasnot=("31 26",),
    )
    yield _build_page(
        "hidden content",
        "tabs",
        "<div role=tabpanel hidden><p>The deposit is 200 EUR, due at pickup.</p></div>",
        has=("deposit is 200 EUR",),
    )
    yield _build_page(
        "hidden content",
        "details",
        "<details><summary>Pets</summary>Dogs are allowed in cabins.</details>",
        has=("Pets", "Dogs are allowed"),
    )
    yield _build_page(
        "hidden content",
        "accordion",
        "<h3><button>Refunds</button></h3><div style='display: none'>Refunds take five days.</div>",
        has=("Refunds", "five days"),
    )
    yield _build_page(
        "hidden content",
        "note",
        "<article><p>Install it.</p><aside>Back up the disk first.</aside></article>",
        has=("Back up the disk first",),
    )
    yield _build_page(
        "alt texts",
        "figure",
        "<figure><img src=a.png alt='Valve A closes clockwise'><figcaption>Valves</figcaption></figure>",
        has=("Valve A closes clockwise", "Valves"),
    )
    yield _build_page(
        "alt texts",
        "drawing",
        "<svg role=img aria-label='Stairs are behind the lift'></svg>",
        has=("Stairs are behind the lift",),
    )
    yield _build_page(
        "links",
        "address",
        "<p>Ask <a href='https://example.com/help'>our help desk</a>.</p>",
        has=("https://example.com/help", "our help desk"),
    )
    yield _build_page(
        "links", "mail", "<p><a href='mailto:desk@example.com'>Write to us</a></p>", has=("desk@example.com",)
    )
    yield _build_page(
        "forms",
        "boxes",
        "<form><label><input type=checkbox checked> Insured</label> <input value='42 kg'></form>",
        any_of=("☒", "☑"),
        has=("42 kg",),
    )
    navigation = "<nav>" + "<a href=/x>Products and services</a> " * 60 + "</nav>"
    yield FidelityCase(
        "boilerplate",
        "menu.html",
        f"<html><body>{navigation}{PROSE}</body></html>".encode(),
        has=("opens at nine",),
        warning_codes=("words_left_out",),
    )
    yield _build_page(
        "embedded content",
        "frame",
        "<iframe src='https://example.com/map'></iframe><p>See the map.</p>",
        has=("See the map",),
    )


def iter_markdown() -> Iterator[FidelityCase]:
    """Yield the cases of Markdown."""
    yield _build_markdown(
        "tables",
        "breaks",
        "| Users | Price |\n| --- | --- |\n| 10<br>20 | 7<br>8 |\n",
        any_of=("10; 20", "10 20"),
        hasnot=("1020", "78 |"),
    )
    yield _build_markdown(
        "tables", "items", "| Users |\n| --- |\n| <ul><li>500</li><li>700</li></ul> |\n", hasnot=("500700",)
    )
    yield _build_markdown(
        "struck text", "price", "It costs ~~90 EUR~~ 80 EUR.", hasnot=("90 EUR 80 EUR",), has=("80 EUR",)
    )
    yield _build_markdown(
        "superscripts", "power", "About 10<sup>12</sup> stars.", any_of=("10¹²", "10^12"), hasnot=("1012",)
    )
    yield _build_markdown(
        "superscripts", "plain", "10⁶ cells, 5² = 25, ½ litre, 25 ºC, ①", has=("10⁶", "5²", "½", "25 ºC", "①")
    )
    yield _build_markdown(
        "links", "address", "Ask the [help desk](https://example.com/desk).", has=("https://example.com/desk",)
    )
    yield _build_markdown(
        "forms", "tasks", "- [x] Insured\n- [ ] Paid", any_of=("☒ Insured", "☑ Insured", "[x] Insured")
    )
    yield _build_markdown("alt texts", "image", "![Red wire goes to L2](a.png)", has=("Red wire goes to L2",))
    yield _build_markdown(
        "notes", "footnote", "It costs 70[^1] EUR.\n\n[^1]: Without tax.", has=("Without tax",), hasnot=("701",)
    )


def iter_texts() -> Iterator[FidelityCase]:
    """Yield the cases of plain text and CSV: characters, encodings and types."""
    texts = {
        "cp1251": "Срок возврата товара составляет четырнадцать дней с момента покупки.",
        "koi8-r": "Гарантия действует два года, если товар не повреждён.",
        "cp1253": "Η επιστροφή των προϊόντων γίνεται εντός τριάντα ημερών.",
        "cp1254": "İade süresi otuz gündür; ürün kullanılmamış olmalıdır.",
        "cp1255": "ניתן להחזיר את המוצר תוך שלושים יום ממועד הרכישה.",
        "cp1256": "يمكن إرجاع المنتج خلال ثلاثين يوما من تاريخ الشراء.",
        "cp874": "สามารถคืนสินค้าได้ภายในสามสิบวันหลังจากวันที่ซื้อ",
        "cp932": "商品は到着後三十日以内に返品できます。送料はお客様の負担です。",
        "euc-jp": "保証期間は二年間です。修理は無料で行います。",
        "gb18030": "商品收到后三十天内可以退货，运费由买家承担。",
        "big5": "商品收到後三十天內可以退貨，運費由買家承擔。",
        "cp949": "상품 수령 후 삼십일 이내에 반품할 수 있습니다.",
        "iso8859-2": "Zboží lze vrátit do třiceti dnů od převzetí zásilky.",
        "cp1250": "Pieniądze zwracamy w ciągu czternastu dni od otrzymania przesyłki.",
        "cp1252": "Rückgabe innerhalb von dreißig Tagen – auch für Geschenke möglich.",
    }
    for encoding, text in texts.items():
        word = text.split()[1] if " " in text else text[2:8]
        yield FidelityCase("encodings", f"text_{encoding}.txt", text.encode(encoding), has=(word,))
        rows = f"id;name\n1;{text.split('.')[0][:24]}\n2;ok\n"
        yield FidelityCase("encodings", f"table_{encoding}.csv", rows.encode(encoding), has=(text[:6].strip(),))
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        data = "Час роботи: з дев'ятої до п'ятої.".encode(encoding)
        yield FidelityCase("encodings", f"text_{encoding}.txt", data, has=("Час роботи",))
    yield FidelityCase(
        "characters",
        "signs.txt",
        "10⁶ cells per cm³, 25 ºC, 5² = 25, ①②③, …, ㎏".encode(),
        has=("10⁶", "cm³", "ºC", "5²", "①②③", "…", "㎏"),
    )
    yield FidelityCase("characters", "composed.txt", "Ku\u0308ttler and Herve\u0301".encode(), has=("Küttler", "Hervé"))
    for name, text in (
        ("notes.txt", "A file that begins with %PDF-1.4 is a PDF; PK is a zip."),
        ("check.py", "def check(data):\n    return data[:5] == b'%PDF-' or b'<html' in data\n"),
        ("page.md", "# Signatures\n\nThe bytes `%PDF-` and `<html>` and `{\\rtf` begin files.\n"),
        ("log.txt", "12:00 got <html><body> from the server\n12:01 From nobody\n"),
    ):
        yield FidelityCase("types", name, text.encode(), has=(text.split()[1],))


def iter_data() -> Iterator[FidelityCase]:
    """Yield the cases of JSON, XML, notebooks and mail."""
    blob = base64.b64encode(bytes(range(256)) * 150).decode()
    for name, text in (
        ("photo.json", json.dumps({"title": "A heron", "image": blob})),
        ("photo.xml", f"<photo><title>A heron</title><data>{blob}</data></photo>"),
        ("photo.yaml", f"title: A heron\nimage: {blob}\n"),
        ("photo.txt", f"A heron\n\n{blob}\n"),
        ("photo.csv", f"title,image\nA heron,{blob}\n"),
    ):
        yield FidelityCase("base64", name, text.encode(), has=("A heron",), hasnot=(blob[:40],))
    yield FidelityCase(
        "data", "price.xml", b'<item sku="A-77"><price currency="CHF">12</price></item>', has=("A-77", "CHF", "12")
    )
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Sales\n", "Rows are orders."]},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "source": ["total = 41 + 1"],
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["the total is 42\n"]},
                {"output_type": "display_data", "metadata": {}, "data": {"image/png": blob}},
            ],
        },
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    yield FidelityCase(
        "data",
        "sales.ipynb",
        json.dumps(notebook).encode(),
        has=("Rows are orders", "total = 41 + 1", "the total is 42"),
        hasnot=(blob[:40],),
    )
    stub = EmailMessage()
    stub["Subject"], stub["From"], stub["To"] = "News", "a@example.com", "b@example.com"
    stub.set_content("Your mail program does not show HTML.")
    stub.add_alternative("<p>The fee rises to 21 EUR a month from May.</p>" * 3, subtype="html")
    yield FidelityCase("mail", "stub.eml", stub.as_bytes(), has=("21 EUR a month",))
    inner = EmailMessage()
    inner["Subject"], inner["From"], inner["To"] = "Refund", "c@example.com", "d@example.com"
    inner.set_content("The refund is 63 EUR.")
    boundary = "--b\r\nContent-Type: {}\r\nContent-Transfer-Encoding: {}\r\n\r\n{}\r\n"
    for encoding, content in (
        ("base64", base64.encodebytes(inner.as_bytes()).decode()),
        ("7bit", inner.as_bytes().decode()),
    ):
        head = "Subject: Fwd\r\nFrom: a@example.com\r\nMIME-Version: 1.0\r\n"
        head += "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
        parts = boundary.format("text/plain", "7bit", "See below.") + boundary.format(
            "message/rfc822", encoding, content
        )
        yield FidelityCase(
            "mail",
            f"attached_{encoding}.eml",
            f"{head}{parts}--b--\r\n".encode(),
            has=("The refund is 63 EUR",),
            hasnot=(content[:30],) if encoding == "base64" else (),
        )
    attached = EmailMessage()
    attached["Subject"], attached["From"], attached["To"] = "Prices", "a@example.com", "b@example.com"
    attached.set_content("The list is attached.")
    attached.add_attachment(b"\0\1", maintype="application", subtype="octet-stream", filename="prices.bin")
    yield FidelityCase("attachments", "attached.eml", attached.as_bytes(), warning_codes=("attachments_not_read",))
    yield FidelityCase(
        "mail",
        "wide.eml",
        "\ufeffSubject: Hours\r\nFrom: a@example.com\r\n\r\nOpen until ten.\r\n".encode("utf-16-le"),
        has=("Open until ten",),
    )
