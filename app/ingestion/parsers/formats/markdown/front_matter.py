"""Front matter of Markdown files: the title, and the keys that describe the document for a reader."""

import re
from dataclasses import dataclass, field

_YAML = re.compile(r"\A---[^\S\n]*\n(?=[\w-]+:)(?:.*\n)*?(?:---|\.\.\.)[^\S\n]*(?:\n|\Z)")
_TOML = re.compile(r"\A\+\+\+[^\S\n]*\n(?:.*\n)*?\+\+\+[^\S\n]*(?:\n|\Z)")
_KEY = re.compile(r"([A-Za-z][\w-]{0,60})[^\S\n]*[:=](?:[^\S\n]+(.*)|[^\S\n]*)$")
_SHOWN_KEYS = {
    "title": "Title", "subtitle": "Subtitle", "description": "Description", "summary": "Summary",
    "abstract": "Abstract", "excerpt": "Excerpt", "author": "Author", "authors": "Authors", "date": "Date",
    "updated": "Updated", "lastmod": "Last modified", "last_modified": "Last modified", "version": "Version",
    "status": "Status", "product": "Product", "audience": "Audience",
}  # fmt: skip
_BLOCK_SCALARS = frozenset({"|", ">", "|-", ">-", "|+", ">+", ""})


@dataclass(slots=True)
class FrontMatter:
    """Front matter of one file.

    Attributes:
        title: Title; None if there is none.
        lines: Lines with the keys that are read, except the title.
        words_left_out: Number of words of the other keys.
    """

    title: str | None = None
    lines: list[str] = field(default_factory=list)
    words_left_out: int = 0


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return the front matter in YAML or TOML, and the text after it.

    Args:
        text: Text of the file, with ``\\n`` as the only line break.
    """
    match = _YAML.match(text) or _TOML.match(text)
    if match is None:
        return FrontMatter(), text
    front_matter = FrontMatter()
    for key, values in _list_entries(match[0].split("\n")[1:]):
        name = _SHOWN_KEYS.get(key.lower())
        value = ", ".join(values) if name == "Authors" else " ".join(values)
        if name == "Title":
            front_matter.title = value or None
        elif name and value:
            front_matter.lines.append(f"{name}: {value}")
        else:
            front_matter.words_left_out += len(value.split())
    return front_matter, text[match.end() :]


def _list_entries(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Return the keys of the first level with the values on their line and on the indented lines after it."""
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith(("---", "...", "+++", "#")):
            continue
        match = None if line[:1].isspace() or line.startswith("-") else _KEY.match(line)
        if match is not None:
            value = (match[2] or "").strip()
            entries.append((match[1], [] if value in _BLOCK_SCALARS else _split_value(value)))
        elif entries and line.strip():
            entries[-1][1].append(_strip_quotes(line.strip().removeprefix("- ").strip()))
    return entries


def _split_value(value: str) -> list[str]:
    if value.startswith("[") and value.endswith("]"):
        return [part for part in (_strip_quotes(part.strip()) for part in value[1:-1].split(",")) if part]
    return [_strip_quotes(value)]


def _strip_quotes(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
