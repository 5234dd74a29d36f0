"""bge-small-en-v1.5 from its ONNX file: limits, meaning, and vectors that do not depend on other texts."""

import asyncio
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.weights import WeightsDamaged
from tests.inference.embedding.conftest import find, load
from tests.inference.embedding.test_minilm import PASSAGE, TEXTS


async def test_bge_equals_plain_run_of_the_file(bge: LocalEmbedder) -> None:
    """The reference pads its texts, and takes the normalised vector of the first token."""
    directory = find("bge-small-en-v1.5")
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    session = onnxruntime.InferenceSession(str(directory / "model.onnx"), providers=["CPUExecutionProvider"])
    embedded = await bge.embed_documents(TEXTS)
    assert np.abs(np.linalg.norm(embedded.vectors, axis=1) - 1).max() < 1e-5
    for text, vector in zip(TEXTS, embedded.vectors, strict=True):
        encoding = tokenizer.encode(text)
        names = {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask}
        names["token_type_ids"] = encoding.type_ids
        feed = {name: np.array([values], np.int64) for name, values in names.items()}
        first = session.run(["last_hidden_state"], feed)[0][0, 0]
        assert vector @ (first / np.linalg.norm(first)) > 0.9999, text


async def test_bge_vector_does_not_depend_on_batch(bge: LocalEmbedder) -> None:
    alone = [(await bge.embed_documents([text])).vectors[0] for text in TEXTS]
    together, queries = await asyncio.gather(bge.embed_documents(TEXTS), bge.embed_queries(TEXTS))
    assert np.array_equal(np.stack(alone), together.vectors)
    assert np.array_equal(together.vectors, queries)
    assert together.tokens == sum(min(512, 2 + count) for count in bge.count_tokens(TEXTS))


async def test_bge_similar_meaning_has_higher_cosine(bge: LocalEmbedder) -> None:
    (query,) = await bge.embed_queries(["How do I get my money back?"])
    texts = [
        "The mitochondrion produces most of a cell's energy.",
        "We refund purchases within thirty days.",
        "Our shop ships orders to forty countries.",
        "Returned goods are paid back.",
    ]
    cosines = (await bge.embed_documents(texts)).vectors @ query
    assert min(cosines[1], cosines[3]) > max(cosines[0], cosines[2]) + 0.1


async def test_bge_text_is_cut_at_512_tokens(bge: LocalEmbedder) -> None:
    words = ["desk"] * 510
    assert bge.count_tokens([" ".join(words)]) == [510]
    texts = [" ".join(words), " ".join([*words, "volcano", "eruption"]), " ".join(words[:-4])]
    embedded = await bge.embed_documents(texts)
    fits, longer, shorter = embedded.vectors
    assert embedded.tokens == 512 + 512 + 508
    assert np.array_equal(fits, longer)
    assert not np.array_equal(fits, shorter)


async def test_bge_hostile_texts_are_embedded(bge: LocalEmbedder) -> None:
    vectors = (await bge.embed_documents(["half a \ud83e pair", PASSAGE * 20_000, "x" * 10**6, "\0" * 5000])).vectors
    assert np.isfinite(vectors).all()
    assert np.array_equal(vectors[1], (await bge.embed_documents([PASSAGE * 40])).vectors[0])


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "cannot be read"), (b"\xff" * 100, "cannot be read"), (None, "cannot be read")],
    ids=["empty", "garbage", "cut"],
)
def test_bge_damaged_weights_are_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    source = find("bge-small-en-v1.5")
    (tmp_path / "tokenizer.json").symlink_to(source / "tokenizer.json")
    if content is None:
        content = (source / "model.onnx").read_bytes()[:1_000_000]
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(WeightsDamaged, match=message):
        load("bge-small-en-v1.5", directory=tmp_path)
