"""Golden sets: queries whose relevant documents are known, for evaluations of search settings."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Response

from app.api.dependencies import AuthenticatedRoute, CurrentPageParams, CurrentWriter, encode_cursor
from app.api.http import example_values
from app.api.http.etags import CurrentPrecondition
from app.api.http.path_parameters import GoldenItemPath, GoldenSetPath
from app.api.v1.evaluations.golden_set_schemas import (
    GoldenItemList,
    GoldenItemsCreate,
    GoldenItemsOut,
    GoldenSetCreate,
    GoldenSetList,
    GoldenSetOut,
    GoldenSetUpdate,
    parse_stored_relevance,
    to_golden_item_out,
    to_golden_set_out,
)
from app.evaluations.types import GoldenItemNotFound, GoldenSetNotFound
from app.ids import decode_id

router = APIRouter(prefix="/golden-sets", tags=["evaluations"], route_class=AuthenticatedRoute)


def _decode_set_id(golden_set: str) -> UUID:
    decoded = decode_id("gold", golden_set)
    if decoded is None:
        raise GoldenSetNotFound
    return decoded


@router.post("", summary="Create a golden set", status_code=201, response_model=GoldenSetOut)
async def create_golden_set(body: GoldenSetCreate, tenant: CurrentWriter) -> dict[str, Any]:
    """Create a golden set without items. Restricted keys cannot use golden sets."""
    return to_golden_set_out(await tenant.golden_sets.create(body.name, body.description))


@router.get("", summary="List golden sets", response_model=GoldenSetList)
async def list_golden_sets(page: CurrentPageParams, tenant: CurrentWriter) -> dict[str, Any]:
    """Return the golden sets of the tenant, newest first."""
    rows = await tenant.golden_sets.list_sets(after=page.parse_cursor(), limit=page.row_limit)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return page.build_reply([to_golden_set_out(golden_set) for golden_set in items], cursor)


@router.get("/{golden_set}", summary="Get a golden set", response_model=GoldenSetOut)
async def get_golden_set(golden_set: GoldenSetPath, tenant: CurrentWriter) -> dict[str, Any]:
    """Return a golden set with the number of its items."""
    return to_golden_set_out(await tenant.golden_sets.get(_decode_set_id(golden_set)))


@router.patch("/{golden_set}", summary="Update a golden set", response_model=GoldenSetOut)
async def update_golden_set(
    golden_set: GoldenSetPath, body: GoldenSetUpdate, tenant: CurrentWriter, precondition: CurrentPrecondition
) -> dict[str, Any]:
    """Change the name or the description of a golden set."""
    changes = body.model_dump(include=body.model_fields_set)
    check = precondition.build_check(GoldenSetOut, to_golden_set_out)
    return to_golden_set_out(await tenant.golden_sets.update(_decode_set_id(golden_set), changes, check=check))


@router.delete("/{golden_set}", summary="Delete a golden set", status_code=204)
async def delete_golden_set(golden_set: GoldenSetPath, tenant: CurrentWriter) -> Response:
    """Delete a golden set with its items and its evaluations. A running evaluation ends."""
    await tenant.golden_sets.delete(_decode_set_id(golden_set))
    return Response(status_code=204)


@router.get("/{golden_set}/items", summary="List the items of a golden set", response_model=GoldenItemList)
async def list_golden_items(
    golden_set: GoldenSetPath, page: CurrentPageParams, tenant: CurrentWriter
) -> dict[str, Any]:
    """Return the items of a golden set, newest first. Deleted documents stay in the list, with `missing`."""
    set_id = _decode_set_id(golden_set)
    rows = await tenant.golden_sets.list_items(set_id, after=page.parse_cursor(), limit=page.row_limit)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].item.created_at, items[-1].item.id) if rows[page.limit :] else None
    return page.build_reply([to_golden_item_out(located) for located in items], cursor)


@router.post("/{golden_set}/items", summary="Add items to a golden set", status_code=201, response_model=GoldenItemsOut)
async def add_golden_items(golden_set: GoldenSetPath, body: GoldenItemsCreate, tenant: CurrentWriter) -> dict[str, Any]:
    """Add items to a golden set, which can have 5,000.

    A query has one item. If the golden set has an item with the same `query` or `messages`, the relevant documents are
    added to that item. The request can be repeated.
    """
    added = await tenant.golden_sets.add_items(_decode_set_id(golden_set), body.to_drafts())
    return {"items": [to_golden_item_out(located) for located in added]}


async def _decode_item_id(golden_set: str, item: str, tenant: CurrentWriter) -> tuple[UUID, UUID]:
    """Return the ids of a golden set and its item. Raises GoldenSetNotFound, GoldenItemNotFound."""
    set_id, item_id = _decode_set_id(golden_set), decode_id("item", item)
    if item_id is None:
        await tenant.golden_sets.get(set_id)
        raise GoldenItemNotFound
    return set_id, item_id


@router.delete("/{golden_set}/items/{item}", summary="Delete an item of a golden set", status_code=204)
async def delete_golden_item(golden_set: GoldenSetPath, item: GoldenItemPath, tenant: CurrentWriter) -> Response:
    """Delete an item of a golden set. Finished evaluations keep its result, without its query."""
    await tenant.golden_sets.delete_item(*await _decode_item_id(golden_set, item, tenant))
    return Response(status_code=204)


@router.delete(
    "/{golden_set}/items/{item}/relevant", summary="Remove a relevant document from an item", status_code=204
)
async def remove_golden_relevance(
    golden_set: GoldenSetPath,
    item: GoldenItemPath,
    tenant: CurrentWriter,
    document: Annotated[str, Query(description="Id of the document.", examples=[example_values.DOCUMENT_ID])],
    chunk: Annotated[
        str | None,
        Query(
            description="Id of the chunk, if the item has a chunk of the document. Without it, the entry of the whole "
            "document is removed.",
            examples=[example_values.CHUNK_ID],
        ),
    ] = None,
) -> Response:
    """Remove one relevant document or chunk from an item, also if it is missing. The last one cannot be removed."""
    ids = await _decode_item_id(golden_set, item, tenant)
    await tenant.golden_sets.remove_relevance(*ids, parse_stored_relevance(document, chunk))
    return Response(status_code=204)
