"""BM25 of real prose, code and tables compared with bm25s: the project's pages, one passage for each document."""

import asyncio
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.index_maintenance.indexed_knowledge_base import ANALYZER, IndexedKnowledgeBase

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# short enough for one chunk each
LONGEST = 400
PASSAGES = 400
IDENTIFIER = re.compile(r"\b\w+(?:[-_./]\w+)+|\b[a-z]+[A-Z]\w+")
SENTENCE = re.compile(r"[A-Z][^.:|`]{60,300}\.")


def passages(rng: random.Random) -> list[str]:
    """Return paragraphs, code blocks and tables of all pages in random order; long ones are cut between lines."""
    blocks = [block for page in PAGES for block in re.split(r"\n\s*\n", page.read_text("utf-8")) if block.strip()]
    found = [piece for block in blocks for piece in pieces(block) if ANALYZER.tokenize(piece)]
    return rng.sample(found, len(found))


def pieces(block: str) -> Iterator[str]:
    lines = [line[start : start + LONGEST] for line in block.splitlines() for start in range(0, len(line), LONGEST)]
    piece = ""
    for line in lines:
        if piece and len(piece) + len(line) > LONGEST:
            yield piece
            piece = ""
        piece = f"{piece}\n{line}" if piece else line
    yield piece


def queries(library: IndexedKnowledgeBase, rng: random.Random) -> list[str]:
    """Return headings, identifiers and long sentences of the indexed texts, a dozen of each kind."""
    whole = "\n\n".join(sorted(library.indexed_texts()))
    kinds = (
        re.findall(r"^#+ (.+)$", whole, re.MULTILINE),
        IDENTIFIER.findall(whole),
        SENTENCE.findall(whole.replace("\n", " ")),
    )
    found = [rng.sample(sorted({query for query in kind if ANALYZER.tokenize(query)}), 12) for kind in kinds]
    return [query for kind in found for query in kind]


async def put_all(library: IndexedKnowledgeBase, texts: Iterable[tuple[int, str]]) -> None:
    """Upload texts by their numbers; an existing number is replaced."""
    waiting = iter(texts)

    async def put_some() -> None:
        for number, text in waiting:
            await library.put(f"passage {number}", text)

    await asyncio.gather(*(put_some() for _ in range(4)))


async def test_real_text_scores_and_order_equal_bm25s(library: IndexedKnowledgeBase) -> None:
    """The mean length is frozen during replacements and deletions; recomputed weights use the texts'
    own mean length.
    """
    rng = random.Random(3)
    await put_all(library, enumerate(passages(rng)[:PASSAGES]))
    first = await library.avgdl()
    await library.assert_exact(queries(library, rng), avgdl=first)
    await put_all(library, zip(rng.sample(range(PASSAGES), PASSAGES // 5), passages(rng), strict=False))
    for document in rng.sample(sorted(library.texts, key=library.texts.__getitem__), PASSAGES // 10):
        await library.delete(document)
    assert len(library.texts) == PASSAGES - PASSAGES // 10
    assert await library.avgdl() == first
    await library.assert_exact(queries(library, rng), avgdl=first)
    await library.workshop.maintenance.maintain(library.tenant, library.index)
    assert await library.avgdl() != first
    await library.assert_exact(queries(library, rng))
    assert await library.workshop.inconsistencies() == {}
