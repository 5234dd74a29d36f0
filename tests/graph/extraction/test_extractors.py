"""Extractors of plugins: their entities join the others, and their failures are warnings."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.graph.extraction.extractor import ChunkText
from app.graph.extraction.extractors import Extractors
from app.graph.extraction.plugin_extractor import GuardedExtractor, load_extractors
from app.graph.extraction.types import Entity
from app.warnings import WarningCode
from tests.fixtures.plugins import Plugins, plugins
from tests.graph.extraction.chunks import chunk

__all__ = ["plugins"]
TEXTS = ("He met Anna Smith there.", "The gadolinium glowed.")


class Colours:
    """Extractor whose answer is a function of the chunks."""

    name = "colours"
    version = "1"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.threads: list[threading.Thread] = []

    def extract(self, chunks: Sequence[ChunkText]) -> Any:
        self.threads.append(threading.current_thread())
        return self.answer(chunks)


async def extract(
    answer: Any, texts: Sequence[str] = TEXTS, *, seconds: float = 30
) -> tuple[list[list[tuple[str, str, int]]], list[str]]:
    guarded = GuardedExtractor(Colours(answer), timeout_seconds=seconds)
    found, warnings = await Extractors([guarded]).extract([chunk(text) for text in texts])
    assert all(warning.code == WarningCode.ENTITIES_NOT_EXTRACTED for warning in warnings)
    return (
        [[(each.name, each.kind, each.count) for each in mentions] for mentions in found],
        [warning.message for warning in warnings],
    )


async def test_extract_without_plugins_returns_entities_of_each_chunk() -> None:
    extractors = Extractors()
    found, warnings = await extractors.extract([chunk(text) for text in TEXTS])
    assert [[each.name for each in mentions] for mentions in found] == [["Anna Smith"], []]
    assert (warnings, extractors.versions) == ([], {})
    assert await extractors.extract([]) == ([], [])


async def test_extract_entities_of_plugin_join_the_others() -> None:
    def answer(chunks: Sequence[ChunkText]) -> list[list[Entity]]:
        return [[Entity("Anna Smith", "person", 3)], [Entity("gadolinium", "element")]]

    found, warnings = await extract(answer)
    assert found == [[("Anna Smith", "person", 3)], [("gadolinium", "element", 1)]]
    assert warnings == []


async def test_extract_plugin_entity_that_is_the_title_has_the_kind_of_the_title() -> None:
    guarded = GuardedExtractor(Colours(lambda chunks: [[Entity("Anna Smith", "person")] for _ in chunks]))
    found, _ = await Extractors([guarded]).extract([chunk("He met Anna Smith there.", title="Anna Smith")])
    assert [(each.name, each.kind, each.count) for each in found[0]] == [("Anna Smith", "title", 3)]


async def test_extract_gives_plugin_batches_of_limited_size_in_order() -> None:
    sizes: list[int] = []

    def answer(chunks: Sequence[ChunkText]) -> list[tuple[Entity, ...]]:
        sizes.append(len(chunks))
        return [(Entity(each.text, "number_word"),) for each in chunks]

    texts = [f"word{number}x" for number in range(150)]
    found, warnings = await extract(answer, texts)
    assert sizes == [64, 64, 22]
    assert [mentions[0][0] for mentions in found] == texts
    assert warnings == []


class Unreadable:
    def __iter__(self) -> Iterator[Any]:
        raise KeyError


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda chunks: 1 / 0, "ZeroDivisionError"),
        (lambda chunks: None, "TypeError"),
        (lambda chunks: [[]], "ValueError"),
        (lambda chunks: [["Anna"] for _ in chunks], "TypeError"),
        (lambda chunks: [None for _ in chunks], "TypeError"),
        (lambda chunks: Unreadable(), "KeyError"),
        (lambda chunks: exit(3), "RuntimeError"),
        (lambda chunks: next(iter(())), "StopIteration"),
    ],
)
async def test_extract_failing_plugin_gives_warning_and_other_entities(
    answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="app"):
        found, warnings = await extract(answer)
    assert found == [[("Anna Smith", "name", 1)], []]
    assert warnings == [f"The extractor 'colours' failed ({reason}), so 2 of 2 chunks have no entities of it."]
    assert [record.msg for record in caplog.records] == ["ingestion.extractor_failed"]


async def test_extract_failure_of_a_later_batch_leaves_entities_of_earlier_batches() -> None:
    def answer(chunks: Sequence[ChunkText]) -> list[list[Entity]]:
        if len(chunks) < 64:
            raise OSError
        return [[Entity("gadolinium", "element")] for _ in chunks]

    found, warnings = await extract(answer, ["It glowed."] * 70)
    assert [len(mentions) for mentions in found] == [1] * 64 + [0] * 6
    assert warnings == ["The extractor 'colours' failed (OSError), so 6 of 70 chunks have no entities of it."]


async def test_extract_invalid_entities_of_plugin_are_left_out_with_a_warning() -> None:
    entities = [
        Entity("gadolinium", "element"),
        Entity("", "element"),
        Entity("?!", "element"),
        Entity("x" * 201, "element"),
        Entity("neon", "Element"),
        Entity("argon", "title"),
        Entity("xenon", "element", 0),
        Entity("radon", "element", 40_000),
        Entity("krypton", "element", 1.5),  # type: ignore[arg-type]
        Entity(7, "element"),  # type: ignore[arg-type]
    ]
    found, warnings = await extract(lambda chunks: [entities, []])
    assert [each[0] for each in found[0]] == ["gadolinium", "Anna Smith"]
    assert len(warnings) == 1
    assert "returned 9 entities" in warnings[0]


async def test_extract_late_plugin_gives_warning_and_gets_no_second_thread() -> None:
    release = threading.Event()

    def answer(chunks: Sequence[ChunkText]) -> list[list[Entity]]:
        release.wait(30)
        return [[] for _ in chunks]

    colours = Colours(answer)
    extractors = Extractors([GuardedExtractor(colours, timeout_seconds=0.05)])
    chunks = [chunk(text) for text in TEXTS]
    for _ in range(2):
        found, warnings = await extractors.extract(chunks)
        assert [len(mentions) for mentions in found] == [1, 0]
        assert "(LateExtractor)" in warnings[0].message
    assert len(colours.threads) == 1
    release.set()
    while colours.threads[0].is_alive():
        await asyncio.sleep(0.01)
    extractors.plugins[0].timeout_seconds = 30
    assert (await extractors.extract(chunks))[1] == []


async def test_extract_of_several_documents_calls_plugin_one_at_a_time() -> None:
    running, most = 0, 0

    def answer(chunks: Sequence[ChunkText]) -> list[list[Entity]]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.01)
        running -= 1
        return [[] for _ in chunks]

    extractors = Extractors([GuardedExtractor(Colours(answer))])
    await asyncio.gather(*(extractors.extract([chunk(TEXTS[0])]) for _ in range(5)))
    assert most == 1


SOURCE = """
from carrel.plugins.extractors import ChunkText, Entity, EntityExtractor

