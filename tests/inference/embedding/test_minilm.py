"""The embedded model compared with a plain implementation, at its limits, and with queries during bulk work."""

import asyncio
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, overload

import numpy as np
import pytest

from app.inference.embedding import EmbeddingIdentity, EmbeddingUnavailable
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.text_tokenizer import MAX_BATCH_CHARACTERS, _split_batches, load_tokenizer
from app.inference.embedding.weights import WeightsDamaged
from tests.inference.embedding.conftest import load
from tests.inference.embedding.reference import Reference

PASSAGE = (
    "The carrel is a small desk set apart in a library, screened on three sides so that a reader may work undisturbed. "
    "Monasteries of the fourteenth century built them of stone along the cloister, facing the light. "
)
TEXTS = [
    "",
    "word",
    "A question about reading desks?",
    "Ünïcödé, 中文字, emoji \U0001f9ec and tabs\tand\nlines",
    PASSAGE,
    PASSAGE * 7,
    "x" * 5000,
]
WAIT = 60


class Drawn(Sequence[str]):
    """Texts that count how many of them were read."""

    def __init__(self, text: str, total: int) -> None:
        self.text = text
        self.total = total
        self.drawn = 0

    def __len__(self) -> int:
        return self.total

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        assert isinstance(index, int)
        self.drawn += 1
        return f"{index} {self.text}"

    async def reached(self, count: int) -> None:
        async with asyncio.timeout(WAIT):
            while self.drawn < count:
                await asyncio.sleep(0.001)


@pytest.fixture(scope="session")
def expected(weights_dir: Path) -> Any:
    reference = Reference(weights_dir)
    return np.stack([reference.embed(text) for text in TEXTS])


async def test_minilm_fp32_equals_plain_implementation(fp32: LocalEmbedder, expected: Any) -> None:
    vectors = (await fp32.embed_documents(TEXTS)).vectors
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 384)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    assert (vectors * expected).sum(axis=1).min() >= 0.9999


async def test_minilm_int8_is_close_to_plain_implementation(int8: LocalEmbedder, expected: Any) -> None:
    vectors = (await int8.embed_documents(TEXTS)).vectors
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5
    cosines = (vectors * expected).sum(axis=1)
    prose = [len(text.split()) > 3 for text in TEXTS]
    assert sum(prose) == 4
    assert cosines[prose].min() >= 0.99
    assert cosines.min() >= 0.97  # texts without words, with one word, and with one unknown word
    assert cosines.max() < 0.99999  # otherwise it would be fp32 by another name


@pytest.mark.parametrize("precision", ["fp32", "int8"])
async def test_minilm_similar_meaning_has_higher_cosine(precision: str, request: pytest.FixtureRequest) -> None:
    embedder: LocalEmbedder = request.getfixturevalue(precision)
    (query,) = await embedder.embed_queries(["How do I get my money back?"])
    embedded = await embedder.embed_documents(
        [
            "The mitochondrion produces most of a cell's energy.",
            "We refund purchases within thirty days.",
            "Our shop ships orders to forty countries.",
            "Returned goods are paid back.",
        ]
    )
    cosines = embedded.vectors @ query
    assert min(cosines[1], cosines[3]) > 0.4
    assert max(cosines[0], cosines[2]) < 0.1


@pytest.mark.parametrize("precision", ["fp32", "int8"])
async def test_minilm_vector_does_not_depend_on_batch(precision: str, request: pytest.FixtureRequest) -> None:
    embedder: LocalEmbedder = request.getfixturevalue(precision)
    alone = [(await embedder.embed_documents([text])).vectors[0] for text in TEXTS]
    together, again, queries = await asyncio.gather(
        embedder.embed_documents(TEXTS), embedder.embed_documents(TEXTS[::-1]), embedder.embed_queries(TEXTS)
    )
    assert np.array_equal(np.stack(alone), together.vectors)
    assert np.array_equal(together.vectors, again.vectors[::-1])
    assert np.array_equal(together.vectors, queries)
    assert together.tokens == again.tokens == sum(min(256, 2 + count) for count in embedder.count_tokens(TEXTS))


