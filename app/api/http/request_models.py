"""What callers send: of a body that is wrong all over, only that is told.

pydantic makes an error of every wrong value and of every name that it does not know, some twenty microseconds each. Of
a large body that would be many seconds in which nobody else is answered, and gigabytes.
"""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator

from app.errors import InvalidInputError
from app.filters.values import check_text

MAX_VALIDATION_ERRORS = 1000
TOO_MANY_ERRORS_MESSAGE = f"more than {MAX_VALIDATION_ERRORS} things are wrong with it"


def _check_storable(value: str) -> str:
    try:
        check_text(value, loc=())
    except InvalidInputError as exc:
        raise ValueError(exc.message) from None
    return value


# What Postgres can keep: no U+0000, no half of a surrogate pair.
STORABLE = AfterValidator(_check_storable)
Text = Annotated[str, STORABLE]


class RequestModel(BaseModel):
    """A body, or an object in one; its faults are told one by one as long as they are few.

    A list of what is no object needs a limit, or ``fail_fast``: its faults are counted when all of them are made.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _limit_errors(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, dict) and len(value) > MAX_VALIDATION_ERRORS:  # no object has so many names
            raise ValueError(TOO_MANY_ERRORS_MESSAGE)
        try:
            return handler(value)
        except ValidationError as exc:
            if exc.error_count() <= MAX_VALIDATION_ERRORS:
                raise
        raise ValueError(TOO_MANY_ERRORS_MESSAGE)
