"""Conversion of old Office files (DOC, PPT) to formats with a parser, by LibreOffice in a sandbox."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.ingestion.types import CorruptFile, ParserTimeout, UnsupportedFormat
from app.sandbox.identity import compute_sandbox_uid
from app.sandbox.program_launcher import UNCONFINED_STATUS, ProgramLimits

_PROGRAMS = ("soffice", "libreoffice")
_MIN_MEMORY_MB = 3000
"""Minimum address space of LibreOffice in MiB. It reserves much more than it uses."""

_SOCKETS = "OSL_PIPE_SingleOfficeIPC_*"
_FILTERS = {"docx": "docx:MS Word 2007 XML", "pptx": "pptx:Impress MS PowerPoint 2007 XML"}
_SETTINGS = """<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema">
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="MacroSecurityLevel" oor:op="fuse">
<value>3</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="DisableMacrosExecution" oor:op="fuse">
<value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Common/Security/Scripting"><prop oor:name="BlockUntrustedRefererLinks"
 oor:op="fuse"><value>true</value></prop></item>
<item oor:path="/org.openoffice.Office.Writer/Content/Update"><prop oor:name="Link" oor:op="fuse">
<value>0</value></prop></item></oor:items>
"""


@dataclass(frozen=True, slots=True)
class ConversionLimits:
    """Limits of a conversion.

    Attributes:
        memory_mb: Maximum address space of a parser process in MiB. LibreOffice gets at least 3,000 MiB.
        cpu_timeout_seconds: Maximum processor time.
        wall_clock_timeout_seconds: Maximum elapsed time.
        max_output_mb: Maximum size of a file that LibreOffice writes, in MiB.
    """

    memory_mb: int
    cpu_timeout_seconds: int
    wall_clock_timeout_seconds: float
    max_output_mb: int = 256


def find_office_program() -> str:
    """Return the path of LibreOffice in the directories of ``PATH``; empty if it is not installed."""
    return next((path for name in _PROGRAMS if (path := shutil.which(name))), "")


@asynccontextmanager
async def convert_office_file(
    path: Path, extension: str, *, program: str, limits: ConversionLimits
) -> AsyncIterator[Path]:
    """Convert an old Office file in a sandbox. The converted file exists until the block ends.

    Args:
        path: File to convert.
        extension: ``docx`` or ``pptx``.
        program: Path of LibreOffice.
        limits: Limits of the conversion.

    Yields:
        The converted file.

    Raises:
        CorruptFile: LibreOffice did not convert the file.
        ParserTimeout: The conversion took too long.
        UnsupportedFormat: The machine cannot confine LibreOffice.
    """
    outer = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="carrel-office-"))
    try:
        directory = await asyncio.to_thread(_prepare_directory, outer, path)
        status = await _run_program(directory, extension, program, limits)
        if status == UNCONFINED_STATUS:
            raise UnsupportedFormat("This server cannot confine LibreOffice; convert the file and upload the copy.")
        converted = directory / "output" / f"input.{extension}"
        if status or not await asyncio.to_thread(_is_plain_file, converted):
            raise CorruptFile("LibreOffice cannot convert the file: it is damaged or has a password.")
        yield converted
    finally:
        await asyncio.to_thread(shutil.rmtree, outer, ignore_errors=True)


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _prepare_directory(outer: Path, path: Path) -> Path:
    """Create the directory of one conversion: the input, a profile without macros, and the output."""
    outer.chmod(0o711)  # the user of LibreOffice must reach its directory
    directory = outer / "work"
    user = directory / "profile" / "user"
    for folder in (user, directory / "output", directory / "tmp"):
        folder.mkdir(parents=True)
    (user / "registrymodifications.xcu").write_text(_SETTINGS, encoding="utf-8")
    shutil.copyfile(path, directory / "input")
    return directory


async def _run_program(directory: Path, extension: str, program: str, limits: ConversionLimits) -> int:
    """Run LibreOffice and return its exit status. All its processes are killed at the end. Raises ParserTimeout."""
    command = [
        program, f"-env:UserInstallation=file://{directory}/profile", "--headless", "--invisible", "--nologo",
        "--nodefault", "--norestore", "--nolockcheck", "--nofirststartwizard", "--convert-to", _FILTERS[extension],
        "--outdir", str(directory / "output"), str(directory / "input"),
    ]  # fmt: skip
    request = {
        "parent": os.getpid(),
        "directory": str(directory),
        "command": command,
        "environment": {
            "PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(directory), "TMPDIR": str(directory / "tmp"),
        },
        "limits": ProgramLimits(
            max(limits.memory_mb, _MIN_MEMORY_MB), limits.cpu_timeout_seconds + 1, limits.max_output_mb
        ).to_json(),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-m", "app.sandbox.program_launcher",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        env={"PATH": os.defpath, "LANG": "C.UTF-8"},
    )  # fmt: skip
    try:
        async with asyncio.timeout(limits.wall_clock_timeout_seconds):
            await process.communicate(json.dumps(request).encode() + b"\n")
    except TimeoutError as exc:
        raise ParserTimeout("The conversion by LibreOffice took longer than the limit allows; split the file.") from exc
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        await asyncio.to_thread(_remove_sockets, process.pid)
    return process.returncode or 0


def _remove_sockets(pid: int) -> None:
    """Remove the sockets that a killed process leaves behind. They are recognized by the user of the process."""
    for path in Path("/tmp").glob(_SOCKETS):  # noqa: S108  (LibreOffice always uses this directory)
        with contextlib.suppress(OSError):
            if path.lstat().st_uid == compute_sandbox_uid(pid):
                path.unlink()
