"""Graph settings of knowledge bases: which entities their chunks get."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.graph_settings import GraphSettings

ExtractorName = Annotated[str, StringConstraints(min_length=1, max_length=63), STORABLE]
MetadataKey = Annotated[str, StringConstraints(min_length=1, max_length=200), STORABLE]


class GraphSettingsRequest(StrictRequestModel):
    """Settings of the entity graph, in which the strategy `graph_rag` walks."""

    enabled: bool = Field(
        True, description="Whether the search index has a graph of the entities of its chunks.", examples=[True]
    )
    metadata_keys: Annotated[list[MetadataKey], Field(max_length=20)] = Field(
        default_factory=list,
        description="Metadata keys whose values are entities, at most 20, such as `author`.",
        examples=[["author"]],
    )
    extractors: Annotated[list[ExtractorName], Field(max_length=10)] = Field(
        default_factory=list,
        description="Names of installed extractors of plugins that run, in this order, at most 10. None runs by "
        "default. `GET /v1/capabilities` lists the installed ones.",
        examples=[[]],
    )

    def to_graph_settings(self) -> GraphSettings:
        """Convert the body to graph settings; repeated names count once."""
        return GraphSettings(
            self.enabled, tuple(dict.fromkeys(self.metadata_keys)), tuple(dict.fromkeys(self.extractors))
        )


class GraphSettingsOut(BaseModel):
    """Settings of the entity graph. `index.action` is `reindex` if the search index has a graph of other settings."""

    enabled: bool = Field(description="Whether the search index gets a graph.", examples=[True])
    metadata_keys: list[str] = Field(description="Metadata keys whose values are entities.", examples=[["author"]])
    extractors: list[str] = Field(description="Names of the extractors of plugins that run.", examples=[["spacy"]])


def to_graph_settings_out(settings: GraphSettings) -> dict[str, Any]:
    """Return the fields of the graph settings for the response."""
    return {
        "enabled": settings.enabled,
        "metadata_keys": list(settings.metadata_keys),
        "extractors": list(settings.extractors),
    }
