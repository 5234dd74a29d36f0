"""Reformulation of the last question of a conversation as a standalone query (KIMAs: Li et al., 2025)."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from app.retrieval.explain import Reformulation
from app.retrieval.transformers.prompt_format import MAX_TURN_CHARACTERS, select_recent_turns
from app.retrieval.transformers.transformer import (
    ConversationAnalysis,
    NoTransformerOptions,
    TransformContext,
    Transformer,
    TransformResult,
    normalize_queries,
)

TASK = """write the query that finds what answers `question`, the last one of `conversation`.
It must be understood without the conversation: put names in the place of pronouns, and say what the question leaves \
out because it was said before. Add nothing that was not said, and keep its language.
If the question asks again what an answer before has not answered, or says that the answer was wrong, the query must \
say what was missing, in other words than the ones that have failed.
If the question is about something new, leave the conversation out."""


# An administrator wrote the prompt, so it may be part of the instructions.
PROMPT_TASK = """
The administrator of the documents says how to write it:
{prompt}"""


ANALYSIS_TASK = """say in one sentence what `question`, the last one of `conversation`, wants and what of the \
conversation matters to it, and name the turns that are needed to answer it.
If the question is about something new, name none."""


class StandaloneQuery(BaseModel):
    """Answer of the chat model: the standalone query."""

    query: str = Field(min_length=1, description="The query, complete by itself")


class QuestionAnalysis(BaseModel):
    """Answer of the chat model: the analysis of the question."""

    analysis: str = Field("", description="In one sentence: what is wanted, and what of the conversation matters")
    indices_of_related_messages: list[int] = Field(
        default_factory=list, description="The `index` of each turn that is needed to answer"
    )


async def run(context: TransformContext, _options: NoTransformerOptions) -> TransformResult:
    """Rewrite the last question of the conversation as one query.

    Queries stay unchanged if the question has no earlier messages, or if there are several queries. The search waits
    only for the query. The longer analysis is written in the background.
    """
    turns = select_recent_turns(context.messages)
    question = context.question
    if question is None or all(turn["content"] == question[-MAX_TURN_CHARACTERS:] for turn in turns):
        return TransformResult(context.queries)
    material = {"conversation": turns, "question": question}
    analysis = (
        context.search_run.start_background(_analyze_conversation(context, material))
        if context.needs_analysis
        else None
    )
    task = TASK if context.prompt is None else TASK + PROMPT_TASK.format(prompt=context.prompt)
    answer = await context.generate_structured(task, material, StandaloneQuery)
    queries = normalize_queries([answer.query]) if answer else []
    if not queries:
        return TransformResult(context.queries)
    return TransformResult(queries, Reformulation(queries[0]), analysis)


async def _analyze_conversation(context: TransformContext, material: Mapping[str, Any]) -> ConversationAnalysis:
    """Analyze the conversation. If the model fails, all turns count as related."""
    turn_indexes = [turn["index"] for turn in material["conversation"]]
    answer = await context.generate_structured(ANALYSIS_TASK, material, QuestionAnalysis)
    if answer is None:
        return ConversationAnalysis("", turn_indexes)
    related = sorted(set(turn_indexes).intersection(answer.indices_of_related_messages))
    return ConversationAnalysis(answer.analysis.replace("\0", " ").strip(), related)


TRANSFORMER = Transformer(
    "reformulate",
    "One query for a whole conversation; the default for `messages` if a chat model is configured.",
    NoTransformerOptions,
    run,
    takes_prompt=True,
    needs_corpus=False,
    needs_preview=False,
)
