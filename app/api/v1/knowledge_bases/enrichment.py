"""Enrichment of a knowledge base's documents by a chat model: state, estimate and start."""

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.api.dependencies import AuthenticatedRoute, CurrentAdmin, CurrentReader
from app.api.http.path_parameters import KnowledgeBasePath
from app.enrichment.types import EnrichmentWaitReason

router = APIRouter(
    prefix="/knowledge-bases/{kb}/enrichment",
    tags=["knowledge bases"],
    route_class=AuthenticatedRoute,
)
WAITING_DESCRIPTION = (
    "Reason for which documents wait; null if none does. `chat_model` or `embedding_endpoint`: it does not answer. "
    "`rate_limit`: the embedding tokens of the day are used up."
)


class EnrichmentCountsOut(BaseModel):
    """Number of ready documents by the state of their enrichment."""

    pending: int = Field(description="Documents that wait, or that were never enriched.", examples=[3])
    running: int = Field(description="Documents that are being enriched.", examples=[1])
    capped: int = Field(
        description="Documents that reached a limit. After the limit of the day, they continue on the next day.",
        examples=[0],
    )
    done: int = Field(description="Documents whose live version is enriched.", examples=[120])
    stopped: int = Field(description="Documents whose enrichment was switched off before its end.", examples=[0])
    failed: int = Field(description="Documents that the chat model refused.", examples=[0])


class EnrichmentStatusOut(BaseModel):
    """State of the enrichment of a knowledge base."""

    enabled: bool = Field(description="Whether documents are enriched when they become ready.", examples=[True])
    model: str | None = Field(
        description="Name of the chat model; null if none is configured.", examples=["gpt-5-mini"]
    )
    documents: EnrichmentCountsOut = Field(description="Number of ready documents by state.")
    waiting_for: EnrichmentWaitReason | None = Field(description=WAITING_DESCRIPTION, examples=[None])
    calls_today: int = Field(description="Calls of the chat model today (UTC).", examples=[42])
    tokens_today: int = Field(
        description="Tokens today (UTC), with those that are reserved for running calls.", examples=[61_200]
    )
    max_tokens_per_day: int = Field(description="Limit of the tokens of a day.", examples=[1_000_000])


class EnrichmentEstimateOut(BaseModel):
    """Estimated cost of the documents that are not enriched."""

    documents: int = Field(description="Number of documents that are not enriched.", examples=[50])
    sampled_documents: int = Field(
        description="Number of documents that were read for the estimate, at most 200. The numbers of the others "
        "follow from their chunks.",
        examples=[50],
    )
    calls: int = Field(description="Number of calls of the chat model.", examples=[310])
    input_tokens: int = Field(description="Tokens of the prompts.", examples=[402_000])
    output_tokens: int = Field(description="Tokens of the replies.", examples=[98_000])
    total_tokens: int = Field(description="Tokens of the prompts and the replies.", examples=[500_000])
    is_calibrated: bool = Field(
        description="Whether the real costs of earlier calls in the knowledge base corrected the numbers.",
        examples=[False],
    )


class EnrichmentRunOut(BaseModel):
    """Start of the enrichment."""

    enqueued: int = Field(description="Number of documents that were enqueued or that continue now.", examples=[50])


@router.get("", summary="Get the state of the enrichment", response_model=EnrichmentStatusOut)
async def get_enrichment(kb: KnowledgeBasePath, tenant: CurrentReader) -> EnrichmentStatusOut:
    """Return the number of documents in each state of the enrichment, and the tokens of the day."""
    status = await tenant.enrichment.get_status(kb)
    return EnrichmentStatusOut.model_validate(status, from_attributes=True)


@router.post("/estimate", summary="Estimate the cost of the enrichment", response_model=EnrichmentEstimateOut)
async def estimate_enrichment(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> EnrichmentEstimateOut:
    """Estimate the calls and tokens for the documents that are not enriched, with the present settings.

    No model is called, and the enrichment need not be enabled.
    """
    estimate = await tenant.enrichment.estimate(kb)
    return EnrichmentEstimateOut(
        documents=estimate.documents,
        sampled_documents=estimate.sampled_documents,
        calls=estimate.calls,
        input_tokens=estimate.input_tokens,
        output_tokens=estimate.output_tokens,
        total_tokens=estimate.input_tokens + estimate.output_tokens,
        is_calibrated=estimate.is_calibrated,
    )


@router.post("/run", summary="Start the enrichment", status_code=202, response_model=EnrichmentRunOut)
async def run_enrichment(kb: KnowledgeBasePath, tenant: CurrentAdmin) -> EnrichmentRunOut:
    """Enqueue the documents that are not enriched with the present settings.

    Documents that reached a limit, failed, or wait for the chat model are tried again now. Replies that were paid for
    are used again.
    """
    return EnrichmentRunOut(enqueued=await tenant.enrichment.run(kb))
