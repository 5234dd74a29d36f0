"""Identity of a parse: a digest of everything but the bytes of the file that can change the result of a parser."""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.ingestion.parsers import LanguageData, ParserSpec
from app.ingestion.parsers.sandbox.office_conversion import find_office_program

CODE_PACKAGE = "app"


def compute_parse_identity(spec: ParserSpec, request: Mapping[str, Any], limits: Mapping[str, Any]) -> bytes:
    """Compute the identity of a parse. Equal bytes with equal identities have equal results. The call blocks.

    The identity has the request and the limits of the parser processes. It has the code of this service and of a
    plugin, and the versions of Python and of all installed packages. It also has LibreOffice and the language data.

    Args:
        spec: Registry entry of the parser.
        request: Media type, encoding and further values of the request, for JSON.
        limits: Limits and language data of the parser processes, for JSON.

    Returns:
        A SHA-256 digest.
    """
    data = LanguageData(limits["ocr"]["directory"], tuple(limits["ocr"]["languages"]))
    parts = {
        "code": _compute_code_digest(CODE_PACKAGE),
        "packages": _list_package_versions(),
        "parser": [spec.module, spec.conversion],
        "plugin": _compute_code_digest(spec.module.partition(".")[0]) if spec.is_plugin else "",
        "converter": _describe_program(find_office_program()) if spec.conversion else "",
        "languages": [_compute_file_digest(path) for path in _iter_language_files(data)],
        "limits": dict(limits),
        "request": dict(request),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).digest()


@cache
def _list_package_versions() -> tuple[str, ...]:
    packages = {f"{package.name}=={package.version}" for package in distributions()}
    return (sys.version, *sorted(packages))


@cache
def _compute_code_digest(package: str) -> str:
    """Return a digest of the files of a package, or of a module without a package; empty if it is not found."""
    spec = find_spec(package)
    if spec is None:
        return ""
    files: dict[str, str] = {}
    for root in map(Path, spec.submodule_search_locations or ()):
        paths = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        files |= {str(path.relative_to(root)): _compute_file_digest(path) for path in paths}
    if not files and spec.origin is not None:
        files = {package: _compute_file_digest(Path(spec.origin))}
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


@cache
def _compute_file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _iter_language_files(data: LanguageData) -> Iterator[Path]:
    yield from (Path(data.directory, f"{language}.traineddata") for language in data.languages)


@cache
def _describe_program(program: str) -> str:
    """Return the path, size and time of a program, which an upgrade changes; empty if it is not installed."""
    if not program:
        return ""
    path = Path(program).resolve()
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"
