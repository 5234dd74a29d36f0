"""Settings of the enrichment by a chat model, as the API shows them."""

from pydantic import BaseModel, Field

from app.api.http.request_models import Text
from app.api.v1.schemas import StrictRequestModel
from app.knowledge_bases.enrichment_settings import EnrichmentSettings

_DEFAULTS = EnrichmentSettings()
MODEL_DESCRIPTION = (
    "Name of the chat model: that of `CARREL_CHAT_MODEL` or of `CARREL_REWRITE_MODEL`; null uses `CARREL_CHAT_MODEL`."
)


class EnrichmentSettingsRequest(StrictRequestModel):
    """Enrichment of documents by a chat model, which costs tokens. It is off by default."""

    enabled: bool = Field(
        _DEFAULTS.enabled,
        description="Enrich documents when they become ready. `POST .../enrichment/run` starts it for existing ones.",
        examples=[False],
    )
    summaries: bool = Field(
        _DEFAULTS.summaries, description="Summaries of sections and of the document.", examples=[True]
    )
    keywords: bool = Field(_DEFAULTS.keywords, description="Keywords of sections with a summary.", examples=[True])
    entities: bool = Field(_DEFAULTS.entities, description="Entities of chunks with their types.", examples=[True])
    relations: bool = Field(
        _DEFAULTS.relations,
        description="Relations between entities. Those without evidence in the text are dropped.",
        examples=[True],
    )
    context_lines: bool = Field(
        _DEFAULTS.context_lines,
        description="A line about each chunk that is embedded and indexed before its text, which stays as written.",
        examples=[False],
    )
    max_tokens_per_document: int = Field(
        _DEFAULTS.max_tokens_per_document,
        ge=1,
        le=100_000_000,
        description="Maximum number of tokens that one version of a document may cost, 1 to 100,000,000.",
        examples=[200_000],
    )
    max_tokens_per_day: int = Field(
        _DEFAULTS.max_tokens_per_day,
        ge=1,
        le=10_000_000_000,
        description="Maximum number of tokens of the knowledge base in one day (UTC), 1 to 10,000,000,000.",
        examples=[1_000_000],
    )
    model: Text | None = Field(_DEFAULTS.model, description=MODEL_DESCRIPTION, examples=[None])

    def to_settings(self) -> EnrichmentSettings:
        """Convert the body to settings of the knowledge base."""
        return EnrichmentSettings(**self.model_dump())


class EnrichmentSettingsOut(BaseModel):
    """Enrichment of documents by a chat model."""

    enabled: bool = Field(description="Whether documents are enriched when they become ready.", examples=[False])
    summaries: bool = Field(description="Whether sections get summaries.", examples=[True])
    keywords: bool = Field(description="Whether sections get keywords.", examples=[True])
    entities: bool = Field(description="Whether chunks get entities of the model.", examples=[True])
    relations: bool = Field(description="Whether chunks get relations of the model.", examples=[True])
    context_lines: bool = Field(
        description="Whether chunks get a line that is embedded and indexed before their text.", examples=[False]
    )
    max_tokens_per_document: int = Field(
        description="Maximum number of tokens that one version of a document may cost.", examples=[200_000]
    )
    max_tokens_per_day: int = Field(
        description="Maximum number of tokens of the knowledge base in one day (UTC).", examples=[1_000_000]
    )
    model: str | None = Field(description=MODEL_DESCRIPTION, examples=[None])
