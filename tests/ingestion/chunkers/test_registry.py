"""Chunkers of plugins: declarations, and failures that fail the document with a service error."""

import logging
from collections.abc import Iterator

import pytest

from app.inference.embedding import EmbeddingUnavailable
from app.ingestion.chunkers import CHUNKERS, ChunkTools
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunking import chunk_document, parse_chunker_options
from app.ingestion.tree import build_tree
from app.ingestion.types import Block, BlockKind, ChunkerFailed, DocumentTree, ParsedDocument
from app.knowledge_bases.types import Chunking
from app.warnings import ServiceWarning
from tests.fixtures.plugins import Plugins, plugins
from tests.ingestion.chunkers.chunk_texts import embed
from tests.ingestion.documents import words

__all__ = ["plugins"]
HEAD = """
from carrel.plugins.chunkers import ChunkDraft, ChunkerOutput, ChunkerSpec, NoChunkerOptions, NodeKind, TreeNode
from carrel.plugins.chunkers import build_drafts
from carrel.plugins.embedders import EmbeddingUnavailable
from pydantic import BaseModel

class Options(BaseModel):
    size: int = 3

def whole(tree):
    return build_drafts(tree, [(0, len(tree.text))])

"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Clear the registry around each test, because a process loads it once."""
    load_chunkers.cache_clear()
    yield
    load_chunkers.cache_clear()


def add(plugins: Plugins, module: str, expression: str, *, name: str = "mine") -> None:
    """Add a plugin with a chunker named ``mine`` that returns this expression."""
    text = f"def chunk(tree, sizes, options, tools):\n    return {expression}\n"
    line = f"CHUNKER = ChunkerSpec({name!r}, 'Mine.', Options, chunk)\nOTHER = 'no chunker'\n"
    plugins.add(module, HEAD + text + line, chunkers={module: f"{module}:CHUNKER"})


def document() -> DocumentTree:
    heading, text = Block(BlockKind.HEADING, "Whales", level=1), Block(BlockKind.PARAGRAPH, "They sing.")
    return build_tree(ParsedDocument([heading, text]))


def tools() -> ChunkTools:
    return ChunkTools(words, embed, 200)


@pytest.mark.capability("chunker-plugin")
def test_plugin_chunker_is_chosen_by_name(plugins: Plugins) -> None:
    add(plugins, "c_good", "ChunkerOutput(whole(tree))")
    assert load_chunkers().keys() == {*CHUNKERS, "mine"}
    assert parse_chunker_options("mine", {}, loc=()) == {"size": 3}
    drafts, counts = chunk_document(document(), Chunking("mine"), tools())
    assert [draft.text for draft in drafts] == ["Whales\n\nThey sing."]
    assert counts == [4]


def test_chunk_document_plain_warning_of_plugin_gets_code(plugins: Plugins) -> None:
    add(plugins, "c_warns", "tree.warnings.append('A plain string.') or ChunkerOutput(whole(tree))")
    tree = document()
    chunk_document(tree, Chunking("mine"), tools())
    assert tree.warnings == [ServiceWarning("plugin_warning", "A plain string.")]


@pytest.mark.parametrize(
    ("module", "expression", "told"),
    [
        ("c_raises", "1 / 0", r"'mine' failed \(ZeroDivisionError\)"),
        ("c_nothing", "None", "'mine' failed"),
        ("c_dicts", "ChunkerOutput([{'text': 'x'}])", "not a chunk"),
        ("c_texts", "ChunkerOutput([ChunkDraft(None, 0, 1)])", "not a chunk"),
        ("c_floats", "ChunkerOutput([ChunkDraft('Whales', 0.0, 6.0)])", "not a chunk"),
        ("c_titles", "ChunkerOutput([ChunkDraft('Whales', 0, 6, section_titles=(1,))])", "not a chunk"),
        ("c_paths", "ChunkerOutput([ChunkDraft('Whales', 0, 6, node_path=5)])", "'mine' failed"),
        ("c_topics", "ChunkerOutput(whole(tree), topics=['x'])", "not a chunk"),
        (
            "c_lost",
            "ChunkerOutput(whole(tree), topics=[TreeNode(NodeKind.TOPIC, 0, 0, 3, path=(9, 9))])",
            "invalid path",
        ),
        ("c_warning", "tree.warnings.append(1) or ChunkerOutput(whole(tree))", "'mine' failed"),
        ("c_other", "ChunkerOutput([ChunkDraft('whales', 0, 6)])", "another text"),
        ("c_long", "ChunkerOutput([ChunkDraft('Whales', 0, 600)])", "not a range"),
    ],
)
def test_plugin_chunker_failure_is_chunker_failed(plugins: Plugins, module: str, expression: str, told: str) -> None:
    add(plugins, module, expression)
    with pytest.raises(ChunkerFailed, match=told) as failed:
        chunk_document(document(), Chunking("mine"), tools())
    assert failed.value.code == "chunker_failed"


def test_plugin_chunker_embedder_error_propagates(plugins: Plugins) -> None:
    def unavailable(_: object) -> None:
        raise EmbeddingUnavailable

    add(plugins, "c_embedding", "tools.embed(['x'])")
    with pytest.raises(EmbeddingUnavailable):
        chunk_document(document(), Chunking("mine"), ChunkTools(words, unavailable, 200))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["headered", "My Chunker", ""])
def test_plugin_chunker_with_reserved_or_invalid_name_is_skipped(
    plugins: Plugins, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    add(plugins, f"c_named_{len(name)}", "None", name=name)
    with caplog.at_level(logging.WARNING, logger="app"):
        assert load_chunkers() == CHUNKERS
    assert [record.msg for record in caplog.records] == ["plugin.skipped"]


def test_plugin_chunker_of_other_type_is_skipped(plugins: Plugins) -> None:
    add(plugins, "c_else", "None")
    (plugins.folder / "c_else-1.0.dist-info" / "entry_points.txt").write_text("[carrel.chunkers]\nx = c_else:OTHER\n")
    assert load_chunkers() == CHUNKERS