async def test_minilm_without_texts_returns_no_rows(int8: LocalEmbedder) -> None:
    assert (await int8.embed_documents([])).vectors.shape == (0, 384)
    assert (await int8.embed_queries([])).shape == (0, 384)


async def test_minilm_text_is_cut_at_256_tokens(fp32: LocalEmbedder) -> None:
    words = ["desk"] * 254
    assert fp32.count_tokens([" ".join(words)]) == [254]
    embedded = await fp32.embed_documents(
        [" ".join(words), " ".join([*words, "volcano", "eruption"]), " ".join(words[:-4])]
    )
    fits, longer, shorter = embedded.vectors
    assert embedded.tokens == 256 + 256 + 252
    assert np.array_equal(fits, longer)
    assert not np.array_equal(fits, shorter)


async def test_minilm_megabytes_of_text_are_cut(int8: LocalEmbedder) -> None:
    long, short = (await int8.embed_documents([PASSAGE * 20_000, PASSAGE * 20])).vectors
    assert np.array_equal(long, short)


async def test_minilm_lone_surrogates_are_accepted(int8: LocalEmbedder) -> None:
    (vector,) = await int8.embed_queries(["half a \ud83e pair"])
    assert np.isfinite(vector).all()
    assert int8.count_tokens(["\udc00"]) == [1]


def test_minilm_count_excludes_special_tokens(int8: LocalEmbedder) -> None:
    assert int8.count_tokens(["", "word", "two words", "word " * 1000]) == [0, 1, 2, 1000]
    assert (int8.max_tokens, int8.special_tokens) == (256, 2)


