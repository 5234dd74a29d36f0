"""Score threshold of requests: a cosine, or ``auto``."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator


def _check_threshold(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """Report one error for an invalid value, in place of one error for each type that a threshold may have."""
    try:
        return handler(value)
    except ValidationError:
        raise ValueError("must be a number from -1 to 1, or `auto`") from None


ScoreThreshold = Annotated[
    Annotated[float, Field(ge=-1, le=1)] | Literal["auto"],
    WrapValidator(_check_threshold),
]
AUTO_DESCRIPTION = (
    "`auto` uses the calibrated threshold of the embedding model of each knowledge base, which `embedding_models` of "
    "`GET /v1/capabilities` has. If a model has none, no threshold applies there, and the warning "
    "`threshold_not_calibrated` says so."
)
