"""Evaluations: runs of a golden set with one or two search settings, which a worker computes."""

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from app.api.dependencies import AuthenticatedRoute, CurrentPageParams, CurrentWriter, encode_cursor
from app.api.http import example_values
from app.api.http.path_parameters import EvaluationPath
from app.api.v1.evaluations.evaluation_schemas import (
    EvaluationCreate,
    EvaluationList,
    EvaluationOut,
    EvaluationResultList,
    to_evaluation_out,
    to_result_out,
)
from app.api.v1.evaluations.evaluation_settings import parse_settings
from app.evaluations.types import EvaluationNotFound, GoldenSetNotFound, OutcomeChange
from app.ids import decode_id

router = APIRouter(prefix="/evaluations", tags=["evaluations"], route_class=AuthenticatedRoute)
MeasureLabel = Literal["nDCG@10", "recall@5", "recall@10", "recall@100", "MRR@10", "all@5"]


def _decode_evaluation_id(evaluation: str) -> UUID:
    decoded = decode_id("eval", evaluation)
    if decoded is None:
        raise EvaluationNotFound
    return decoded


def _decode_set_id(golden_set: str) -> UUID:
    decoded = decode_id("gold", golden_set)
    if decoded is None:
        raise GoldenSetNotFound
    return decoded


@router.post("", summary="Start an evaluation", status_code=202, response_model=EvaluationOut)
async def create_evaluation(body: EvaluationCreate, tenant: CurrentWriter) -> dict[str, Any]:
    """Start an evaluation of one or two search settings with a golden set.

    A worker runs the searches with the rights of the caller. A tenant can have two evaluations that are not finished.
    """
    requests = parse_settings(body.settings)
    return to_evaluation_out(await tenant.evaluations.create(_decode_set_id(body.set), body.settings, requests))


@router.get("", summary="List evaluations", response_model=EvaluationList)
async def list_evaluations(
    page: CurrentPageParams,
    tenant: CurrentWriter,
    golden_set: Annotated[
        str | None,
        Query(alias="set", description="Only of this golden set.", examples=[example_values.GOLDEN_SET_ID]),
    ] = None,
) -> dict[str, Any]:
    """Return the evaluations of the tenant, newest first."""
    set_id = None if golden_set is None else _decode_set_id(golden_set)
    rows = await tenant.evaluations.list_evaluations(set_id, after=page.parse_cursor(), limit=page.row_limit)
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].created_at, items[-1].id) if rows[page.limit :] else None
    return page.build_reply([to_evaluation_out(evaluation) for evaluation in items], cursor)


@router.get("/{evaluation}", summary="Get an evaluation", response_model=EvaluationOut)
async def get_evaluation(evaluation: EvaluationPath, tenant: CurrentWriter) -> dict[str, Any]:
    """Return an evaluation with its state, progress and figures."""
    return to_evaluation_out(await tenant.evaluations.get(_decode_evaluation_id(evaluation)))


@router.get(
    "/{evaluation}/results", summary="List the results of an evaluation by query", response_model=EvaluationResultList
)
async def list_evaluation_results(
    evaluation: EvaluationPath,
    page: CurrentPageParams,
    tenant: CurrentWriter,
    measure: Annotated[
        MeasureLabel, Query(description="Measure that `change` compares.", examples=["nDCG@10"])
    ] = "nDCG@10",
    change: Annotated[
        OutcomeChange | None,
        Query(description="Only queries that got `better` or `worse`, or stayed `equal`.", examples=["worse"]),
    ] = None,
) -> dict[str, Any]:
    """Return the results of the queries, also while the evaluation runs."""
    after = page.parse_chunk_cursor()
    rows = await tenant.evaluations.list_results(
        _decode_evaluation_id(evaluation), measure, change, after=after[0] if after else None, limit=page.row_limit
    )
    items = rows[: page.limit]
    cursor = encode_cursor(items[-1].item_id, 0) if rows[page.limit :] else None
    return page.build_reply([to_result_out(outcome) for outcome in items], cursor)


@router.delete("/{evaluation}", summary="Delete an evaluation", status_code=204)
async def delete_evaluation(evaluation: EvaluationPath, tenant: CurrentWriter) -> Response:
    """Delete an evaluation with its results. A running evaluation ends."""
    await tenant.evaluations.delete(_decode_evaluation_id(evaluation))
    return Response(status_code=204)
