"""Definitions that a reStructuredText file refers to: targets of links, substitutions and numbers of notes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TARGET = re.compile(r"\s*+\.\. _(`[^`]{1,200}`|[^:`][^:]{0,200}?):(?:\s+(\S.{0,1000}))?$")
_ANONYMOUS = re.compile(r"\s*+(?:\.\. __:|__)\s+(\S{1,1000})$")
_SUBSTITUTION = re.compile(r"\s*+\.\. \|([^|]{1,100})\|\s+(replace|unicode|image)::\s*(.{0,500})$")
_NOTE = re.compile(r"\s*+\.\. \[(#[\w.-]{0,80}|\d{1,6})\](?:\s|$)")
_ALT = re.compile(r"\s+:alt:\s+(.{1,500})$")
_CODE_POINT = re.compile(r"(?:0x|U\+|\\?x|\\?u)([0-9a-fA-F]{1,6})$")
_MAX_OPTION_LINES = 6


@dataclass(slots=True)
class RstDefinitions:
    """Definitions of one file.

    Attributes:
        targets: Addresses by the names of their targets, in lower case.
        anonymous: Addresses of the targets without a name, in the order of the file.
        substitutions: Texts by the names of substitutions.
        note_numbers: Numbers of notes by their labels, such as ``#limits``.
        automatic_numbers: Numbers of the notes with the label ``#``, in the order of the file.
    """

    targets: dict[str, str] = field(default_factory=dict)
    anonymous: list[str] = field(default_factory=list)
    substitutions: dict[str, str] = field(default_factory=dict)
    note_numbers: dict[str, int] = field(default_factory=dict)
    automatic_numbers: list[int] = field(default_factory=list)


def find_definitions(lines: Sequence[str]) -> RstDefinitions:
    """Find the definitions in a file.

    Args:
        lines: Lines of the file.
    """
    definitions = RstDefinitions()
    labels: list[str] = []
    for index, line in enumerate(lines):
        if ".. " not in line and "__" not in line:
            continue
        if anonymous := _ANONYMOUS.match(line):
            definitions.anonymous.append(anonymous[1])
        elif target := _TARGET.match(line):
            if target[2]:
                definitions.targets[normalize_name(target[1].strip("`"))] = target[2].strip().strip("`<>")
        elif substitution := _SUBSTITUTION.match(line):
            text = _read_substitution(substitution[2], substitution[3], lines[index + 1 : index + _MAX_OPTION_LINES])
            definitions.substitutions[substitution[1].strip()] = text
        elif note := _NOTE.match(line):
            labels.append(note[1])
    _number_notes(labels, definitions)
    return definitions


def normalize_name(name: str) -> str:
    """Return the name of a target in lower case, with single spaces."""
    return " ".join(name.replace("\\", "").lower().split())


def _read_substitution(kind: str, text: str, following: Sequence[str]) -> str:
    if kind == "image":
        alts = (_ALT.match(line) for line in following)
        return next((alt[1] for alt in alts if alt is not None), "")
    if kind == "unicode":
        words = text.partition(" .. ")[0].split()
        return "".join(_read_code_point(word) for word in words)
    continued = []
    for line in following:
        if not line.startswith(" "):
            break
        continued.append(line.strip())
    return " ".join([text, *continued]).strip()


def _read_code_point(word: str) -> str:
    match = _CODE_POINT.match(word)
    return chr(int(match[1], 16)) if match and int(match[1], 16) < 0x110000 else word


def _number_notes(labels: Sequence[str], definitions: RstDefinitions) -> None:
    """Assign the lowest free numbers to notes without a number, in the order of the file."""
    used = {int(label) for label in labels if label.isdecimal()}
    number = 0
    for label in labels:
        if label.isdecimal():
            continue
        number += 1
        while number in used:
            number += 1
        if label == "#":
            definitions.automatic_numbers.append(number)
        else:
            definitions.note_numbers[label] = number
