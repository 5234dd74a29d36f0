"""Parser of Markdown. Other formats read the Markdown that they contain with ``add_markdown``."""

from app.ingestion.parsers.formats.markdown.markdown_parser import add_markdown, parse

__all__ = ["add_markdown", "parse"]
