"""Directory of a local model in the layout of model hubs: it finds the ONNX file and checks it before it is loaded.

The layout is ``model.onnx`` or ``onnx/model.onnx``, ``tokenizer.json``, ``config.json`` and further JSON files. A
directory is refused if its files point to other directories, or if the model needs operators of other libraries. The
module needs only the standard library.
"""

import hashlib
import json
import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.errors import AppError
from app.inference.onnx_file import InvalidOnnxFile, OnnxStructure, read_onnx_structure

MODEL_NAMES = ("model.onnx", "onnx/model.onnx")
MODEL_PATTERNS = ("model*.onnx", "onnx/model*.onnx")
OPERATOR_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Domains of the operators that are a part of onnxruntime."""

MAX_JSON_BYTES = 16 * 2**20
MAX_TOKENIZER_BYTES = 256 * 2**20
MIN_TOKENS, MAX_TOKENS = 8, 1_000_000
# Settings of the token limit. Libraries write a number with 31 digits if a tokenizer has no limit.
TOKEN_LIMITS = (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length"))
# Families of models whose first position is after that of the padding token.
OFFSET_MODEL_TYPES = frozenset(
    {
        "camembert",
        "data2vec-text",
        "ibert",
        "longformer",
        "luke",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
NAME_DIGITS = 12
_LOCATION_CHARACTERS = frozenset(string.ascii_letters + string.digits + " .+=@_-/")


class LocalModelRefused(AppError):
    """The directory of a local model cannot be used; the message names the file."""

    code = "local_model_refused"


@dataclass(frozen=True, slots=True)
class ModelDirectory:
    """Directory of a local model whose files have been checked.

    Attributes:
        path: Path of the directory, without symbolic links.
        name: Name of the directory and the first 12 digits of ``sha256``: ``bge-small-en-v1.5@6c9c6101a956``.
        model_file: Path of the ONNX file.
        external_files: Paths of the external data of the ONNX file, sorted.
        tokenizer_file: Path of ``tokenizer.json``.
        sha256: Hash of the ONNX file. If the model has external data, hash of the hashes of all files.
        token_limit: Maximum number of tokens of an input with special tokens; None if no file has a limit.
    """

    path: Path
    name: str
    model_file: Path
    external_files: tuple[Path, ...]
    tokenizer_file: Path
    sha256: str
    token_limit: int | None

    def read_json(self, name: str) -> Mapping[str, Any]:
        """Return the object of a JSON file of the directory, such as ``1_Pooling/config.json``.

        Args:
            name: Path of the file in the directory.

        Returns:
            The object; empty if the file does not exist.

        Raises:
            LocalModelRefused: The file is not a JSON object, or it is outside of the directory.
        """
        return _read_json(self.path, name)


def open_model_directory(location: Path) -> ModelDirectory:
    """Find and check the files of a local model. The call blocks: it reads the whole ONNX file once.

    Args:
        location: The directory, or one of several ONNX files in it.

    Returns:
        The checked directory.

    Raises:
        LocalModelRefused: A file is missing, cannot be read, is outside of the directory, or is not usable.
    """
    try:
        directory, model_file = _find_files(location)
        tokenizer_file = _require_file(directory, directory / "tokenizer.json", MAX_TOKENIZER_BYTES)
        external_files = _check_structure(model_file, _read_structure(model_file))
        sha256 = _compute_sha256((model_file, *external_files))
        label = _get_directory_name(location, directory)
        return ModelDirectory(
            directory,
            f"{label}@{sha256[:NAME_DIGITS]}",
            model_file,
            external_files,
            tokenizer_file,
            sha256,
            read_token_limit(directory),
        )
    except OSError as exc:
        raise LocalModelRefused(f"{make_printable(exc.filename or location)} cannot be read: {exc.strerror}.") from exc


def find_model_file(directory: Path) -> Path:
    """Find the ONNX file of a directory: ``model.onnx``, else ``onnx/model.onnx``, else the only ``model*.onnx``.

    Args:
        directory: Directory of the model.

    Returns:
        The path of the file, without symbolic links.

    Raises:
        LocalModelRefused: There is no file, no clear choice, or the file is outside of the directory.
    """
    for name in MODEL_NAMES:
        if _is_present(directory / name):
            return _require_file(directory, directory / name)
    files = sorted(path for pattern in MODEL_PATTERNS for path in directory.glob(pattern))
    if not files:
        raise LocalModelRefused(f"{make_printable(directory / 'model.onnx')} does not exist, nor onnx/model.onnx.")
    if len(files) > 1:
        names = ", ".join(make_printable(path.relative_to(directory)) for path in files[:8])
        raise LocalModelRefused(
            f"{make_printable(directory)} has several models ({names}). Set the path of one of them."
        )
    return _require_file(directory, files[0])


def read_token_limit(directory: Path) -> int | None:
    """Return the maximum number of tokens of an input: the lowest limit of the JSON files of a directory.

    Args:
        directory: Directory of the model.

    Returns:
        The limit with special tokens; None if no file has one.

    Raises:
        LocalModelRefused: A file is not a JSON object, or it is outside of the directory.
    """
    limits = [_read_json(directory, file).get(key) for file, key in TOKEN_LIMITS]
    limits.append(_get_position_limit(_read_json(directory, "config.json")))
    return min((limit for limit in map(_parse_token_limit, limits) if limit is not None), default=None)


def _find_files(location: Path) -> tuple[Path, Path]:
    """Return the directory and the ONNX file of a location."""
    if location.is_dir():
        directory = location.resolve()
        return directory, find_model_file(directory)
    if location.suffix != ".onnx" or not _is_present(location):
        raise LocalModelRefused(f"{make_printable(location)} is neither a directory nor an ONNX file.")
    folder = location.absolute().parent
    directory = _get_model_directory(folder).resolve()
    return directory, _require_file(directory, folder.resolve() / location.name)


def _get_model_directory(folder: Path) -> Path:
    """Return the directory of the model whose ONNX file is in a folder."""
    is_nested = folder.name == "onnx" and not _is_present(folder / "tokenizer.json")
    return folder.parent if is_nested else folder


def _get_directory_name(location: Path, directory: Path) -> str:
    """Return the name of the directory, as it is configured, with only printable characters."""
    configured = location.absolute()
    if not configured.is_dir():
        configured = _get_model_directory(configured.parent)
    name = directory.name if configured.name in {"", ".."} else configured.name
    return make_printable(name) or "model"


def _require_file(directory: Path, path: Path, max_bytes: int | None = None) -> Path:
    """Return the path of a regular file without symbolic links. Raises LocalModelRefused, OSError."""
    try:
        resolved = path.resolve(strict=True)
    except FileNotFoundError as exc:
        raise LocalModelRefused(f"{make_printable(path)} does not exist.") from exc
    except RuntimeError as exc:  # a loop of symbolic links
        raise LocalModelRefused(f"{make_printable(path)} cannot be read.") from exc
    if not resolved.is_relative_to(directory):
        raise LocalModelRefused(f"{make_printable(path)} is a link to a file outside of the directory. Copy that file.")
    if not resolved.is_file():
        raise LocalModelRefused(f"{make_printable(path)} is not a file.")
    if max_bytes is not None and resolved.stat().st_size > max_bytes:
        raise LocalModelRefused(f"{make_printable(path)} is larger than {max_bytes // 2**20} MiB.")
    return resolved


def _is_present(path: Path) -> bool:
    """Return whether a name exists, also if it is a broken link."""
    return path.is_symlink() or path.exists()


def _read_structure(path: Path) -> OnnxStructure:
    try:
        return read_onnx_structure(path)
    except InvalidOnnxFile as exc:
        raise LocalModelRefused(f"{make_printable(path)} is not an ONNX model: {exc}.") from exc


def _check_structure(model_file: Path, structure: OnnxStructure) -> tuple[Path, ...]:
    """Refuse custom operators, and return the files of the external data."""
    custom = sorted(f"{domain}:{name}" for domain, name in structure.operators if domain not in OPERATOR_DOMAINS)
    if custom:
        raise LocalModelRefused(f"{make_printable(model_file)} needs the custom operator {make_printable(custom[0])}.")
    if structure.has_functions:
        raise LocalModelRefused(
            f"{make_printable(model_file)} defines operators as functions. Export it without functions."
        )
    return tuple(_resolve_external(model_file, location) for location in sorted(structure.external_locations))


def _resolve_external(model_file: Path, location: str) -> Path:
    """Return the file of external data, which must be in the directory of the ONNX file, as onnxruntime demands."""
    if not _LOCATION_CHARACTERS.issuperset(location) or {"", ".."} & {*location.split("/")}:
        name, place = make_printable(model_file), make_printable(location)
        raise LocalModelRefused(f"{name} has external data at {place!r}, which is not a file of its directory.")
    return _require_file(model_file.parent, model_file.parent / location)


def _compute_sha256(files: tuple[Path, ...]) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _read_json(directory: Path, name: str) -> Mapping[str, Any]:
    path = directory / name
    if not _is_present(path):
        return {}
    try:
        content = json.loads(_require_file(directory.resolve(), path, MAX_JSON_BYTES).read_bytes())
    except (ValueError, RecursionError) as exc:
        raise LocalModelRefused(f"{make_printable(path)} is not JSON.") from exc
    if not isinstance(content, dict):
        raise LocalModelRefused(f"{make_printable(path)} is not a JSON object.")
    return content


def _get_position_limit(config: Mapping[str, Any]) -> int | None:
    """Return the number of tokens for which the model has positions."""
    positions = _parse_token_limit(config.get("max_position_embeddings"))
    if positions is None or config.get("model_type") not in OFFSET_MODEL_TYPES:
        return positions
    padding = config.get("pad_token_id")
    return positions - (padding if isinstance(padding, int) else 1) - 1


def _parse_token_limit(value: Any) -> int | None:
    """Return a plausible limit, or None for any other value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and MIN_TOKENS <= value <= MAX_TOKENS and value == int(value) else None


def make_printable(text: object) -> str:
    """Return a text of one line for a message: characters that cannot be printed become question marks."""
    return "".join(character if character.isprintable() else "?" for character in str(text)[:1000])
