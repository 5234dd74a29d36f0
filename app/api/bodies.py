"""What callers send: of a body that is wrong all over, only that is told.

pydantic makes an error of every wrong value and of every name that it does not know, some twenty microseconds each. Of
a large body that would be many seconds in which nobody else is answered, and gigabytes.
"""

from typing import Any, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, ValidationError, model_validator

MOST_COUNTED = 1000
TOO_MANY = f"more than {MOST_COUNTED} things are wrong with it"


class Body(BaseModel):
    """A body, or an object in one; its faults are told one by one as long as they are few.

    A list of what is no object needs a limit, or ``fail_fast``: its faults are counted when all of them are made.
    """

    @model_validator(mode="wrap")
    @classmethod
    def _few_faults(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(value, dict) and len(value) > MOST_COUNTED:  # no object has so many names
            raise ValueError(TOO_MANY)
        try:
            return handler(value)
        except ValidationError as exc:
            if exc.error_count() <= MOST_COUNTED:
                raise
        raise ValueError(TOO_MANY)
