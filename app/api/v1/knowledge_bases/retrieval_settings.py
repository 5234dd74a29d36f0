"""Search settings of a knowledge base."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from app.api.http.request_models import STORABLE, Text
from app.api.v1.knowledge_bases.transformers import TransformerConfig, TransformerConfigs, to_stored_transformers
from app.api.v1.option_aliases import AliasedRequestModel
from app.api.v1.schemas import Options
from app.errors import InvalidInputError
from app.knowledge_bases.types import Retrieval
from app.retrieval.strategies import find_strategy, parse_strategy_options

PromptText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4000), STORABLE]


class RetrievalSettingsRequest(AliasedRequestModel):
    """Default settings of searches in a knowledge base. Options of a search take precedence, key by key."""

    strategy: Text = Field("hybrid", description="Strategy of searches.", examples=["hybrid"])
    top_k: int = Field(5, ge=1, le=500, description="Number of results, 1 to 500.", examples=[5])
    strategy_options: Options = Field(
        default_factory=dict,
        description="Options of the strategy. `GET /v1/capabilities` describes them.",
        examples=[{"dense_weight": 0.6}],
    )
    transformers: TransformerConfigs | None = Field(
        None,
        description="Transformers of searches in this knowledge base, at most 8. They run after the default "
        "`reformulate`, which `conversation` controls.",
        examples=[["reformulate"]],
    )
    conversation: bool = Field(
        True,
        description="Whether searches use the messages before the last question, by `reformulate`. `false` searches "
        "the last question as it is.",
        examples=[True],
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How a result counts that several queries found, as in a search; null for the default of the "
        "strategy.",
        examples=["sum"],
    )
    rewrite_prompt: PromptText | None = Field(
        None,
        description="Instruction of `reformulate` and `prompt_rewrite` for the chat model, 1 to 4,000 characters.",
        examples=["Rewrite the question in the terms of the handbook."],
    )
    answer_prompt: PromptText | None = Field(
        None,
        description="Instruction for answers from this knowledge base alone, 1 to 4,000 characters, in addition "
        "to that of the service.",
        examples=["Answer briefly and politely."],
    )

    def to_retrieval(self) -> Retrieval:
        """Convert the body to search settings.

        Raises:
            InvalidInputError: A strategy, option or transformer is unknown or invalid.
        """
        strategy = find_strategy(self.strategy, loc=("body", "retrieval", "strategy"))
        parse_strategy_options(strategy, self.strategy_options, loc=("body", "retrieval", "strategy_options"))
        transformers = to_stored_transformers(self.transformers, loc=("body", "retrieval", "transformers"))
        return Retrieval(**self.model_dump() | {"strategy": strategy.name, "transformers": transformers})


class RetrievalSettingsUpdate(AliasedRequestModel):
    """Changes of search settings. Fields left out keep their values. A strategy and its options change together."""

    strategy: Text | None = Field(
        None, description="Strategy of searches; null sets the default, `hybrid`.", examples=["hybrid"]
    )
    top_k: int | None = Field(
        None, ge=1, le=500, description="Number of results, 1 to 500; null sets the default, 5.", examples=[5]
    )
    strategy_options: Options | None = Field(
        None,
        description="Options of the strategy, which must be sent with them. A strategy without options resets them.",
        examples=[{"dense_weight": 0.6}],
    )
    transformers: TransformerConfigs | None = Field(
        None, description="Transformers of searches, at most 8; null sets the default.", examples=[["reformulate"]]
    )
    conversation: bool | None = Field(
        None,
        description="Whether searches use the messages before the last question; null sets the default, `true`.",
        examples=[True],
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How a result counts that several queries found; null for the default of the strategy.",
        examples=["sum"],
    )
    rewrite_prompt: PromptText | None = Field(
        None,
        description="Instruction of `reformulate` and `prompt_rewrite`, 1 to 4,000 characters; null removes it.",
        examples=["Rewrite the question in the terms of the handbook."],
    )
    answer_prompt: PromptText | None = Field(
        None,
        description="Instruction for answers, 1 to 4,000 characters; null removes it.",
        examples=["Answer briefly and politely."],
    )

    def to_changes(self) -> dict[str, Any]:
        """Validate the changes, and return the new values of the fields that the caller sent.

        Raises:
            InvalidInputError: A strategy, option or transformer is invalid, or options come without a strategy.
        """
        provided = self.model_dump(exclude_unset=True)
        if self.strategy_options and "strategy" not in provided:
            raise InvalidInputError(
                "strategy_options need a strategy. Send both.", loc=("body", "retrieval", "strategy_options")
            )
        settings = RetrievalSettingsRequest(**{name: value for name, value in provided.items() if value is not None})
        retrieval = asdict(settings.to_retrieval())
        names = provided.keys() | ({"strategy_options"} if "strategy" in provided else set())
        return {name: retrieval[name] for name in names}


class RetrievalSettingsOut(BaseModel):
    """Default settings of searches in a knowledge base. Only ``strategy`` and ``top_k`` are always present."""

    strategy: str = Field(description="Strategy of searches.", examples=["hybrid"])
    top_k: int = Field(description="Number of results.", examples=[5])
    strategy_options: dict[str, Any] = Field(
        default_factory=dict,
        description="Options of the strategy that are set.",
        examples=[{"dense_weight": 0.6}],
        exclude_if=lambda options: not options,
    )
    transformers: list[TransformerConfig] | None = Field(
        None,
        description="Transformers with all options.",
        examples=[[{"name": "reformulate", "options": {}}]],
        exclude_if=lambda named: named is None,
    )
    conversation: bool = Field(
        True,
        description="Whether searches use the messages before the last question; left out if true.",
        examples=[False],
        exclude_if=lambda conversation: conversation,
    )
    combine: Literal["best", "sum"] | None = Field(
        None,
        description="How a result counts that several queries found; left out for the default of the strategy.",
        examples=["sum"],
        exclude_if=lambda combine: combine is None,
    )
    rewrite_prompt: str | None = Field(
        None,
        description="Instruction of `reformulate` and `prompt_rewrite`.",
        examples=["Rewrite the question in the terms of the handbook."],
        exclude_if=lambda prompt: prompt is None,
    )
    answer_prompt: str | None = Field(
        None,
        description="Instruction for answers.",
        examples=["Answer briefly and politely."],
        exclude_if=lambda prompt: prompt is None,
    )
