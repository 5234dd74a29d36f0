"""Base class of request bodies. The class reports a very long list of validation errors as one error.

pydantic creates an error for each wrong value and each unknown name, about 20 µs each. For a large body, this takes
gigabytes of memory and blocks the event loop for many seconds.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator

from app.errors import InvalidInputError
from app.filters.values import check_text

MAX_VALIDATION_ERRORS = 1000
TOO_MANY_ERRORS_MESSAGE = f"it has more than {MAX_VALIDATION_ERRORS} errors"


def _check_storable(value: str) -> str:
    try:
        check_text(value, loc=())
    except InvalidInputError as exc:
        raise ValueError(exc.message) from None
    return value


# Text that Postgres can store: no U+0000 and no unpaired surrogate.
STORABLE = AfterValidator(_check_storable)
Text = Annotated[str, STORABLE]


class RequestModel(BaseModel):
    """Request body, or an object in one, with at most ``MAX_VALIDATION_ERRORS`` errors.

    A list of plain values needs a maximum length or ``fail_fast``: pydantic creates all errors of the list before they
    are counted.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _limit_errors(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, dict) and len(value) > MAX_VALIDATION_ERRORS:  # more names than any model has fields
            raise ValueError(TOO_MANY_ERRORS_MESSAGE)
        try:
            return handler(value)
        except ValidationError as exc:
            if exc.error_count() <= MAX_VALIDATION_ERRORS:
                raise
        raise ValueError(TOO_MANY_ERRORS_MESSAGE)
