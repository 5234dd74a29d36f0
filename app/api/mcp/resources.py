"""Documents as resources: the list of them, page by page, and their text."""

from mcp_types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from app.api.mcp.documents import PART_TEMPLATE, TEMPLATE, read_address, title, uri
from app.bootstrap import TenantServices
from app.db.models.tenant_data import Document
from app.errors import InvalidInput
from app.ids import decode_id, encode_id

PAGE = 50
TEXT = "text/plain"
TEMPLATES = ListResourceTemplatesResult(
    resource_templates=[
        ResourceTemplate(
            name="document",
            title="A document",
            uri_template=TEMPLATE,
            mime_type=TEXT,
            description="The text of a document by its id, which the tools search and search_knowledge give",
        ),
        ResourceTemplate(
            name="document_part",
            title="The rest of a long document",
            uri_template=PART_TEMPLATE,
            mime_type=TEXT,
            description="The text from this character on; a part that was cut names the next one in its _meta",
        ),
    ]
)


async def listed(tenant: TenantServices, cursor: str | None) -> ListResourcesResult:
    """A page. Raises InvalidInput for a cursor that is none."""
    before = None if cursor is None else decode_id("doc", cursor)
    if cursor is not None and before is None:
        raise InvalidInput("The cursor is not one of ours.")
    found = await tenant.library.page(before=before, limit=PAGE + 1)
    shown = [_resource(document, kb) for document, kb in found[:PAGE]]
    last = encode_id("doc", found[PAGE - 1][0].id) if found[PAGE:] else None
    return ListResourcesResult(resources=shown, next_cursor=last)


def _resource(document: Document, knowledge_base: str) -> Resource:
    return Resource(
        uri=uri(document.id),
        name=document.source,
        title=title(document),
        description=f"In the knowledge base {knowledge_base}",
        mime_type=TEXT,
    )


async def read(tenant: TenantServices, address: str) -> ReadResourceResult:
    """Raises DocumentNotFound."""
    found, rest = await read_address(tenant, address)
    more = None if rest is None else {"carrel/next": rest}
    return ReadResourceResult(contents=[TextResourceContents(uri=address, mime_type=TEXT, text=found.text, _meta=more)])