@pytest.mark.parametrize(
    "text",
    ["word and more, ", "no-space!", "中文字", "[SEP]", "x" * 90 + " ", "e\u0301\u0323 ", "a]b[SEP]c[ ", "\n\t", "🙂 "],
    ids=ascii,
)
def test_count_tokens_long_text_equals_one_call(weights_dir: Path, int8: LocalEmbedder, text: str) -> None:
    """A long text is counted in parts, at places where the tokenizer splits it anyway."""
    long = text * (2 * MAX_BATCH_CHARACTERS // len(text) + 7)
    tokenizer = load_tokenizer(weights_dir / "tokenizer.json")._tokenizer
    (alone,) = tokenizer.encode_batch_fast([long], add_special_tokens=False)
    assert int8.count_tokens([long, "", text]) == [len(alone.ids), 0, *int8.count_tokens([text])]


def test_count_tokens_many_texts_are_counted_in_batches() -> None:
    """Any number of texts is counted in small batches: an encoding takes a hundred bytes for each token."""
    texts = ["", *["word " * 100] * 3000, "x" * (3 * MAX_BATCH_CHARACTERS)]
    batches = list(_split_batches(texts))
    assert len(batches) > 10
    assert all(sum(len(part) for _, part in batch) <= MAX_BATCH_CHARACTERS for batch in batches)
    joined = [""] * len(texts)
    for position, part in chain.from_iterable(batches):
        joined[position] += part
    assert joined == texts


async def test_minilm_prefixes_are_added(fp32: LocalEmbedder) -> None:
    prefixed = load("all-MiniLM-L6-v2", precision="fp32", query_prefix="query: ", document_prefix="passage: ")
    try:
        assert prefixed.identity == EmbeddingIdentity("all-MiniLM-L6-v2", 384, "fp32", "query: ", "passage: ")
        plain = (await fp32.embed_documents(["query: desk", "passage: desk"])).vectors
        assert np.array_equal(await prefixed.embed_queries(["desk"]), plain[:1])
        assert np.array_equal((await prefixed.embed_documents(["desk"])).vectors, plain[1:])
    finally:
        await prefixed.close()


async def test_minilm_query_and_note_finish_during_bulk_work(fp32: LocalEmbedder) -> None:
    texts = Drawn(PASSAGE * 6, 1000)
    bulk = asyncio.create_task(fp32.embed_documents(texts))
    await texts.reached(2)
    for _ in range(3):
        await asyncio.wait_for(fp32.embed_queries(["a short query"]), WAIT)
        await asyncio.wait_for(fp32.embed_documents(["a short note"], interactive=True), WAIT)
    assert texts.drawn <= 900
    assert not bulk.done()
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk


async def test_minilm_bulk_calls_share_threads(int8: LocalEmbedder) -> None:
    large = Drawn(PASSAGE * 6, 1000)
    first = asyncio.create_task(int8.embed_documents(large))
    await large.reached(3)
    await asyncio.wait_for(int8.embed_documents(["a small document"]), WAIT)
    assert large.drawn <= 900
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_minilm_cancelled_call_reads_no_more_texts(int8: LocalEmbedder) -> None:
    texts = Drawn(PASSAGE, 10_000)
    bulk = asyncio.create_task(int8.embed_documents(texts))
    await texts.reached(4)
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk
    drawn = texts.drawn
    await int8.embed_documents(["what comes after"] * 6)
    assert texts.drawn == drawn < 10_000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has a priority a thread")
def test_minilm_only_bulk_threads_have_low_priority(int8: LocalEmbedder) -> None:
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    named = {thread.name: thread.native_id for thread in threading.enumerate() if thread.name.startswith("embed-")}
    niceness = {name: os.getpriority(os.PRIO_PROCESS, native or 0) for name, native in named.items()}
    assert {value for name, value in niceness.items() if "query" in name} == {own}
    assert {value for name, value in niceness.items() if "bulk" in name} == {max(own, 10)}


async def test_minilm_closed_model_is_unavailable() -> None:
    embedder = load("all-MiniLM-L6-v2")
    await embedder.check()
    await embedder.close()
    for call in (embedder.embed_queries, embedder.embed_documents):
        with pytest.raises(EmbeddingUnavailable, match="closed"):
            await call(["word", "word"])
    with pytest.raises(EmbeddingUnavailable):
        await embedder.check()


def damaged(weights_dir: Path, target: Path, content: bytes, size: int) -> Path:
    shutil.copy(weights_dir / "tokenizer.json", target)
    with (target / "model.safetensors").open("wb") as file:
        file.write(content)
        file.truncate(size)
    return target


def test_minilm_damaged_weights_are_named(weights_dir: Path, tmp_path: Path) -> None:
    whole = (weights_dir / "model.safetensors").stat().st_size
    with (weights_dir / "model.safetensors").open("rb") as file:
        head = file.read(100_000)
    query = b"encoder.layer.3.attention.self.query.weight"
    assert query in head
    assert b"[30522,384]" in head
    cases = {
        r"safetensors cannot be read: cannot mmap": (b"", 0),
        "no readable header": (b"\xff" * 100, 100),
        "safetensors cannot be read: offset": (head, len(head)),
        "another model": (head.replace(query, query.replace(b"query", b"quarz")), whole),
        "was expected": (head.replace(b"[30522,384]", b"[15261,768]"), whole),
    }
    for message, (content, size) in cases.items():
        with pytest.raises(WeightsDamaged, match=message):
            load("all-MiniLM-L6-v2", directory=damaged(weights_dir, tmp_path, content, size), precision="fp32")


def test_minilm_damaged_tokenizer_is_named(weights_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(weights_dir / "model.safetensors")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsDamaged, match=r"tokenizer\.json"):
        load("all-MiniLM-L6-v2", directory=tmp_path)


def test_minilm_packaged_graphs_equal_build_script(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[3]
    spec = importlib.util.spec_from_file_location("build_encoder_graphs", root / "scripts" / "build_encoder_graphs.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.main([str(tmp_path)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["e5_int8.onnx", "minilm_fp32.onnx", "minilm_int8.onnx"]
    for name in names:
        assert (tmp_path / name).read_bytes() == (root / "app" / "inference" / "embedding" / name).read_bytes(), name
