"""Tables as plain words for the embedding model, which reads bars and dashes as tokens without meaning."""

from collections.abc import Sequence

from app.documents.table_heads import is_rule, split_cells

MAX_NAMED_ROWS = 3
"""Maximum number of rows of a part of a table whose values get the name of their column."""


def format_plain_tables(text: str, *, has_repeated_head: bool = False) -> str:
    """Return a text in which the rows of Markdown tables have no bars and no line of dashes.

    In a small part of a table that repeats the head, each value gets the name of its column: ``Part P-0001, Price 5``.

    Args:
        text: Text of a chunk.
        has_repeated_head: Whether the text begins with the repeated head of a table.
    """
    if not text.startswith("|") and "\n|" not in text:
        return text
    lines = text.split("\n")
    if has_repeated_head:
        rule = next((number for number, line in enumerate(lines) if is_rule(line)), 0)
        rows = sum(line.startswith("|") for line in lines[rule + 1 :])
        if rule > 0 and rows <= MAX_NAMED_ROWS:
            names = split_cells(lines[rule - 1])
            return "\n".join([*lines[: rule - 1], *(_add_names(names, line) for line in lines[rule + 1 :])])
    plain = "\n".join(" ".join(filter(None, split_cells(line))) or line for line in lines if not is_rule(line))
    return plain if plain.strip() else text


def _add_names(names: Sequence[str], line: str) -> str:
    cells = split_cells(line)
    if sum(map(bool, cells)) < 2:
        return " ".join(cells).strip() or line
    padded = [*names, *[""] * len(cells)]
    return ", ".join(f"{name} {cell}".strip() for name, cell in zip(padded, cells, strict=False) if cell)
