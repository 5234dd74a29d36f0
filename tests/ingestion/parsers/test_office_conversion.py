"""Old Office files: conversion by LibreOffice in a sandbox, by a program that behaves like it, and without any."""

from __future__ import annotations

import asyncio
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.ingestion.parsers import PARSERS
from app.ingestion.parsers.registry import select_available_parsers
from app.ingestion.parsers.sandbox.office_conversion import (
    ConversionLimits,
    convert_office_file,
    find_office_program,
)
from app.ingestion.parsers.sandbox.pool import ParserPool
from app.ingestion.types import CorruptFile, ParserTimeout, UnsupportedFormat
from app.sandbox import landlock
from tests.ingestion.parsers.conftest import LIMITS
from tests.ingestion.parsers.word import p, write

DOC, PPT = "application/msword", "application/vnd.ms-powerpoint"
TRUE_PROGRAM = find_office_program()
needs_office = pytest.mark.skipif(not TRUE_PROGRAM, reason="LibreOffice is not installed")
QUICK = ConversionLimits(512, 20, 30.0)


@pytest.fixture
def programs() -> Iterator[Path]:
    """Directory that the user of a sandbox can enter; the directories of pytest are closed."""
    directory = Path(tempfile.mkdtemp(prefix="carrel-programs-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def install(directory: Path, script: str) -> str:
    """Install a program with the command line of LibreOffice. In the script, $out is the directory of the output."""
    path = directory / "soffice"
    arguments = 'while [ "$1" != --outdir ]; do options="$options $1"; shift; done; out="$2"; input="$3"\n'
    path.write_text(f"#!/bin/sh\n{arguments}{script}\n")
    path.chmod(0o755)
    return str(path)


async def converted(program: str, path: Path, limits: ConversionLimits = QUICK, extension: str = "docx") -> bytes:
    async with convert_office_file(path, extension, program=program, limits=limits) as result:
        return result.read_bytes()


def document(directory: Path) -> Path:
    path = directory / "letter.doc"
    path.write_bytes(b"\xd0\xcf\x11\xe0 old letter")
    return path


async def test_conversion_reads_input_and_writes_output(programs: Path, tmp_path: Path) -> None:
    program = install(programs, 'cat "$input" > "$out/input.docx"; echo "$options" >> "$out/input.docx"')
    result = await converted(program, document(tmp_path))
    assert result.startswith(b"\xd0\xcf\x11\xe0 old letter")
    assert b"--headless" in result
    assert b"--convert-to docx:MS Word 2007 XML" in result
    assert b"-env:UserInstallation=file:///" in result


async def test_conversion_is_confined(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CARREL_SECRET", "secret of the service")
    outside = Path(tempfile.mkdtemp(prefix="carrel-outside-"))
    outside.chmod(0o777)
    (outside / "private").write_text("private text")
    (outside / "private").chmod(0o644)
    script = (
        f'cat {outside}/private >> "$out/input.docx" 2>&1; echo stolen > {outside}/written; env >> "$out/input.docx"\n'
        'python3 -c "import socket; socket.socket()" 2>> "$out/input.docx"; ls /proc/1/fd >> "$out/input.docx" 2>&1\n'
        'id -u >> "$out/input.docx"; ls "$HOME" >> "$out/input.docx"; exit 0'
    )
    result = await converted(install(programs, script), document(tmp_path))
    written = (outside / "written").exists()
    shutil.rmtree(outside)
    assert b"secret" not in result
    assert b"HOME=/tmp/carrel-office-" in result
    if landlock.find_version():
        assert b"private text" not in result
        assert not written
    assert b"PermissionError" in result or b"python3" in result  # a machine may lack Python at this place


async def test_conversion_profile_forbids_macros(programs: Path, tmp_path: Path) -> None:
    program = install(programs, 'cat "$HOME/profile/user/registrymodifications.xcu" > "$out/input.docx"')
    assert b"DisableMacrosExecution" in await converted(program, document(tmp_path))


@pytest.mark.parametrize(
    "script",
    ["exit 0", "exit 1", 'cp "$input" "$out/input.docx"; exit 3', 'ln -s /etc/passwd "$out/input.docx"',
     'mkdir "$out/input.docx"', 'cp "$input" "$out/other.docx"', "kill -9 $$"],
)  # fmt: skip
async def test_conversion_without_output_is_corrupt(script: str, programs: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="LibreOffice cannot convert"):
        await converted(install(programs, script), document(tmp_path))


async def test_conversion_output_is_bounded(programs: Path, tmp_path: Path) -> None:
    script = 'head -c 9000000 /dev/zero > "$out/input.docx" || exit 1'
    with pytest.raises(CorruptFile):
        await converted(install(programs, script), document(tmp_path), ConversionLimits(512, 20, 30.0, 4))


async def test_conversion_that_hangs_is_killed_with_its_processes(programs: Path, tmp_path: Path) -> None:
    script = "sleep 987 & sleep 986"
    with pytest.raises(ParserTimeout):
        await converted(install(programs, script), document(tmp_path), ConversionLimits(512, 20, 3.0))
    await asyncio.sleep(0.2)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(command.startswith((b"sleep\x00987", b"sleep\x00986")) for command in commands)


async def test_conversion_removes_its_directory(programs: Path, tmp_path: Path) -> None:
    program = install(programs, 'pwd > "$out/input.docx"')
    result = await converted(program, document(tmp_path))
    assert not Path(result.decode().strip()).exists()


async def test_pool_parses_converted_file(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(programs / "made.docx", p("Text of the letter"))
    (programs / "made.docx").chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    install(programs, f'cp {programs}/made.docx "$out/input.docx"')
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    pool = ParserPool(**LIMITS)
    try:
        parsed = await pool.parse(document(tmp_path), DOC)
    finally:
        await pool.close()
    assert [block.text for block in parsed.blocks] == ["Text of the letter"]


async def test_pool_without_program_refuses_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    pool = ParserPool(**LIMITS)
    with pytest.raises(UnsupportedFormat, match="LibreOffice is not installed"):
        await pool.parse(document(tmp_path), DOC)
    await pool.close()


@pytest.mark.parametrize(("program", "is_listed"), [("", False), ("/usr/bin/soffice", True)])
def test_registry_lists_old_formats_if_program_exists(program: str, is_listed: bool) -> None:
    parsers = select_available_parsers(program)
    assert (DOC in parsers, PPT in parsers) == (is_listed, is_listed)
    assert set(PARSERS) - set(parsers) == (set() if is_listed else {DOC, PPT})


def convert_back(source: Path, kind: str, directory: Path) -> Path:
    """Return an old file that LibreOffice writes; it runs without a sandbox, on a file of this test."""
    command: list[Any] = [TRUE_PROGRAM, f"-env:UserInstallation=file://{directory}/profile", "--headless"]
    subprocess.run(
        [*command, "--convert-to", kind, "--outdir", directory, source], check=True, capture_output=True, timeout=120
    )
    return directory / f"{source.stem}.{kind}"


@needs_office
async def test_libreoffice_converts_word_file(tmp_path: Path, pool: ParserPool) -> None:
    source = tmp_path / "letter.rtf"
    source.write_bytes(b"{\\rtf1\\ansi First paragraph\\par Gr\\u252?\\u223?e: 10 \\u8364?\\par}")
    parsed = await pool.parse(convert_back(source, "doc", tmp_path), DOC)
    assert [block.text for block in parsed.blocks] == ["First paragraph", "Grüße: 10 €"]


@needs_office
async def test_libreoffice_converts_presentation(tmp_path: Path, pool: ParserPool, demo: Path) -> None:
    parsed = await pool.parse(convert_back(demo / "product-tour.pptx", "ppt", tmp_path), PPT)
    assert parsed.page_count == 6
    assert "Loyalty programme Compass" in [block.text for block in parsed.blocks]


@needs_office
async def test_libreoffice_refuses_other_bytes(tmp_path: Path, pool: ParserPool) -> None:
    path = tmp_path / "letter.doc"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(5000))
    with pytest.raises((CorruptFile, UnsupportedFormat)):
        await pool.parse(path, DOC)
