"""OpenAPI document, and the pages of the API documentation."""

from app.api.api_docs.document import complete_document
from app.api.api_docs.pages import add_docs_pages
from app.api.api_docs.tags import TAGS

__all__ = ["TAGS", "add_docs_pages", "complete_document"]
