"""Documents and queries in languages that the embedding model does not read, over HTTP with real local models."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docx
import pytest

from app.inference.embedding.local_models import LOCAL_MODELS
from app.inference.embedding.weights import require_weights
from app.knowledge_bases.model_language import MAX_DOCUMENTS
from harness.databases import DatabaseFactory
from harness.running_service import Service, Tenant, build_settings, run_service

CODE = "language_not_supported"
ENGLISH_MODEL, MULTILINGUAL_MODEL = "bge-small-en-v1.5", "multilingual-e5-small"
CURE = f'`"embedding": {{"model": "{MULTILINGUAL_MODEL}"}}`'
TEXTS = {
    "german": "Die Kündigungsfrist für die Wohnung beträgt drei Monate zum Ende des Quartals. Der Mieter muss die "
    "Kündigung schriftlich an den Vermieter senden, und der Zugang ist entscheidend.",
    "french": "Le préavis pour un appartement est de trois mois avant la fin du trimestre. Le locataire doit envoyer "
    "une lettre au propriétaire, et la date de réception est décisive.",
    "spanish": "El plazo de preaviso para una vivienda es de tres meses antes del final del trimestre. El inquilino "
    "debe enviar una carta al propietario, y la fecha de recepción es decisiva.",
    "chinese": "租房合同的通知期限为季度结束前三个月。租客必须以书面形式通知房东，以收到通知的日期为准。",
    "russian": "Срок уведомления о расторжении договора аренды составляет три месяца до конца квартала. Арендатор "
    "должен отправить письмо собственнику, и дата получения является решающей.",
    "polish": "Okres wypowiedzenia umowy najmu mieszkania wynosi trzy miesiące przed końcem kwartału. Najemca musi "
    "wysłać pismo do właściciela, a data odbioru jest decydująca.",
}
QUESTIONS = {
    "german": "Wie lange ist die Kündigungsfrist für eine Wohnung?",
    "french": "Quel est le préavis pour un appartement ?",
    "spanish": "¿Cuál es el plazo de preaviso para una vivienda?",
    "chinese": "租房合同的通知期限是多久？",
    "russian": "Какой срок уведомления при расторжении договора?",
    "polish": "Jaki jest okres wypowiedzenia umowy najmu?",
}
ENGLISH = (
    "The notice period for a flat is three months to the end of a quarter. The tenant must send a letter to the "
    "landlord, and the day of its arrival counts."
)
ENGLISH_TEXTS = {
    "prose": ENGLISH,
    "code": "def load(path):\n    with open(path) as file:\n        return [line.split(',') for line in file]\n" * 20,
    "table": "Region,Q1,Q2,Q3\nKöln,12.5,13.1,9.8\nMálaga,7.0,7.2,6.9\nGdańsk,3.3,3.1,2.8\n" * 20,
    "names": "Ludwig van Beethoven; Camille Saint-Saëns; Antonín Dvořák; Manuel de Falla; Béla Bartók",
    "quotes": f"{ENGLISH} The German text says: 'Die Frist beträgt drei Monate.' {ENGLISH}",
}


def _link_weights(directory: Path, *models: str) -> Path:
    directory.mkdir()
    for name in models:
        (directory / name).symlink_to(require_weights(LOCAL_MODELS[name], None, Path.home() / ".cache"))
    return directory


@pytest.fixture(scope="module")
def both(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service with the English model by default, and the weights of the multilingual model."""
    directory = tmp_path_factory.mktemp("both")
    weights = _link_weights(directory / "models", ENGLISH_MODEL, MULTILINGUAL_MODEL)
    settings = build_settings(directory / "data", embedding={"CARREL_EMBEDDING_WEIGHTS_DIR": weights})
    with run_service(settings, make_database()) as service:
        yield service


