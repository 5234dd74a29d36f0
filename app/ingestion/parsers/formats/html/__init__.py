"""Parser of HTML and XHTML. Other formats read the markup that they contain with ``add_fragment``."""

from app.ingestion.parsers.formats.html.html_parser import add_fragment, close_empty_elements, parse

__all__ = ["add_fragment", "close_empty_elements", "parse"]
