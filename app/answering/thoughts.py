"""A model's text without the thoughts before it, as plain servers send those of reasoning models: in <think> tags."""

from collections.abc import AsyncGenerator, AsyncIterator

from app.inference.structured import END_OF_THOUGHTS, THOUGHTS


async def without_thoughts(pieces: AsyncIterator[str]) -> AsyncGenerator[str]:
    """The pieces behind the thoughts; all of them, where the text does not begin with any."""
    held: list[str] = []
    start = ""  # without the white space before it: at most one piece longer than the tag
    async for piece in pieces:
        held.append(piece)
        start = start + piece if start else piece.lstrip()
        if start.startswith(THOUGHTS):
            break
        if not THOUGHTS.startswith(start):
            yield "".join(held)
            async for rest in pieces:
                yield rest
            return
    else:
        if held:
            yield "".join(held)
        return
    async for rest in _behind("".join(held), pieces):
        yield rest


async def _behind(held: str, pieces: AsyncIterator[str]) -> AsyncGenerator[str]:
    """Nothing, where the thoughts do not end."""
    while END_OF_THOUGHTS not in held:
        piece = await anext(pieces, None)
        if piece is None:
            return
        held = held[1 - len(END_OF_THOUGHTS) :] + piece  # an end may come in two pieces
    if spoken := held.partition(END_OF_THOUGHTS)[2].lstrip():
        yield spoken
    async for piece in pieces:
        yield piece
