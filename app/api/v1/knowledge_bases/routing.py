"""How searches come to knowledge bases, as callers say it."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.routing_settings import RoutingSettings
from app.retrieval.routes import RoutingOptions

_DEFAULT_ROUTING = RoutingSettings()
# As long as a passage of the default chunking may be, or so.
Description = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), STORABLE]
ROUTING_DESCRIPTION = (
    "How many knowledge bases of each embedding model are searched; `false` for all. By default "
    f'`{{"top_n": {RoutingOptions().top_n}}}` where no knowledge base is named, and `false` where some are'
)


class RoutingSettingsRequest(StrictRequestModel):
    """What the knowledge base is about, for searches that name none; its passages say so too.

    ``descriptions`` and ``examples`` (passages or questions as they may come) are embedded in the background. Theirs is
    ``description_weight`` of the score, and all of it where there are no passages yet. ``scale`` is what the score, and
    everything that is found in it beside other knowledge bases, is multiplied by; ``always`` has it searched whatever
    it scores.
    """

    descriptions: Annotated[list[Description], Field(max_length=20)] = Field(default_factory=list)
    examples: Annotated[list[Description], Field(max_length=50)] = Field(default_factory=list)
    description_weight: float = Field(_DEFAULT_ROUTING.description_weight, ge=0, le=1)
    scale: float = Field(_DEFAULT_ROUTING.scale, ge=0.01, le=100)
    always: bool = _DEFAULT_ROUTING.always

    def to_routing_settings(self) -> RoutingSettings:
        """The room's form of it."""
        return RoutingSettings(**self.model_dump())


class RoutingSettingsOut(BaseModel):
    """How searches that name no knowledge base come to this one."""

    descriptions: list[str]
    examples: list[str]
    description_weight: float
    scale: float
    always: bool


class TopNRouting(StrictRequestModel):
    """To so many of each embedding model, and to those that cannot be compared."""

    top_n: int = Field(3, ge=1, le=100)


RoutingRequest = TopNRouting | Literal[False]


def to_routing(requested: RoutingRequest) -> RoutingOptions:
    """The room's form of it."""
    return RoutingOptions(requested.top_n if isinstance(requested, TopNRouting) else None)