class Elements:
    name, version = "elements", "1.2"

    def extract(self, chunks):
        return [[Entity("Neon", "element")] if "neon" in chunk.text else [] for chunk in chunks]

class Unnamed(Elements):
    name = "Not valid"

class Unversioned(Elements):
    version = None

good, unnamed, unversioned, a_class, a_text = Elements(), Unnamed(), Unversioned(), Elements, "text"
"""


@pytest.fixture
def _fresh() -> Iterator[None]:
    load_extractors.cache_clear()
    yield
    load_extractors.cache_clear()


@pytest.mark.usefixtures("_fresh")
async def test_from_installed_plugins_loads_valid_extractors_and_skips_the_others(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("good", "unnamed", "unversioned", "a_class", "a_text", "missing")
    plugins.add("e_elements", SOURCE, extractors={name: f"e_elements:{name}" for name in names})
    plugins.add("f_elements", SOURCE, extractors={"second": "f_elements:good"})
    with caplog.at_level(logging.WARNING, logger="app"):
        extractors = Extractors.from_installed_plugins()
    assert extractors.versions == {"elements": "1.2"}
    fields: list[dict[str, Any]] = [getattr(record, "event_fields", {}) for record in caplog.records]
    assert {each["plugin"] for each in fields} == {"unnamed", "unversioned", "a_class", "a_text", "missing", "second"}
    found, warnings = await extractors.extract([chunk("The neon glowed.")])
    assert [(each.name, each.kind) for each in found[0]] == [("Neon", "element")]
    assert warnings == []
