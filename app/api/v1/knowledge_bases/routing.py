"""Routing settings of knowledge bases, and routing options of searches, as the API shows them."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.routing_settings import RoutingSettings
from app.retrieval.routes import RoutingOptions

_DEFAULT_ROUTING = RoutingSettings()
# About the length of a chunk with the default chunking.
Description = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000), STORABLE]
ROUTING_DESCRIPTION = (
    "Number of knowledge bases of each embedding model to search; `false` searches all. Default: "
    f'`{{"top_n": {RoutingOptions().top_n}}}` without `knowledge_bases`, `false` with them.'
)


class RoutingSettingsRequest(StrictRequestModel):
    """Routing settings: descriptions of the contents, by which searches without named knowledge bases choose this one.

    Descriptions and examples are embedded in the background. Routing also uses the vectors of the chunks.
    """

    descriptions: Annotated[list[Description], Field(max_length=20)] = Field(
        default_factory=list,
        description="Descriptions of the contents, at most 20, each 1 to 1,000 characters.",
        examples=[["Rules for leave, travel and expenses of staff"]],
    )
    examples: Annotated[list[Description], Field(max_length=50)] = Field(
        default_factory=list,
        description="Questions or passages that belong here, at most 50, each 1 to 1,000 characters.",
        examples=[["How many days of parental leave are there?"]],
    )
    description_weight: float = Field(
        _DEFAULT_ROUTING.description_weight,
        ge=0,
        le=1,
        description="Weight of descriptions and examples in the score, 0 to 1; the chunks have the rest. Without "
        "chunks it is 1.",
        examples=[0.3],
    )
    scale: float = Field(
        _DEFAULT_ROUTING.scale,
        ge=0.01,
        le=100,
        description="Factor for the score of the knowledge base and for the scores of its results among other "
        "knowledge bases, 0.01 to 100.",
        examples=[1.0],
    )
    always: bool = Field(
        _DEFAULT_ROUTING.always,
        description="Search the knowledge base in every routed search, independent of its score.",
        examples=[False],
    )

    def to_routing_settings(self) -> RoutingSettings:
        """Convert the body to routing settings of the knowledge base."""
        return RoutingSettings(**self.model_dump())


class RoutingSettingsOut(BaseModel):
    """Routing settings: how searches that name no knowledge base choose this one."""

    descriptions: list[str] = Field(
        description="Descriptions of the contents.", examples=[["Rules for leave, travel and expenses of staff"]]
    )
    examples: list[str] = Field(
        description="Questions or passages that belong here.", examples=[["How many days of parental leave are there?"]]
    )
    description_weight: float = Field(
        description="Weight of descriptions and examples in the score, 0 to 1; the chunks have the rest.",
        examples=[0.3],
    )
    scale: float = Field(
        description="Factor for the score of the knowledge base and for the scores of its results among other "
        "knowledge bases.",
        examples=[1.0],
    )
    always: bool = Field(
        description="Whether every routed search runs here, independent of the score.", examples=[False]
    )


class TopNRouting(StrictRequestModel):
    """Routing to a number of knowledge bases of each embedding model, and to knowledge bases that routing cannot
    compare, for example without a routing profile.
    """

    top_n: int = Field(
        3, ge=1, le=100, description="Number of knowledge bases of each embedding model, 1 to 100.", examples=[3]
    )


RoutingRequest = TopNRouting | Literal[False]


def to_routing(requested: RoutingRequest) -> RoutingOptions:
    """Convert the routing options of a request to the type of the retrieval package."""
    return RoutingOptions(requested.top_n if isinstance(requested, TopNRouting) else None)