@pytest.fixture(scope="module")
def english_only(make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service without the weights of the multilingual model."""
    directory = tmp_path_factory.mktemp("english")
    weights = _link_weights(directory / "models", ENGLISH_MODEL)
    settings = build_settings(directory / "data", embedding={"CARREL_EMBEDDING_WEIGHTS_DIR": weights})
    with run_service(settings, make_database()) as service:
        yield service


@pytest.fixture
def tenant(both: Service) -> Tenant:
    return both.create_tenant()


def create_kb(tenant: Tenant, name: str, **fields: Any) -> dict[str, Any]:
    reply = tenant.admin.post("/v1/knowledge-bases", json={"name": name, **fields})
    assert reply.status_code == 201, reply.text
    created: dict[str, Any] = reply.json()
    return created


def read_kb(tenant: Tenant, name: str) -> dict[str, Any]:
    found: dict[str, Any] = tenant.admin.get(f"/v1/knowledge-bases/{name}").json()
    return found


def wait_for_model(tenant: Tenant, name: str, model: str) -> dict[str, Any]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = read_kb(tenant, name)
        if found["embedding"]["model"] == model and found["reindex"] is None:
            return found
        time.sleep(0.1)
    raise TimeoutError(read_kb(tenant, name))


def search(tenant: Tenant, query: str, *, kb: str = "default", **fields: Any) -> dict[str, Any]:
    reply = tenant.admin.post(f"/v1/knowledge-bases/{kb}/search", json={"query": query, **fields})
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def list_codes(reply: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in reply["warnings"]]


@pytest.mark.capability("doc-language")
@pytest.mark.parametrize("kb_language", ["english", "auto", "german"])
def test_upload_other_language_warns_of_the_english_model(english_only: Service, kb_language: str) -> None:
    tenant = english_only.create_tenant()
    create_kb(tenant, "flats", language=kb_language)
    for language, text in TEXTS.items():
        document = tenant.add_text(text, kb="flats")
        assert (document["status"], list_codes(document)) == ("ready", [CODE])
        message = document["warnings"][0]["message"]
        assert message.startswith(f"The document is probably in {language.title()}, but the embedding model")
        assert f"carrel models pull {MULTILINGUAL_MODEL}" in message
        assert CURE in message
    assert read_kb(tenant, "flats")["reindex"] is None


@pytest.mark.parametrize("name", ENGLISH_TEXTS)
def test_upload_english_text_has_no_warning(tenant: Tenant, name: str) -> None:
    assert list_codes(tenant.add_text(ENGLISH_TEXTS[name])) == []


def test_upload_word_file_in_french_warns(tenant: Tenant, tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("Conditions de location", 1)
    document.add_paragraph(TEXTS["french"])
    document.save(str(tmp_path / "bail.docx"))
    uploaded = tenant.upload(tmp_path / "bail.docx")
    assert list_codes(uploaded) == [CODE]
    assert CURE in uploaded["warnings"][0]["message"]


def test_preview_other_language_warns(tenant: Tenant) -> None:
    for body, expected in ((TEXTS["german"], [CODE]), (ENGLISH, [])):
        reply = tenant.admin.post("/v1/preview", json={"text": body})
        assert reply.status_code == 200, reply.text
        assert list_codes(reply.json()) == expected


@pytest.mark.capability("search-language-warning")
def test_search_question_in_other_language_warns_of_the_english_model(tenant: Tenant) -> None:
    tenant.add_text(ENGLISH)
    for language, question in QUESTIONS.items():
        found = search(tenant, question)
        assert list_codes(found) == [CODE], question
        message = found["warnings"][0]["message"]
        assert message.startswith(f"The query is probably in {language.title()}, but the embedding model")
        assert "'default'" in message
        assert CURE in message


def test_search_english_question_has_no_warning(tenant: Tenant) -> None:
    tenant.add_text(ENGLISH)
    for question in ("How long is the notice period?", "notice period flat", "Beethoven", "ISO 9001:2015", "x"):
        assert list_codes(search(tenant, question)) == []


def test_search_lexical_strategy_has_no_warning(tenant: Tenant) -> None:
    tenant.add_text(TEXTS["german"])
    assert list_codes(search(tenant, QUESTIONS["german"], strategy="lexical")) == []


def test_search_several_queries_and_messages_warn_once(tenant: Tenant) -> None:
    tenant.add_text(ENGLISH)
    several = {"queries": ["notice period", QUESTIONS["german"], QUESTIONS["french"]]}
    messages = {"messages": [{"role": "user", "content": QUESTIONS["spanish"]}]}
    for body in (several, messages):
        reply = tenant.admin.post("/v1/search", json={"knowledge_bases": ["default"], **body})
        assert reply.status_code == 200, reply.text
        assert list_codes(reply.json()).count(CODE) == 1


def test_openai_search_in_other_language_warns(tenant: Tenant) -> None:
    tenant.add_text(ENGLISH)
    store = read_kb(tenant, "default")["id"]
    reply = tenant.admin.post(f"/openai/v1/vector_stores/{store}/search", json={"query": QUESTIONS["german"]})
    assert reply.status_code == 200, reply.text
    assert list_codes(reply.json()) == [CODE]


def test_agent_search_in_other_language_returns_passages(tenant: Tenant) -> None:
    tenant.add_text(ENGLISH)
    body = {"messages": [{"role": "user", "content": QUESTIONS["german"]}]}
    reply = tenant.admin.post("/v1/agent-search", json=body)
    assert (reply.status_code, len(reply.json())) == (200, 1)


def test_multilingual_model_by_name_has_no_warnings(tenant: Tenant) -> None:
    create_kb(tenant, "named", embedding={"model": MULTILINGUAL_MODEL})
    for text in (*TEXTS.values(), ENGLISH):
        assert list_codes(tenant.add_text(text, kb="named")) == []
    for question in QUESTIONS.values():
        found = search(tenant, question, kb="named")
        assert (list_codes(found), len(found["results"]) > 0) == ([], True)


def test_reindex_with_multilingual_model_removes_the_warnings(tenant: Tenant) -> None:
    documents = [tenant.add_text(text) for text in (TEXTS["german"], ENGLISH, TEXTS["chinese"])]
    assert [list_codes(document) for document in documents] == [[CODE], [], [CODE]]
    body = {"embedding": {"model": MULTILINGUAL_MODEL}}
    assert tenant.admin.post("/v1/knowledge-bases/default/reindex", json=body).status_code == 202
    wait_for_model(tenant, "default", MULTILINGUAL_MODEL)
    listed = tenant.admin.get("/v1/knowledge-bases/default/documents").json()["items"]
    assert [list_codes(document) for document in listed] == [[], [], []]
    assert list_codes(search(tenant, QUESTIONS["german"])) == []


@pytest.mark.capability("model-auto")
def test_auto_language_moves_to_the_multilingual_model(tenant: Tenant) -> None:
    create_kb(tenant, "auto", language="auto")
    assert read_kb(tenant, "auto")["embedding"]["model"] == ENGLISH_MODEL
    first = tenant.add_text(TEXTS["german"], kb="auto")
    assert first["status"] == "ready"
    found = wait_for_model(tenant, "auto", MULTILINGUAL_MODEL)
    assert found["language"] == "auto"
    for text in (TEXTS["french"], ENGLISH):
        assert list_codes(tenant.add_text(text, kb="auto")) == []
    listed = tenant.admin.get("/v1/knowledge-bases/auto/documents").json()["items"]
    assert [list_codes(document) for document in listed] == [[], [], []]
    for question in (QUESTIONS["german"], QUESTIONS["russian"], "How long is the notice period?"):
        result = search(tenant, question, kb="auto", strategy="dense")
        assert (list_codes(result), len(result["results"])) == ([], 3)
    events = tenant.admin.get("/v1/audit-events", params={"action": "knowledge_base.reindex"}).json()["items"]
    assert [event["actor"]["kind"] for event in events] == ["service"]


def test_auto_language_with_parallel_uploads_moves_once(tenant: Tenant) -> None:
    create_kb(tenant, "auto", language="auto")
    with ThreadPoolExecutor(6) as pool:
        documents = list(pool.map(lambda n: tenant.add_text(f"{TEXTS['spanish']} Número {n}.", kb="auto"), range(12)))
    assert {document["status"] for document in documents} == {"ready"}
    wait_for_model(tenant, "auto", MULTILINGUAL_MODEL)
    found = search(tenant, QUESTIONS["spanish"], kb="auto", top_k=20)
    assert (list_codes(found), len(found["results"])) == ([], 12)
    events = tenant.admin.get("/v1/audit-events", params={"action": "knowledge_base.reindex"}).json()["items"]
    assert len(events) == 1


def test_auto_language_english_documents_keep_the_english_model(tenant: Tenant) -> None:
    create_kb(tenant, "auto", language="auto")
    for number in range(3):
        tenant.add_text(f"{ENGLISH} Number {number}.", kb="auto")
    document = tenant.add_text(TEXTS["german"], kb="auto")
    assert list_codes(document) == [CODE]
    assert f"if most documents are not in English and there are at most {MAX_DOCUMENTS}" in str(document["warnings"])
    found = read_kb(tenant, "auto")
    assert (found["embedding"]["model"], found["reindex"]) == (ENGLISH_MODEL, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"language": "english"},
        {"language": "german"},
        {"language": "auto", "embedding": {"model": ENGLISH_MODEL}},
        {"language": "auto", "embedding": {"dimensions": 384}},
    ],
)
def test_chosen_language_or_model_stays(tenant: Tenant, fields: dict[str, Any]) -> None:
    create_kb(tenant, "chosen", **fields)
    assert list_codes(tenant.add_text(TEXTS["german"], kb="chosen")) == [CODE]
    found = read_kb(tenant, "chosen")
    assert (found["embedding"]["model"], found["reindex"]) == (ENGLISH_MODEL, None)


def test_auto_language_after_cancel_or_rollback_does_not_move_again(tenant: Tenant) -> None:
    create_kb(tenant, "auto", language="auto")
    tenant.add_text(TEXTS["german"], kb="auto")
    wait_for_model(tenant, "auto", MULTILINGUAL_MODEL)
    assert tenant.admin.post("/v1/knowledge-bases/auto/reindex/rollback").status_code == 202
    wait_for_model(tenant, "auto", ENGLISH_MODEL)
    assert list_codes(tenant.add_text(TEXTS["french"], kb="auto")) == [CODE]
    found = read_kb(tenant, "auto")
    assert (found["embedding"]["model"], found["reindex"]) == (ENGLISH_MODEL, None)


def test_auto_language_with_an_imported_archive_does_not_move(tenant: Tenant) -> None:
    """Otherwise the rest of the archive, or its next version, could not be imported."""
    create_kb(tenant, "source", language="auto", embedding={"model": ENGLISH_MODEL})
    tenant.add_text(TEXTS["spanish"], kb="source")
    archive = tenant.admin.get("/v1/knowledge-bases/source/export").raise_for_status().content
    create_kb(tenant, "copy", language="auto")
    create_kb(tenant, "auto", language="auto")
    headers = {"Content-Type": "application/x-tar"}
    path = "/v1/knowledge-bases/copy/import"
    assert tenant.admin.post(path, content=archive, headers=headers).json()["documents"] == 1
    for name in ("copy", "auto"):
        assert list_codes(tenant.add_text(TEXTS["german"], kb=name)) == [CODE]
    wait_for_model(tenant, "auto", MULTILINGUAL_MODEL)
    found = read_kb(tenant, "copy")
    assert (found["embedding"]["model"], found["reindex"]) == (ENGLISH_MODEL, None)
    assert tenant.admin.post(path, content=archive, headers=headers).status_code == 200
