"""How a knowledge base is searched, as callers say it."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE, Text
from app.api.v1.knowledge_bases.transformers import TransformerConfig, TransformerConfigs, to_stored_transformers
from app.api.v1.schemas import Options, StrictRequestModel
from app.knowledge_bases.types import Retrieval
from app.retrieval.strategies import find_strategy, parse_strategy_options

PromptText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000), STORABLE]


class RetrievalSettingsRequest(StrictRequestModel):
    """How a search that does not say otherwise is done; a search's own options win, key by key.

    ``transformers`` run in searches in it alone; ``rewrite_prompt`` is what prompt_rewrite tells the chat model,
    ``answer_prompt`` what it is told beside our own instructions when it answers from this knowledge base alone. Each
    text of them has a number: GET /v1/knowledge-bases/{kb}/prompts.
    """

    strategy: Text = "hybrid"
    top_k: int = Field(5, ge=1, le=500)
    strategy_options: Options = Field(default_factory=dict)
    transformers: TransformerConfigs | None = None
    rewrite_prompt: PromptText | None = None
    answer_prompt: PromptText | None = None

    def to_retrieval(self) -> Retrieval:
        """The same, checked. Raises InvalidInputError."""
        strategy = find_strategy(self.strategy, loc=("body", "retrieval", "strategy"))
        parse_strategy_options(strategy, self.strategy_options, loc=("body", "retrieval", "strategy_options"))
        transformers = to_stored_transformers(self.transformers, loc=("body", "retrieval", "transformers"))
        return Retrieval(**self.model_dump() | {"strategy": strategy.name, "transformers": transformers})


class RetrievalSettingsOut(BaseModel):
    """How a search that does not say otherwise is done; all but ``strategy`` and ``top_k`` only where it is set."""

    strategy: str
    top_k: int
    strategy_options: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda options: not options)
    transformers: list[TransformerConfig] | None = Field(None, exclude_if=lambda named: named is None)
    rewrite_prompt: str | None = Field(None, exclude_if=lambda prompt: prompt is None)
    answer_prompt: str | None = Field(None, exclude_if=lambda prompt: prompt is None)
