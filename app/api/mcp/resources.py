"""Documents as MCP resources: their list and their text."""

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from app.api.mcp.titled_documents import (
    PART_URI_TEMPLATE,
    URI_TEMPLATE,
    build_uri,
    get_display_title,
    read_document_uri,
)
from app.bootstrap import TenantServices
from app.db.models.tenant_data import DocumentRow
from app.errors import InvalidInputError
from app.ids import decode_id, encode_id

PAGE_SIZE = 50
TEXT_MEDIA_TYPE = "text/plain"
RESOURCE_TEMPLATES = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            name="document",
            title="A document",
            uri_template=URI_TEMPLATE,
            mime_type=TEXT_MEDIA_TYPE,
            description="The text of a document. The tools search and search_knowledge return its id",
        ),
        ResourceTemplate(
            name="document_part",
            title="The rest of a long document",
            uri_template=PART_URI_TEMPLATE,
            mime_type=TEXT_MEDIA_TYPE,
            description="The text from this character on. If more text follows, _meta has the address of the next part",
        ),
    ]
)


async def list_document_resources(tenant: TenantServices, cursor: str | None) -> ListResourcesResult:
    """Return a page of the documents that the caller may read, newest first.

    Args:
        tenant: Services of the caller.
        cursor: Id of the last document on the page before; None for the first page.

    Returns:
        Up to ``PAGE_SIZE`` documents.

    Raises:
        InvalidInputError: The cursor is not valid.
    """
    before = None if cursor is None else decode_id("doc", cursor)
    if cursor is not None and before is None:
        raise InvalidInputError("Invalid cursor.")
    rows = await tenant.catalog.list_documents(before=before, limit=PAGE_SIZE + 1)
    page_resources = [_to_resource(document, kb) for document, kb in rows[:PAGE_SIZE]]
    next_cursor = encode_id("doc", rows[PAGE_SIZE - 1][0].id) if rows[PAGE_SIZE:] else None
    return ListResourcesResult(resources=page_resources, next_cursor=next_cursor)


def _to_resource(document: DocumentRow, knowledge_base: str) -> Resource:
    return Resource(
        uri=build_uri(document.id),
        name=document.source,
        title=get_display_title(document),
        description=f"In the knowledge base {knowledge_base}",
        mime_type=TEXT_MEDIA_TYPE,
    )


async def read_document_resource(tenant: TenantServices, resource_uri: str) -> ReadResourceResult:
    """Return the text of a document or of its part.

    Args:
        tenant: Services of the caller.
        resource_uri: Address of the document or the part.

    Returns:
        The text. If more text follows, ``_meta`` has the address of the next part.

    Raises:
        DocumentNotFound: The address is not valid, or the caller may not read the document.
    """
    library_text, next_uri = await read_document_uri(tenant, resource_uri)
    meta = None if next_uri is None else {"carrel/next": next_uri}
    return ReadResourceResult(
        contents=[TextResourceContents(uri=resource_uri, mime_type=TEXT_MEDIA_TYPE, text=library_text.text, _meta=meta)]
    )
