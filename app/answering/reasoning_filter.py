"""Filter that removes the reasoning before an answer, which some servers send as text in <think> tags."""

from collections.abc import AsyncGenerator, AsyncIterator

from app.inference.chat.structured_output import THOUGHTS_END, THOUGHTS_START


async def strip_reasoning(pieces: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield the pieces of a text behind its reasoning. A text that does not begin with reasoning is unchanged.

    Args:
        pieces: Pieces of the model's text.
    """
    buffered: list[str] = []
    start = ""  # the beginning without white space, at most one piece longer than the tag
    async for piece in pieces:
        buffered.append(piece)
        start = start + piece if start else piece.lstrip()
        if start.startswith(THOUGHTS_START):
            break
        if not THOUGHTS_START.startswith(start):
            yield "".join(buffered)
            async for later_piece in pieces:
                yield later_piece
            return
    else:
        if buffered:
            yield "".join(buffered)
        return
    async for later_piece in _yield_after_reasoning("".join(buffered), pieces):
        yield later_piece


async def _yield_after_reasoning(buffered: str, pieces: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Yield the text behind the end of the reasoning; nothing if the reasoning does not end."""
    while THOUGHTS_END not in buffered:
        piece = await anext(pieces, None)
        if piece is None:
            return
        buffered = buffered[1 - len(THOUGHTS_END) :] + piece  # the end tag may be split between two pieces
    if text := buffered.partition(THOUGHTS_END)[2].lstrip():
        yield text
    async for piece in pieces:
        yield piece
