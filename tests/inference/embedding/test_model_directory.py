"""Any local model from a directory: pooling, limits, prefixes, identity, and directories that are refused."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, save

from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.factory import create_embedders
from app.inference.embedding.local_embedder import LocalEmbedder
from app.inference.embedding.model_registry import Embedders
from app.inference.onnx_directory import LocalModelRefused
from app.settings import load_settings
from tests.inference.embedding.conftest import find
from tests.inference.embedding.test_minilm import TEXTS

NOBODY: Any = None  # the store of rate limits, which these embedders do not have
WORDS = ["[PAD]", "[UNK]", "desk", "invoice", "library", "thirty", "word", "a", "the", "is", "in", ".", "days"]
SHA12 = "6c9c6101a956"


@pytest.fixture(scope="module")
def bge_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bge-small as a hub's repository is cloned."""
    directory = tmp_path_factory.mktemp("hub") / "bge-clone"
    (directory / "onnx").mkdir(parents=True)
    (directory / "1_Pooling").mkdir()
    source = find("bge-small-en-v1.5")
    shutil.copy(source / "model.onnx", directory / "onnx" / "model_quantized.onnx")
    shutil.copy(source / "tokenizer.json", directory)
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    (directory / "config.json").write_text(json.dumps({"max_position_embeddings": 512}))
    return directory


def open_directory(directory: Path, **settings: Any) -> Embedders:
    names = {f"CARREL_EMBEDDING_{name.upper()}": value for name, value in settings.items()}
    loaded = load_settings(embedding={"CARREL_EMBEDDING_LOCAL": str(directory), **names})
    return create_embedders(loaded.embedding, bulk_threads=1, rate_limit_store=NOBODY)


def write_tiny_model(directory: Path, table: np.ndarray[Any, Any]) -> Path:
    """Write a model whose vector of a token is a row of the table, with a tokenizer of words."""
    directory.mkdir(parents=True, exist_ok=True)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "tokens"])],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", table.shape[1]])],
        [helper.make_tensor("table", TensorProto.FLOAT, table.shape, table.astype(np.float32).tobytes(), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    save(model, directory / "model.onnx")
    tokenizer: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {
            "type": "WordLevel", "unk_token": "[UNK]", "vocab": {word: index for index, word in enumerate(WORDS)}
        },
    }  # fmt: skip
    (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
    return directory


def tiny_table(dimensions: int = 8) -> np.ndarray[Any, Any]:
    return np.random.default_rng(5).normal(size=(len(WORDS), dimensions))


async def test_directory_of_hub_equals_pinned_model(bge_directory: Path, bge: LocalEmbedder) -> None:
    opened = open_directory(bge_directory)
    try:
        assert opened.default.identity == EmbeddingIdentity(f"bge-clone@{SHA12}", 384, "onnx-cls", "", "")
        assert opened.default.max_tokens == 512
        vectors = (await opened.default.embed_documents(TEXTS)).vectors
        assert np.array_equal(vectors, (await bge.embed_documents(TEXTS)).vectors)
    finally:
        await opened.close()


async def test_directory_settings_override_files(bge_directory: Path) -> None:
    opened = open_directory(
        bge_directory, pooling="mean", max_tokens=64, query_prefix="query: ", document_prefix="passage: "
    )
    try:
        identity = opened.default.identity
        assert (identity.precision, identity.query_prefix, identity.document_prefix) == (
            "onnx-mean",
            "query: ",
            "passage: ",
        )
        assert opened.default.max_tokens == 64
        embedded = await opened.default.embed_documents(["desk " * 100])
        assert embedded.tokens == 64
    finally:
        await opened.close()


async def test_directory_does_not_hide_pinned_models(bge_directory: Path) -> None:
    """A change to a directory does not take the old search indexes out of service."""
    opened = open_directory(bge_directory)
    try:
        assert {embedder.identity.model for embedder in opened.all[1:]} >= {"bge-small-en-v1.5", "all-MiniLM-L6-v2"}
    finally:
        await opened.close()


@pytest.mark.parametrize(("pooling", "expected"), [("mean", None), ("cls", 0), ("last", -1)])
async def test_directory_pooling_selects_token(tmp_path: Path, pooling: str, expected: int | None) -> None:
    table = tiny_table()
    opened = open_directory(write_tiny_model(tmp_path / "tiny", table), pooling=pooling)
    try:
        (vector,) = await opened.default.embed_queries(["desk invoice library"])
        rows = table[[2, 3, 4]]
        wanted = rows.mean(axis=0) if expected is None else rows[expected]
        assert vector == pytest.approx(wanted / np.linalg.norm(wanted), abs=1e-6)
        assert (opened.default.special_tokens, opened.default.count_tokens(["desk invoice"])) == (0, [2])
    finally:
        await opened.close()


async def test_directory_changed_file_has_another_identity(tmp_path: Path) -> None:
    first = open_directory(write_tiny_model(tmp_path / "tiny", tiny_table()))
    second = open_directory(write_tiny_model(tmp_path / "tiny", tiny_table() + 1))
    assert first.default.identity.model.startswith("tiny@")
    assert first.default.identity.model != second.default.identity.model
    await first.close()
    await second.close()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.full((len(WORDS), 4), np.nan), "not finite"),
        (np.zeros((len(WORDS), 4)), "no length"),
        (np.ones((len(WORDS), 4)), "same vector"),
        (tiny_table(4001), "4001 dimensions"),
        (tiny_table()[:3], "cannot embed texts"),
    ],
    ids=["nan", "zeros", "constant", "wide", "short vocabulary"],
)
def test_directory_unusable_model_is_refused(
    tmp_path: Path, table: np.ndarray[Any, Any], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LocalModelRefused, match=rf"CARREL_EMBEDDING_LOCAL: .*{message}"):
        open_directory(write_tiny_model(tmp_path / "tiny", table))
    assert capfd.readouterr() == ("", "")  # onnxruntime would write the reason a second time, in several lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pooling_mode_max_tokens": True}, "pooling_mode_max_tokens"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "asks for pooling_mode_cls_token, "),
        ("no object", "not a JSON object"),
    ],
)
def test_directory_unknown_pooling_is_refused(tmp_path: Path, content: object, message: str) -> None:
    directory = write_tiny_model(tmp_path / "tiny", tiny_table())
    (directory / "1_Pooling").mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps(content))
    with pytest.raises(LocalModelRefused, match=message):
        open_directory(directory)


def test_directory_damaged_files_are_named(tmp_path: Path) -> None:
    directory = write_tiny_model(tmp_path / "tiny", tiny_table())
    (directory / "tokenizer.json").write_text("{}")
    with pytest.raises(LocalModelRefused, match=r"tokenizer\.json"):
        open_directory(directory)
    with pytest.raises(LocalModelRefused, match=f"none{os.sep}|none is"):
        open_directory(tmp_path / "none")
