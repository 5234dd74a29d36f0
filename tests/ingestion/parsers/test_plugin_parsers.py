"""Parsers of plugins: declarations, and their run in the parser process."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.documents.types import CHUNKS_TYPE
from app.ingestion.parsers import PARSERS, ParserSpec
from app.ingestion.parsers.registry import list_plugin_types, load_installed_parsers, select_available_parsers
from app.ingestion.parsers.sandbox.office_conversion import find_office_program
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.types import CorruptFile, ParserOutOfMemory, ParserTimeout, UnsupportedFormat
from app.warnings import ServiceWarning
from tests.fixtures.plugins import Plugins, plugins
from tests.ingestion.parsers.conftest import LIMITS

__all__ = ["plugins"]
MODULE = "tests.ingestion.parsers.misbehaving"

# Formats that LibreOffice converts are left out if it is not installed.
AVAILABLE = select_available_parsers(find_office_program())


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Clear the registry around each test, because a process loads it once."""
    load_installed_parsers.cache_clear()
    yield
    load_installed_parsers.cache_clear()


def source(types: object, extensions: object, *, parse: str = "def parse(path, options): ...") -> str:
    return f"supported_media_types = {types!r}\nsupported_extensions = {extensions!r}\n{parse}\n"


def test_load_parsers_without_plugins_are_built_in() -> None:
    assert load_installed_parsers() == AVAILABLE
    assert list_plugin_types(load_installed_parsers()) == {}


def test_plugin_parser_extensions_belong_to_first_type(plugins: Plugins) -> None:
    plugins.add("cards", source(["Text/VCard", "text/x-vcard"], [".VCF", "vcard", "vcf"]), parsers={"cards": "cards"})
    found = load_installed_parsers()
    assert {name: found[name] for name in found.keys() - PARSERS.keys()} == {
        "text/vcard": ParserSpec("text/vcard", ("vcf", "vcard"), "cards", is_plugin=True),
        "text/x-vcard": ParserSpec("text/x-vcard", (), "cards", is_plugin=True),
    }
    assert list_plugin_types(found) == {"text/vcard": ("vcf", "vcard"), "text/x-vcard": ()}
    assert load_installed_parsers() is found


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("p_type", source(["application/pdf"], []), "The name application/pdf is in use. Choose another name."),
        ("p_extension", source(["text/x-mine"], ["mine", "pdf"]), "Files named .pdf are read by"),
        ("p_chunks", source([CHUNKS_TYPE], []), "and not application/vnd.carrel.chunks+json"),
        ("p_no_type", source([], ["mine"]), "at least one"),
        ("p_one_text", source("text/x-mine", []), "no supported_media_types"),
        ("p_numbers", source([1], []), "no supported_media_types"),
        ("p_no_media_type", source(["mine"], []), "supported_media_types contains 'mine'"),
        ("p_no_extension", source(["text/x-mine"], ["tar.gz"]), "supported_extensions contains 'tar.gz'"),
        ("p_undeclared", "def parse(path, options): ...", "no supported_media_types"),
        ("p_parseless", source(["text/x-mine"], [], parse=""), "no function parse"),
        ("p_broken", "import nothing_of_the_kind", "It cannot be loaded."),
    ],
    ids=lambda value: value if value.startswith("p_") else "",
)
def test_plugin_parser_invalid_module_is_skipped(
    plugins: Plugins, caplog: pytest.LogCaptureFixture, name: str, text: str, reason: str
) -> None:
    plugins.add(name, text, parsers={name: name})
    with caplog.at_level(logging.WARNING, logger="app"):
        assert load_installed_parsers() == AVAILABLE
    (record,) = caplog.records
    assert reason in record.__dict__["event_fields"]["reason"]


def test_plugin_parser_entry_point_must_be_module(plugins: Plugins) -> None:
    plugins.add("p_object", source(["text/x-mine"], []) + "this = __import__('sys').modules[__name__]",
                parsers={"it": "p_object:this"})  # fmt: skip
    assert load_installed_parsers() == AVAILABLE


def test_plugin_parser_first_of_two_for_one_extension_wins(plugins: Plugins) -> None:
    plugins.add("p_second", source(["text/x-two"], ["mine"]), parsers={"b": "p_second"})
    plugins.add("p_first", source(["text/x-one"], ["mine"]), parsers={"a": "p_first"})
    assert list(list_plugin_types(load_installed_parsers())) == ["text/x-one"]


def open_pool(*, wall_seconds: float = 60) -> ParserPool:
    """Return a pool of one child for each file: the text parser, a misbehaving plugin, and one that cannot be
    imported.
    """
    parsers = {
        "text/plain": PARSERS["text/plain"],
        "text/x-bad": ParserSpec("text/x-bad", ("bad",), MODULE, is_plugin=True),
        "text/x-gone": ParserSpec("text/x-gone", ("gone",), "nothing_of_the_kind", is_plugin=True),
    }
    return ParserPool(
        **{**LIMITS, "wall_clock_timeout_seconds": wall_seconds, "parsers": parsers, "recycle_after_requests": 1}
    )


@pytest.fixture
async def pool() -> ParserPool:
    return open_pool()


@pytest.mark.capability("format-plugin")
@pytest.mark.parametrize(
    ("command", "error", "wall_seconds"),
    [("sleep", ParserTimeout, 3), ("eat", ParserOutOfMemory, 60), ("fail", CorruptFile, 60)],
)
async def test_plugin_parser_has_same_limits(
    tmp_path: Path, command: str, error: type[Exception], wall_seconds: float
) -> None:
    (tmp_path / "file").write_text(command)
    with pytest.raises(error):
        await open_pool(wall_seconds=wall_seconds).parse(tmp_path / "file", "text/x-bad")


async def test_parse_plugin_warnings_become_pairs_of_code_and_message(pool: ParserPool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("warn")
    document = await pool.parse(tmp_path / "file", "text/x-bad")
    assert document.warnings == [
        ServiceWarning("plugin_warning", "A plain string."),
        ServiceWarning("own_code", "Its own."),
        ServiceWarning("plugin_warning", "Else."),
    ]


async def test_plugin_parser_that_cannot_be_imported_stops_no_other(pool: ParserPool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("A text.")
    with pytest.raises(UnsupportedFormat):
        await pool.parse(tmp_path / "file", "text/x-gone")
    assert [block.text for block in (await pool.parse(tmp_path / "file", "text/plain")).blocks] == ["A text."]
