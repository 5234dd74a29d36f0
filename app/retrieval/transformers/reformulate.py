"""The context manager: one query that says by itself what a conversation asks last (after KIMAs)."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from app.retrieval.transformers.context import Analysis, NoOptions, Rewritten, TransformContext, Transformer, tidied
from app.retrieval.transformers.prompting import TURN_CHARACTERS, conversation
from app.retrieval.types import Reformulation

TASK = """write the query that finds what answers `question`, the last one of `conversation`.
It must be understood without the conversation: put names in the place of pronouns, and say what the question leaves \
out because it was said before. Add nothing that was not said, and keep its language.
If the question asks again what an answer before has not answered, or says that the answer was wrong, the query must \
say what was missing, in other words than the ones that have failed.
If the question is about something new, leave the conversation out."""


ANALYSING = """say in one sentence what `question`, the last one of `conversation`, wants and what of the conversation \
matters to it, and name the turns that are needed to answer it.
If the question is about something new, name none."""


class Standalone(BaseModel):
    """What the model would search for."""

    query: str = Field(min_length=1, description="The query, complete by itself")


class Understanding(BaseModel):
    """What it takes the question to mean."""

    analysis: str = Field("", description="In one sentence: what is wanted, and what of the conversation matters")
    indices_of_related_messages: list[int] = Field(
        default_factory=list, description="The `index` of each turn that is needed to answer"
    )


async def run(context: TransformContext, _options: NoOptions) -> Rewritten:
    """The queries as they are where nothing was said before, and where several things are asked.

    The query is all that a search waits for; the analysis, which is longer, is written beside it.
    """
    turns = conversation(context.messages)
    question = context.question
    if question is None or all(turn["content"] == question[-TURN_CHARACTERS:] for turn in turns):
        return Rewritten(context.queries)
    material = {"conversation": turns, "question": question}
    analysis = context.course.beside(_analysis(context, material)) if context.analysed else None
    answer = await context.ask(TASK, material, Standalone)
    queries = tidied([answer.query]) if answer else []
    if not queries:
        return Rewritten(context.queries)
    return Rewritten(queries, Reformulation(queries[0]), analysis)


async def _analysis(context: TransformContext, material: Mapping[str, Any]) -> Analysis:
    """Where the model cannot say what matters, everything may."""
    shown = [turn["index"] for turn in material["conversation"]]
    found = await context.ask(ANALYSING, material, Understanding)
    if found is None:
        return Analysis("", shown)
    related = sorted(set(shown).intersection(found.indices_of_related_messages))
    return Analysis(found.analysis.replace("\0", " ").strip(), related)


TRANSFORMER = Transformer(
    "reformulate",
    "One query of a whole conversation; by default for `messages`, where a chat model is configured.",
    NoOptions,
    run,
    looks=False,
)
