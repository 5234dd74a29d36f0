"""Cases of the fidelity proof: a file, the texts that must and must not come out, and the verdict on a preview."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Verdict(StrEnum):
    """Verdict on a case: the text is right, a warning reports the loss, the loss is silent, or the file is refused."""

    RIGHT = "right"
    REPORTED = "told"
    SILENT = "silent"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FidelityCase:
    """File with the texts that must come out of it.

    Attributes:
        kind: Kind of content, such as ``superscripts``.
        filename: Name of the file.
        data: Bytes of the file.
        has: Texts that must all be in the chunks.
        any_of: Texts of which one must be in the chunks; empty if none must.
        hasnot: Texts that must not be in the chunks.
        warning_codes: Warning codes that name the loss, if the file may lose something; any code counts if it is empty.
    """

    kind: str
    filename: str
    data: bytes
    has: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    hasnot: tuple[str, ...] = ()
    warning_codes: tuple[str, ...] = ()

    @property
    def format(self) -> str:
        """Extension of the file name."""
        return self.filename.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """Verdict on a case, with the differences."""

    case: FidelityCase
    verdict: Verdict
    faults: str = ""


def load_cases(directory: Path) -> Iterator[FidelityCase]:
    """Yield the cases of a directory, which ``manifest.json`` describes.

    Args:
        directory: Directory with the files and the manifest.
    """
    for entry in json.loads((directory / "manifest.json").read_text(encoding="utf-8")):
        yield FidelityCase(
            kind="given cases",
            filename=entry["file"],
            data=(directory / entry["file"]).read_bytes(),
            has=tuple(entry["has"]),
            any_of=tuple(entry["any_of"]),
            hasnot=tuple(entry["hasnot"]),
        )


def judge_preview(case: FidelityCase, status: int, body: Mapping[str, Any]) -> CaseOutcome:
    """Compare the reply of ``POST /v1/preview`` with a case.

    Each run of white space counts as one space. Unwanted texts are looked for in each line alone, because the end of a
    table row would continue in the next one. A file without expected texts must have a warning.

    Args:
        case: The case.
        status: HTTP status of the reply.
        body: Body of the reply.
    """
    if status != 200:
        return CaseOutcome(case, Verdict.REFUSED, f"{status} {body.get('type', '')} {body.get('detail', '')}")
    lines = [_join_white_space(line) for text in _list_texts(body) for line in text.splitlines()]
    text = " ".join(filter(None, lines))
    faults = [f"lacks {part!r}" for part in case.has if _join_white_space(part) not in text]
    faults += [f"has {part!r}" for part in case.hasnot if any(_join_white_space(part) in line for line in lines)]
    if case.any_of and not any(_join_white_space(part) in text for part in case.any_of):
        faults.append(f"lacks all of {list(case.any_of)}")
    codes = {warning["code"] for warning in body["warnings"]}
    is_reported = bool(codes.intersection(case.warning_codes) if case.warning_codes else codes)
    is_warning_needed = not (case.has or case.any_of or case.hasnot)
    if not faults and (is_reported or not is_warning_needed):
        return CaseOutcome(case, Verdict.RIGHT)
    description = f"{'; '.join(faults) or 'no warning'} | warnings {sorted(codes)} | text {text[:200]!r}"
    return CaseOutcome(case, Verdict.REPORTED if is_reported else Verdict.SILENT, description)


def _list_texts(body: Mapping[str, Any]) -> Iterator[str]:
    yield body["title"] or ""
    for chunk in body["chunks"]:
        yield from chunk["section_titles"]
        yield chunk["text"]


def _join_white_space(text: str) -> str:
    return " ".join(text.split())
