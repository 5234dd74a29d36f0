"""Schema of warnings, shared by all APIs."""

from collections.abc import Sequence

from pydantic import BaseModel, Field

from app.warnings import ServiceWarning


class WarningOut(BaseModel):
    """Warning: a part of the work was left out or done in another way."""

    code: str = Field(
        description="Stable code that programs can branch on; `docs/reference/errors.md` lists all codes.",
        examples=["images_not_read"],
    )
    message: str = Field(description="One sentence for people.", examples=["2 images were not read."])
    count: int | None = Field(
        None,
        description="Number of things that the warning is about; left out if they were not counted.",
        examples=[2],
        exclude_if=lambda count: count is None,
    )


def to_warnings_out(warnings: Sequence[ServiceWarning]) -> list[WarningOut]:
    """Return the warnings in their schema."""
    return [WarningOut(code=warning.code, message=warning.message, count=warning.count) for warning in warnings]
