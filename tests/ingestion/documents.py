"""Documents generated from a seed, for tests of the steps between parser and store."""

import random
import re
from collections.abc import Iterator, Sequence

from app.ingestion.types import Block, BlockKind, ParsedDocument, TreeNode

_WORDS = re.findall(
    r"\S+",
    "amber basin copper delta ember fjord granite harbour island jetty kelp lagoon marsh northern oxbow peninsula "
    "quarry reef sandbank tidal upland valley wetland estuary Zürich naïve Straße e.g. 3.14 AB-1234",
)
_HAN = "汉字没有空格的文本东京都名古屋検索"


def words(texts: Sequence[str]) -> list[int]:
    """Count one token for each run of letters, each other sign, and each Chinese character.

    The counts of parts add up.
    """
    return [len(re.findall(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+|[^\w\s]", text)) for text in texts]


def quarters(texts: Sequence[str]) -> list[int]:
    """Count four bytes as a token, rounded down. A whole counts more than its parts."""
    return [len(text.encode()) // 4 for text in texts]


def sentence(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return "".join(rng.choices(_HAN, k=rng.randint(3, 30))) + "。"
    text = " ".join(rng.choices(_WORDS, k=rng.randint(1, 30)))
    return text[0].upper() + text[1:] + rng.choice([".", "!", "?", "…", ""])


def block(rng: random.Random, kind: BlockKind) -> str:
    if kind is BlockKind.HEADING:
        return " ".join(rng.choices(_WORDS, k=rng.randint(1, 5)))
    if kind is BlockKind.TABLE:
        rows = [f"| {rng.choice(_WORDS)} | {rng.randint(0, 999)} |" for _ in range(rng.randint(1, 40))]
        return "\n".join(["| name | value |", "|---|---|", *rows])
    if kind is BlockKind.CODE:
        return "\n".join(f"{rng.choice(_WORDS)} = {rng.randint(0, 9)}" for _ in range(rng.randint(1, 60)))
    if rng.random() < 0.05:
        return rng.choice(["x", "ab/", "汉字"]) * rng.randint(50, 900)
    return rng.choice([" ", "\n"]).join(sentence(rng) for _ in range(rng.randint(1, 12)))


def random_document(seed: int, *, slides: bool = False) -> ParsedDocument:
    """Return a document of up to 60 blocks of every kind, with headings in any order, on pages or slides."""
    rng = random.Random(seed)
    blocks: list[Block] = []
    place = 1
    for _ in range(rng.randint(0, 60)):
        place += rng.random() < 0.2
        kind = rng.choice([*BlockKind, BlockKind.PARAGRAPH, BlockKind.PARAGRAPH])
        level = rng.randint(1, 6) if kind is BlockKind.HEADING else 0
        blocks.append(
            Block(kind, block(rng, kind), level, page=None if slides else place, slide=place if slides else None)
        )
    return ParsedDocument(blocks)


def walk(node: TreeNode) -> Iterator[TreeNode]:
    yield node
    for child in node.children:
        yield from walk(child)
