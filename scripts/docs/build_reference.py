"""``python -m scripts.docs.build_reference``: write the generated pages of ``docs/reference/``.

The pages of settings, commands, tables and capabilities are committed, and a test compares them with their sources.
The pages of the HTTP API are made for each build of the site.
"""

from collections.abc import Iterator
from pathlib import Path

from scripts.docs import capability_table, command_line, configuration, http_api, sql_schema

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def build_committed_pages() -> Iterator[tuple[Path, str]]:
    """Yield the committed pages with their text."""
    yield REFERENCE / "configuration.md", configuration.build_page()
    yield REFERENCE / "commands.md", command_line.build_page()
    yield REFERENCE / "sql-schema.md", sql_schema.build_page()
    yield REFERENCE / "coverage.md", capability_table.build_page()


def main() -> None:
    """Write all generated pages."""
    for path, text in build_committed_pages():
        path.write_text(text, "utf-8")
    folder = REFERENCE / "http-api"
    folder.mkdir(exist_ok=True)
    pages = http_api.build_pages()
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()
    for name, text in pages.items():
        (folder / f"{name}.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
