"""The examples of docs/how-to/write-a-plugin.md do what the page says, installed by pip in a separate environment."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = re.compile(r"^`(carrel-[\w./-]+)`\n\n(?:<!--[^\n]*-->\n)?```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = dict(EXAMPLE.findall((ROOT / "docs" / "how-to" / "write-a-plugin.md").read_text()))

WORK = """
import asyncio, json, sys
from pathlib import Path

from app.ingestion.parsers.factory import create_parser_pool
from app.inference.embedding.factory import create_embedder
from app.inference.rerank.factory import create_reranker
from app.documents.upload.media_type import detect_media_type
from app.documents.types import ReceivedFile
from app.ingestion.chunkers.registry import load_chunkers
from app.ingestion.chunking import chunk_document, parse_chunker_options, create_chunk_tools
from app.ingestion.parsers.registry import load_installed_parsers, list_plugin_types
from app.ingestion.tree import build_tree
from app.ingestion.types import IngestionError
from app.knowledge_bases.types import Chunking
from app.logging import configure_logging
from app.graph.extraction.plugin_extractor import load_extractors
from app.graph.serializers import load_serializers
from app.graph.serializers.serializer import NamedPassage, ResultGraph, StatedRelation
from app.retrieval.strategies import load_strategies
from app.retrieval.transformers import load_transformers
from app.settings import load_settings

CARD = "BEGIN:VCARD\\r\\nVERSION:4.0\\r\\nFN:Ada Lovelace\\r\\nORG:Analytical Engines;Notes\\r\\n"
CARD += "NOTE;LANGUAGE=en:The Analytical Engine weaves algebraic\\r\\n  patterns.\\r\\nEND:VCARD\\r\\n"

def received(name, content, declared=None):
    path = Path(name)
    path.write_bytes(content)
    return ReceivedFile(path, name, declared, len(content), b"")

def kind(file):
    parsers = load_installed_parsers()
    return detect_media_type(file, parsers.keys(), list_plugin_types(parsers))

async def parse(pool, file):
    try:
        return await pool.parse(file.path.absolute(), "text/vcard")
    except IngestionError as exc:
        return exc.code

async def main():
    settings = load_settings()
    card, empty = received("card.vcf", CARD.encode()), received("empty.vcf", b"no card")
    long = received("long.vcf", (CARD + "NOTE:" + "long " * 3000).encode())
    async with create_parser_pool(settings.parser, 1) as pool:
        parsed, corrupt, too_large = [await parse(pool, file) for file in (card, empty, long)]
    embedder = await asyncio.to_thread(create_embedder, settings.embedding, 1, None)
    await embedder.check()
    reranker = await asyncio.to_thread(create_reranker, settings.rerank)
    texts = ["no such words", "weaving by engines", "engines"]
    scores = await reranker.rerank("engines weaving", texts, top_n=3, timeout_seconds=5)
    tree = build_tree(parsed)
    async with create_chunk_tools(embedder) as tools:
        options = parse_chunker_options("paragraphs", {"min_characters": 40}, loc=())
        chunking = Chunking("paragraphs", 100, 0, options)
        drafts, counts = await asyncio.to_thread(chunk_document, tree, chunking, tools)
    vectors = (await embedder.embed_documents(["Analytical engines", "weaving", "engines"])).vectors
    passage = NamedPassage("chk_1", "Letters")
    graph = ResultGraph((), [StatedRelation("Ada", "works with", "Charles", passage)], [passage])
    return {
        "kinds": [kind(card), kind(received("a.bin", CARD.encode(), "text/x-vcard")),
                  kind(received("card.txt", CARD.encode(), "text/vcard")), kind(received("a.vcf", b"%PDF-1.7"))],
        "listed": [sorted(list_plugin_types(load_installed_parsers())), "paragraphs" in load_chunkers()],
        "named": [[*load_strategies()][-1], [*load_transformers()][-1], [*load_extractors()][-1]],
        "graph": load_serializers()["mermaid"].serialize(graph),
        "title": parsed.title,
        "text": tree.text,
        "errors": [corrupt, too_large],
        "chunks": [[draft.text, list(draft.section_titles)] for draft in drafts],
        "counts": counts,
        "model": embedder.identity.model,
        "scores": [round(scores[place], 4) for place in range(3)],
        "norms": [round(float(vector @ vector), 4) for vector in vectors],
        "closer": bool(vectors[0] @ vectors[2] > vectors[1] @ vectors[2]),
    }

configure_logging("info")
print(json.dumps(asyncio.run(main())))
"""


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("CARREL_", "PYTHON", "COV_"))}
    done = subprocess.run(
        command, cwd=folder, env={**plain, **variables}, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Environment with the packages of the present one and the examples."""
    folder = tmp_path_factory.mktemp("extending")
    for name, text in EXAMPLES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], folder)
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(ROOT)}
    python = folder / "venv" / "bin" / "python"
    site = run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], folder).stdout.strip()
    lines = [f"import site; site.addsitedir({path!r})" for path in sorted(ours)]
    (Path(site) / "carrel-of-the-tests.pth").write_text("\n".join(lines))
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check"]
    examples = sorted({name.partition("/")[0] for name in EXAMPLES})
    run([str(python), "-m", "pip", "install", *offline, *(f"./{name}" for name in examples)], folder)
    return folder


def test_plugin_page_has_an_example_of_each_kind() -> None:
    groups = re.findall(r'entry-points\."(carrel\.\w+)"', "".join(EXAMPLES.values()))
    kinds = (
        "chunkers",
        "embedders",
        "extractors",
        "graph_serializers",
        "parsers",
        "rerankers",
        "strategies",
        "transformers",
    )
    assert sorted(groups) == [f"carrel.{kind}" for kind in kinds]
    assert len(EXAMPLES) == 16


@pytest.mark.capability("plugins-examples")
def test_plugin_examples_work_after_installation(environment: Path) -> None:
    python = str(environment / "venv" / "bin" / "python")
    settings = {
        "CARREL_EMBEDDING_PROVIDER": "hashing",
        "CARREL_PARSER_MAX_CHARACTERS": "5000",
        "CARREL_RERANK_PROVIDER": "overlap",
    }
    done = run([python, "-W", "error", "-c", WORK], environment, **settings)
    found: dict[str, Any] = json.loads(done.stdout)
    note = "Note: The Analytical Engine weaves algebraic patterns."
    assert found == {
        "kinds": ["text/vcard", "text/x-vcard", "text/plain", "application/pdf"],
        "listed": [["text/vcard", "text/x-vcard"], True],
        "named": ["recency", "jargon", "spacy"],
        "graph": 'flowchart LR\n  "Ada" -- "works with" --> "Charles"',
        "title": "Ada Lovelace",
        "text": f"Ada Lovelace\n\nOrganisation: Analytical Engines, Notes\n\n{note}",
        "errors": ["corrupt", "too_large"],
        "chunks": [[note, ["Ada Lovelace"]]],
        "counts": [7],
        "model": "hashing",
        "scores": [0.0, 1.0, 0.5],
        "norms": [1.0, 1.0, 1.0],
        "closer": True,
    }
    assert "plugin.skipped" not in done.stderr


def test_plugin_examples_are_not_installed_elsewhere() -> None:
    done = run([sys.executable, "-c", "import app.plugins as p; print(p.find_entry_points(p.PARSERS))"], ROOT)
    assert done.stdout.strip() == "[]"
