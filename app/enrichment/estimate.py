"""Estimates of the calls and tokens of documents before they are enriched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.enrichment.plan import plan_calls
from app.enrichment.prompt import build_material, build_task, join_ranges, list_passages, select_parts
from app.enrichment.stored_replies import LINES, StoredReply, match_reply
from app.enrichment.tokens import SUMMARY_TOKENS, estimate_output, estimate_task, estimate_tokens
from app.enrichment.types import EnrichmentEstimate, EnrichmentTarget
from app.knowledge_bases.enrichment_settings import EnrichmentSettings

MIN_CALIBRATION_REPLIES = 10
"""Number of earlier replies from which their real costs correct an estimate."""

MAX_CORRECTION = 4.0
"""Maximum factor by which earlier replies raise or lower an estimate."""


@dataclass(frozen=True, slots=True)
class DocumentEstimate:
    """Estimated calls and tokens of one document."""

    calls: int
    input_tokens: int
    output_tokens: int


def estimate_document(
    target: EnrichmentTarget, model: str, parts: Sequence[str], replies: Mapping[bytes, StoredReply]
) -> DocumentEstimate:
    """Return the expected costs of a document, without those of replies that were paid for. The function blocks.

    Args:
        target: The document.
        model: Name of the chat model.
        parts: Wanted parts.
        replies: Replies of the document that were paid for, by their hash.
    """
    calls = input_tokens = output_tokens = 0
    summaries: dict[int, str | None] = {}
    for position, call in enumerate(plan_calls(target.text, target.sections)):
        wanted = select_parts(call, parts)
        if not wanted:
            continue
        text, below = join_ranges(target.text, call), [summaries.get(child) for child in call.children]
        read_summaries = [summary for summary in below if summary]
        missing = wanted
        if None not in below:
            match = match_reply(replies, model, wanted, build_material(target.title, call, text, read_summaries))
            missing = match.missing
            if match.stored is not None:
                summaries[position] = match.stored.reply.summary
        if not missing:
            continue
        passages = list_passages(call, target.chunks) if LINES in missing else None
        material_tokens = estimate_tokens(build_material(target.title, call, text, read_summaries, passages))
        material_tokens += (SUMMARY_TOKENS if "summaries" in parts else 0) * below.count(None)
        calls += 1
        input_tokens += estimate_task(build_task(missing), missing) + material_tokens
        output_tokens += estimate_output(missing, material_tokens, len(passages or ()))
    return DocumentEstimate(calls, input_tokens, output_tokens)


def combine_estimates(
    estimates: Sequence[DocumentEstimate],
    settings: EnrichmentSettings,
    *,
    documents: int,
    scale: float,
    calibration: tuple[int, int, int],
) -> EnrichmentEstimate:
    """Return the estimate of all pending documents.

    Args:
        estimates: Estimates of a sample.
        settings: Settings of the knowledge base.
        documents: Number of pending documents.
        scale: Chunks of all pending documents for each chunk of the sample.
        calibration: Number of earlier replies, their tokens and their estimated tokens.
    """
    replies, tokens, estimated = calibration
    is_calibrated = replies >= MIN_CALIBRATION_REPLIES and tokens > 0 and estimated > 0
    correction = min(MAX_CORRECTION, max(1 / MAX_CORRECTION, tokens / estimated)) if is_calibrated else 1.0
    limit = settings.max_tokens_per_document
    input_tokens = output_tokens = 0.0
    for estimate in estimates:
        expected = correction * (estimate.input_tokens + estimate.output_tokens)
        share = correction * min(1.0, limit / max(1.0, expected))
        input_tokens += share * estimate.input_tokens
        output_tokens += share * estimate.output_tokens
    return EnrichmentEstimate(
        documents=documents,
        sampled_documents=len(estimates),
        calls=round(scale * sum(estimate.calls for estimate in estimates)),
        input_tokens=round(scale * input_tokens),
        output_tokens=round(scale * output_tokens),
        is_calibrated=is_calibrated,
    )
