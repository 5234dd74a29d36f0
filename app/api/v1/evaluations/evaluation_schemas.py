"""Schemas of evaluations and their results."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from app.api.http import example_values
from app.api.http.warning_schema import WarningOut, to_warnings_out
from app.api.v1.evaluations.golden_set_schemas import GoldenItemMessageOut
from app.api.v1.schemas import Identifier, ListResponse, StrictRequestModel, Time
from app.evaluations.types import EvaluationState, ItemOutcome, QueryOutcome, StoredEvaluation
from app.ids import encode_id

SettingBody = Annotated[dict[str, Any], Field(max_length=50)]
_SETTINGS = [{"strategy": "hybrid"}, {"strategy": "lexical"}]


class EvaluationCreate(StrictRequestModel):
    """New evaluation: a golden set, and one or two search settings."""

    set: Identifier = Field(description="Id of the golden set.", examples=[example_values.GOLDEN_SET_ID])
    settings: Annotated[list[SettingBody], Field(min_length=1, max_length=2)] = Field(
        description="One or two search settings: bodies of `POST /v1/search` without `query`, `queries`, `messages`, "
        "`explain`, `include` and `return_vectors`. The first one is the baseline. The default of `top_k` is 100, that "
        "of `timeout_seconds` is 60.",
        examples=[_SETTINGS],
    )


class EvaluationProgressOut(BaseModel):
    """Progress of an evaluation."""

    done: int = Field(description="Number of searches that are done.", examples=[240])
    total: int = Field(description="Number of searches of all settings.", examples=[240])


class IntervalOut(BaseModel):
    """Mean over the queries, with its 95 % confidence interval from 1,000 bootstrap samples."""

    mean: float = Field(description="Mean over the queries.", examples=[0.72])
    low: float = Field(description="Lower end of the interval.", examples=[0.66])
    high: float = Field(description="Upper end of the interval.", examples=[0.78])


class DifferenceOut(IntervalOut):
    """Mean difference of the second setting to the first, paired by query."""

    better: int = Field(description="Number of queries that got better.", examples=[14])
    worse: int = Field(description="Number of queries that got worse.", examples=[6])
    equal: int = Field(description="Number of queries that stayed equal.", examples=[100])
    significant: bool = Field(description="Whether the interval excludes zero.", examples=[False])


class FigureOut(BaseModel):
    """Values of one measure."""

    measure: str = Field(
        description="Measure and cutoff, as in `carrel evaluate`: `nDCG@10`, `recall@5`, `recall@10`, `recall@100`, "
        "`MRR@10`. `all@5` follows if a query has several relevant documents.",
        examples=["nDCG@10"],
    )
    queries: int = Field(description="Number of queries that count.", examples=[120])
    values: list[IntervalOut] = Field(description="Value of each setting, in the order of the settings.")
    difference: DifferenceOut | None = Field(description="Difference of two settings; null with one setting.")


class EvaluationErrorOut(BaseModel):
    """Reason of a failed evaluation."""

    code: str = Field(description="Stable code.", examples=["no_query_answered"])
    message: str = Field(description="One sentence.", examples=["No query was answered: search_unavailable."])


class EvaluationOut(BaseModel):
    """Evaluation of one or two search settings with a golden set."""

    id: str = Field(description="Id of the evaluation.", examples=[example_values.EVALUATION_ID])
    set: str = Field(description="Id of the golden set.", examples=[example_values.GOLDEN_SET_ID])
    settings: list[dict[str, Any]] = Field(description="Search settings, as they were sent.", examples=[_SETTINGS])
    state: EvaluationState = Field(
        description="`queued`, `running`, `done` or `failed`. A deleted evaluation ends.", examples=["done"]
    )
    progress: EvaluationProgressOut = Field(description="Number of searches that are done.")
    figures: list[FigureOut] = Field(description="Figures by measure; empty until the evaluation is done.")
    warnings: list[WarningOut] = Field(description="Warnings of the evaluation.", examples=[[]])
    error: EvaluationErrorOut | None = Field(description="Reason of `failed`; null otherwise.")
    created_at: Time = Field(description="Time of creation, in UTC.", examples=[example_values.CREATED_AT])
    finished_at: Time | None = Field(
        description="Time of the end, in UTC; null before.", examples=[example_values.UPDATED_AT]
    )


class EvaluationList(ListResponse[EvaluationOut]):
    """Page of evaluations."""


class RankedRelevanceOut(BaseModel):
    """Relevant document or chunk, with its rank."""

    document: str = Field(description="Id of the document.", examples=[example_values.DOCUMENT_ID])
    chunk: str | None = Field(
        description="Id of the chunk; null if every chunk of the document counts.", examples=[example_values.CHUNK_ID]
    )
    rank: int | None = Field(
        description="Rank from 1, each document counted once; null if the search did not find it.", examples=[1]
    )


class QueryResultOut(BaseModel):
    """Result of a query with one setting."""

    scores: dict[str, float] = Field(
        description="Values by measure; empty if nothing relevant exists any more.", examples=[{"nDCG@10": 1.0}]
    )
    relevant: list[RankedRelevanceOut] = Field(description="What is relevant and existed, with ranks.")
    missing: int = Field(description="Number of relevant documents and chunks that are missing.", examples=[0])
    warning_codes: list[str] = Field(
        description="Codes of the warnings of the search.", examples=[["rewriting_skipped"]]
    )
    error: str | None = Field(description="Code of the error of the search; null if it answered.", examples=[None])


class EvaluationResultOut(BaseModel):
    """Results of one item of the golden set."""

    item: str = Field(description="Id of the item.", examples=[example_values.GOLDEN_ITEM_ID])
    query: str | None = Field(
        description="Query; null if the item has a conversation or was deleted.", examples=["parental leave"]
    )
    messages: list[GoldenItemMessageOut] | None = Field(
        description="Conversation; null if the item has a query or was deleted.",
        examples=[[{"role": "user", "content": "And for twins?"}]],
    )
    results: list[QueryResultOut] = Field(description="Result with each setting, in the order of the settings.")


class EvaluationResultList(ListResponse[EvaluationResultOut]):
    """Page of results of an evaluation."""


def to_evaluation_out(evaluation: StoredEvaluation) -> dict[str, Any]:
    """Return the JSON object of an evaluation."""
    return {
        "id": encode_id("eval", evaluation.id),
        "set": encode_id("gold", evaluation.set_id),
        "settings": [setting.body for setting in evaluation.settings],
        "state": evaluation.state,
        "progress": {"done": evaluation.done, "total": evaluation.total},
        "figures": evaluation.figures or [],
        "warnings": to_warnings_out(evaluation.warnings),
        "error": evaluation.error,
        "created_at": evaluation.created_at,
        "finished_at": evaluation.finished_at,
    }


def to_result_out(outcome: ItemOutcome) -> dict[str, Any]:
    """Return the JSON object of the results of an item."""
    return {
        "item": encode_id("item", outcome.item_id),
        "query": None if outcome.item is None else outcome.item.query,
        "messages": None if outcome.item is None else outcome.item.messages,
        "results": [_to_query_result_out(result) for result in outcome.outcomes],
    }


def _to_query_result_out(outcome: QueryOutcome) -> dict[str, Any]:
    relevant = [
        {
            "document": encode_id("doc", entry.relevance.document_id),
            "chunk": None if entry.relevance.chunk_id is None else encode_id("chk", entry.relevance.chunk_id),
            "rank": entry.rank,
        }
        for entry in outcome.relevant
    ]
    return {
        "scores": outcome.scores,
        "relevant": relevant,
        "missing": outcome.missing_count,
        "warning_codes": outcome.warnings,
        "error": outcome.error,
    }
