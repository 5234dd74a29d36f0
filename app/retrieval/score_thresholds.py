"""Calibrated score thresholds of the searched knowledge bases, for requests with the score threshold ``auto``."""

from collections.abc import Sequence

from app.retrieval.explain import AutoThreshold
from app.retrieval.search_run import SearchRun
from app.retrieval.strategies.strategy import SearchTarget
from app.retrieval.types import SearchRequest
from app.warnings import ServiceWarning, WarningCode


def resolve_auto_thresholds(
    request: SearchRequest, targets: Sequence[SearchTarget], search_run: SearchRun
) -> list[AutoThreshold] | None:
    """Return the calibrated threshold of each searched knowledge base, and report models that have none.

    The report is a notice: a search without a threshold is complete.

    Args:
        request: The search request.
        targets: Knowledge bases of the search.
        search_run: Collector of the notices, one for each model without a calibrated threshold.

    Returns:
        The thresholds; None if the request does not ask for ``auto``.
    """
    if request.score_threshold != "auto":
        return None
    names: dict[str, list[str]] = {}
    for target in targets:
        if target.score_threshold is None:
            names.setdefault(target.model.model, []).append(target.kb.display_name)
    for model, display_names in names.items():
        message = (
            f"score_threshold auto was not applied in {', '.join(display_names)}: the embedding model {model!r} has no "
            "calibrated threshold."
        )
        search_run.add_notice(ServiceWarning(WarningCode.THRESHOLD_NOT_CALIBRATED, message))
    return [AutoThreshold(target.kb.row.name, target.kb.is_shared, target.score_threshold) for target in targets]
