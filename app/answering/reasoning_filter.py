"""A model's text without the thoughts before it, as plain servers send those of reasoning models: in <think> tags."""

from collections.abc import AsyncGenerator, AsyncIterator

from app.inference.chat.structured_output import THOUGHTS_END, THOUGHTS_START


async def strip_reasoning(pieces: AsyncIterator[str]) -> AsyncGenerator[str]:
    """The pieces behind the thoughts; all of them, where the text does not begin with any."""
    buffered: list[str] = []
    start = ""  # without the white space before it: at most one piece longer than the tag
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
    """Nothing, where the thoughts do not end."""
    while THOUGHTS_END not in buffered:
        piece = await anext(pieces, None)
        if piece is None:
            return
        buffered = buffered[1 - len(THOUGHTS_END) :] + piece  # an end may come in two pieces
    if text := buffered.partition(THOUGHTS_END)[2].lstrip():
        yield text
    async for piece in pieces:
        yield piece
