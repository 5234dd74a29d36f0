"""The context manager: one query that says by itself what a conversation asks last (after KIMAs)."""

from pydantic import BaseModel, Field

from app.retrieval.transformers.context import NoOptions, Rewritten, TransformContext, Transformer, tidied
from app.retrieval.transformers.prompting import TURN_CHARACTERS, conversation
from app.retrieval.types import Reformulation

TASK = """write the query that finds what answers `question`, the last one of `conversation`.
It must be understood without the conversation: put names in the place of pronouns, and say what the question leaves \
out because it was said before. Add nothing that was not said, and keep its language.
If the question asks again what an answer before has not answered, or says that the answer was wrong, the query must \
say what was missing, in other words than the ones that have failed.
If the question is about something new, leave the conversation out."""


class Standalone(BaseModel):
    """What the model understands."""

    query: str = Field(min_length=1, description="The query, complete by itself")
    analysis: str = Field("", description="In one sentence: what is wanted, and what of the conversation matters")
    indices_of_related_messages: list[int] = Field(
        default_factory=list, description="The `index` of each turn that is needed to answer"
    )


async def run(context: TransformContext, _options: NoOptions) -> Rewritten:
    """The queries as they are where nothing was said before, and where several things are asked."""
    turns = conversation(context.messages)
    question = context.question
    if question is None or all(turn["content"] == question[-TURN_CHARACTERS:] for turn in turns):
        return Rewritten(context.queries)
    answer = await context.ask(TASK, {"conversation": turns, "question": question}, Standalone)
    queries = tidied([answer.query]) if answer else []
    if answer is None or not queries:
        return Rewritten(context.queries)
    shown = {turn["index"] for turn in turns}
    related = sorted(shown.intersection(answer.indices_of_related_messages))
    return Rewritten(queries, Reformulation(queries[0], answer.analysis.replace("\0", " ").strip(), related))


TRANSFORMER = Transformer(
    "reformulate",
    "One query of a whole conversation; by default for `messages`, where a chat model is configured.",
    NoOptions,
    run,
)
