"""Documents of several languages in one knowledge base: each is found by other forms of its words."""

from typing import Any

import pytest

from harness.running_service import Service, Tenant
from tests.api.problems import assert_problem

# The document, and a query with its words in other forms.
TEXTS = {
    "english": ("The tenants were cancelling their contracts before the winters.", "tenant cancelled contract"),
    "german": ("Die Kündigungen der Häuser wurden von den Mietern zurückgezogen.", "Kündigung Haus"),
    "french": ("Les locataires avaient résilié les contrats pendant les vacances.", "locataire résilier"),
    "japanese": ("賃貸契約の解約は三か月前に通知する必要があります。", "解約通知"),
    "chinese": ("租赁合同的解除需要提前三个月通知房东。", "解除合同"),
    "korean": ("임대 계약의 해지는 삼 개월 전에 통보해야 합니다.", "계약 해지"),
    "thai": ("การยกเลิกสัญญาเช่าต้องแจ้งล่วงหน้าสามเดือน", "ยกเลิกสัญญา"),
}
UNKNOWN = "4711; 23.5; 0815"


@pytest.fixture(scope="module")
def library(service: Service) -> Tenant:
    """A text of each language, and one without a known language."""
    tenant = service.create_tenant("library")
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "mixed", "language": "auto"})
    assert (made.status_code, made.json()["language"]) == (201, "auto")
    for language, (text, _) in TEXTS.items():
        assert tenant.add_text(text, kb="mixed")["language"] == language
    assert tenant.add_text(UNKNOWN, kb="mixed")["language"] == "english"
    return tenant


def found_by(tenant: Tenant, query: str, *, kb: str = "mixed", strategy: str = "lexical") -> list[dict[str, Any]]:
    body = {"query": query, "strategy": strategy, "top_k": 20}
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json=body)
    assert reply.status_code == 200, reply.text
    results: list[dict[str, Any]] = reply.json()["results"]
    return results


@pytest.mark.capability("language-words")
@pytest.mark.parametrize("language", sorted(TEXTS))
def test_document_of_any_language_is_found_by_other_word_forms(library: Tenant, language: str) -> None:
    text, query = TEXTS[language]
    assert found_by(library, query)[0]["text"] == text


def test_number_is_found_in_any_language(library: Tenant) -> None:
    assert [result["text"] for result in found_by(library, "4711")] == [UNKNOWN]


def test_stop_word_of_one_language_finds_word_of_another(library: Tenant) -> None:
    text = "Roses die in December."
    library.add_text(text, kb="mixed")
    assert [result["text"] for result in found_by(library, "die")] == [text]


def test_new_version_may_have_another_language(library: Tenant) -> None:
    first = library.add_text("Der Vertrag endet nach den Ferien.", kb="mixed", external_id="changing")
    second = library.add_text("Le contrat se termine après les voyages.", kb="mixed", external_id="changing")
    assert first["id"] == second["id"]
    assert (first["language"], second["language"]) == ("german", "french")
    assert found_by(library, "voyage")[0]["document"]["id"] == first["id"]
    assert not found_by(library, "Ferien")


def test_auto_with_one_language_scores_like_fixed_language(service: Service) -> None:
    tenant = service.create_tenant("one language")
    for name, language in (("auto", "auto"), ("set", "english")):
        made = tenant.admin.post("/v1/knowledge-bases", json={"name": name, "language": language})
        made.raise_for_status()
        for number, thing in enumerate(("lanterns and ferries", "a ferry", "the lantern of the ferry", "saddles")):
            tenant.add_text(f"This is all that the book number {number} says of {thing}.", kb=name)
    scores = [
        [(result["text"], result["scores"]["lexical"]) for result in found_by(tenant, "the ferries' lantern", kb=kb)]
        for kb in ("auto", "set")
    ]
    assert len(scores[0]) == 3
    assert scores[0] == scores[1]


def test_empty_knowledge_base_has_no_terms(service: Service, tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "empty", "language": "auto"}).raise_for_status()
    assert found_by(tenant, "anything", kb="empty") == []
    assert found_by(tenant, "anything", kb="empty", strategy="hybrid") == []


@pytest.mark.capability("language-listed")
def test_capabilities_list_languages(tenant: Tenant) -> None:
    known = tenant.admin.get("/v1/capabilities").json()["languages"]
    assert {"auto", *TEXTS} <= set(known)
    made = tenant.admin.post("/v1/knowledge-bases", json={"name": "x", "language": "automatic"})
    assert assert_problem(made, 422, "invalid")["errors"]


def test_document_shows_fixed_language(tenant: Tenant) -> None:
    tenant.admin.post("/v1/knowledge-bases", json={"name": "german", "language": "german"}).raise_for_status()
    assert tenant.add_text("The language is not looked at here.", kb="german")["language"] == "german"
    queued = tenant.admin.post("/v1/knowledge-bases/german/documents", json={"text": "Another text."})
    assert queued.json()["language"] is None


TURKISH = {
    "iade": "İade süresi 14 gündür ve ürünler kutusuyla geri gönderilmelidir.",
    "ışık": "IŞIK HIZI saniyede üç yüz bin kilometredir ve değişmez.",
    "istanbul": "İSTANBUL büyük bir şehirdir ve boğazın iki yakasında yer alır.",
    "internet": "INTERNET bağlantısı kesilirse lütfen destek ekibimizi arayınız.",
    "Isparta": "Her yıl ısparta gülleri için bahçelerde büyük bir şenlik yapılır.",
}


@pytest.mark.parametrize("language", ["turkish", "auto"])
def test_turkish_words_are_found_with_and_without_dots(service: Service, language: str) -> None:
    tenant = service.create_tenant("turkish")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "turkish", "language": language}).raise_for_status()
    for text in TURKISH.values():
        assert tenant.add_text(text, kb="turkish")["language"] == "turkish"
    for query, text in TURKISH.items():
        assert [result["text"] for result in found_by(tenant, query, kb="turkish")] == [text]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("10^6", "There are 10⁶ cells per cm³ at 25 ºC."),
        ("10⁶", "There are 10⁶ cells per cm³ at 25 ºC."),
        ("cm3", "There are 10⁶ cells per cm³ at 25 ºC."),
        ("Küttler", "The method of Heinrich K¨uttler and Herv´e J´egou."),
        ("Hervé", "The method of Heinrich K¨uttler and Herv´e J´egou."),
        ("3 kg", "It weighs 3㎏ and costs ５０ euros…"),
        ("50", "It weighs 3㎏ and costs ５０ euros…"),
    ],
)
@pytest.mark.parametrize("strategy", ["lexical", "hybrid"])
def test_symbols_are_found_by_their_plain_forms(library: Tenant, query: str, text: str, strategy: str) -> None:
    library.admin.post("/v1/knowledge-bases", json={"name": "symbols"})
    for each in ("There are 106 cells.", "A text of another kind.", text):
        library.add_text(each, kb="symbols")
    stored = text.replace("K¨uttler", "Küttler").replace("Herv´e", "Hervé").replace("５０", "50")
    assert found_by(library, query, kb="symbols", strategy=strategy)[0]["text"] == stored
