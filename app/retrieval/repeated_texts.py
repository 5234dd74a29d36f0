"""Texts that are already in a conversation: messages of agents and tools that repeat a hit, without a model.

Both texts are compared as sequences of words, so white space, punctuation, Markdown and citation marks do not matter.
The time is linear in the length of the conversation and of the compared texts.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from app.retrieval.fusion.score_fusion import ORDER_STEP
from app.retrieval.types import Hit, Message, RepeatPolicy, SearchRequest
from app.text_normalization import fold_text

REPEATING_ROLES = frozenset({"agent", "assistant", "tool", "system"})
"""Roles whose messages may contain earlier results. A text of a user or a customer is part of a question."""

WINDOW_WORDS = 6
"""Number of adjacent words that must stand in the conversation in the same order."""

MIN_SHARE = 0.9
"""Minimum share of the words of a text that such windows cover."""

# Scripts without spaces: each character counts as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[^\\W_{_UNSPACED}]+|[{_UNSPACED}]")
# Citation marks: [1], [2, 3], [^4], and those of assistants, such as 【4†source】; targets of Markdown links.
_MARK = re.compile(
    r"\[\^?\d{1,4}(?:[ ,;–-]{1,3}\d{1,4}){0,9}\]|\u3010[^\u3010\u3011]{0,80}\u3011|(?<=\])\([^()\s]{0,2000}\)"
)
# Escapes in JSON, since tools return their results as JSON.
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MAX_ESCAPE_LEVELS = 2
_BASE = np.uint64(0x9E3779B97F4A7C15)

MAX_CHARACTERS = 1_000_000
"""Maximum number of characters of a conversation that are compared, the newest: 0.15 to 1 us each."""

# Longer texts are split into words in a thread, so that other requests do not wait. The interpreter serves other
# threads only between two pieces.
_MAX_INLINE_CHARACTERS = 20_000
_PIECE_CHARACTERS = 20_000

Hashes = npt.NDArray[np.uint64]


@dataclass(slots=True)
class RepeatedTexts:
    """Words of the messages of a conversation that may repeat a text.

    Attributes:
        word_ids: Number of each word of the messages.
        words: Numbers of the words, in their order. A gap between two messages has a number that no word has.
    """

    word_ids: dict[str, int]
    words: Hashes
    _windows: dict[int, Hashes] = field(default_factory=dict)

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> "RepeatedTexts | None":
        """Collect the words of the messages of agents and tools; None if there are none.

        Args:
            messages: Messages of the conversation, oldest first. Only the newest ``MAX_CHARACTERS`` characters count.
        """
        word_ids: dict[str, int] = {}
        numbers: list[int] = []
        for content in _select_newest(messages):
            for text in _list_readings(content):
                numbers.extend(word_ids.setdefault(word, len(word_ids) + 2) for word in _split_words(text))
                numbers.append(1)
        return cls(word_ids, np.array(numbers, np.uint64)) if word_ids else None

    def contains(self, text: str) -> bool:
        """Return whether a text is in the conversation.

        Args:
            text: Text of a hit. A text without words is in no conversation.
        """
        numbers = [self.word_ids.get(word, 0) for word in _split_words(text)]
        size = min(WINDOW_WORDS, len(numbers))
        if size == 0 or numbers.count(0) > (1 - MIN_SHARE) * len(numbers):
            return False
        windows, hashes = self._get_windows(size), _hash_windows(np.array(numbers, np.uint64), size)
        places = np.searchsorted(windows, hashes)
        is_known = np.take(windows, places, mode="clip") == hashes if len(windows) else np.zeros(len(hashes), bool)
        starts = np.zeros(len(numbers) + 1, np.int64)
        starts[: len(is_known)] += is_known
        starts[size : size + len(is_known)] -= is_known
        covered = int(np.count_nonzero(np.cumsum(starts)[:-1]))
        return covered >= MIN_SHARE * len(numbers)

    def _get_windows(self, size: int) -> Hashes:
        """Return the hashes of all windows of the conversation, for one of at most ``WINDOW_WORDS`` sizes."""
        if size not in self._windows:
            self._windows[size] = np.unique(_hash_windows(self.words, size))
        return self._windows[size]


@dataclass(frozen=True, slots=True)
class RepeatCheck:
    """Treatment of the hits whose text is already in the conversation of a search.

    Attributes:
        policy: ``demote``: they come behind all other hits; ``exclude``: they are left out.
        texts: Texts of the conversation.
        max_characters: Maximum number of characters of a hit that the caller gets; None for no limit.
        has_citations: Whether the citation of a hit is before its text and counts towards the maximum.
    """

    policy: RepeatPolicy
    texts: RepeatedTexts
    max_characters: int | None = None
    has_citations: bool = False

    @classmethod
    async def from_request(cls, request: SearchRequest) -> "RepeatCheck | None":
        """Create the check of a request; None if the request allows repeats, or if no message can contain any."""
        if request.repeat == "allow" or not request.messages:
            return None
        is_long = sum(len(message.content) for message in request.messages) > _MAX_INLINE_CHARACTERS
        texts = (
            await asyncio.to_thread(RepeatedTexts.from_messages, request.messages)
            if is_long
            else RepeatedTexts.from_messages(request.messages)
        )
        return (
            None
            if texts is None
            else cls(request.repeat, texts, request.max_text_characters, request.has_citation_prefix)
        )

    async def mark(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits, each with the information whether it repeats the conversation.

        Args:
            hits: Hits of the search. With ``exclude``, repeating hits are left out of the result.
        """
        shown = [self._get_shown_text(hit) for hit in hits]
        is_long = len(self.texts.words) + sum(map(len, shown)) > _MAX_INLINE_CHARACTERS
        repeated = await asyncio.to_thread(self._compare, shown) if is_long else self._compare(shown)
        marked = [replace(hit, is_repeated=is_repeated) for hit, is_repeated in zip(hits, repeated, strict=True)]
        return [hit for hit in marked if not hit.is_repeated] if self.policy == "exclude" else marked

    def _compare(self, texts: Sequence[str]) -> list[bool]:
        return [self.texts.contains(text) for text in texts]

    def _get_shown_text(self, hit: Hit) -> str:
        text, limit = hit.text_span.text, self.max_characters
        if limit is not None and self.has_citations:
            limit = max(0, limit - len(f"[{' '.join(hit.citation.split())}] "))
        return text[:limit]


def count_fresh(hits: Sequence[Hit]) -> int:
    """Return the number of hits that do not repeat the conversation."""
    return sum(not hit.is_repeated for hit in hits)


def put_repeats_last(hits: Sequence[Hit]) -> list[Hit]:
    """Put the hits that repeat the conversation behind all others.

    Args:
        hits: Marked hits, best first.

    Returns:
        All hits. The scores of repeating hits are below those of the others, and express only the order.
    """
    fresh, repeated = [[hit for hit in hits if hit.is_repeated is wanted] for wanted in (False, True)]
    if not fresh:
        return repeated
    floor = round(min(hit.score for hit in fresh), 6)  # so that two rounded scores never become equal
    placed = [replace(hit, score=floor - ORDER_STEP * step) for step, hit in enumerate(repeated, start=1)]
    return [*fresh, *placed]


def _select_newest(messages: Sequence[Message]) -> list[str]:
    """Return the newest texts of agents and tools, newest first, with ``MAX_CHARACTERS`` characters at most."""
    contents: list[str] = []
    remaining = MAX_CHARACTERS
    for message in reversed(messages):
        if message.role in REPEATING_ROLES and remaining > 0:
            contents.append(message.content[-remaining:])
            remaining -= len(contents[-1])
    return contents


def _list_readings(content: str) -> list[str]:
    """Return a message as it is, and without the escapes of JSON if it has any."""
    readings = [content]
    while "\\" in readings[-1] and len(readings) <= _MAX_ESCAPE_LEVELS:
        unescaped = _ESCAPE.sub(_replace_escape, readings[-1])
        if unescaped == readings[-1]:
            break
        readings.append(unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return readings


def _replace_escape(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code is not None:
        return chr(int(code, 16))
    return " " if character in "nrtbf" else str(character)


def _split_words(text: str) -> list[str]:
    """Return the words of a text, without marks, in a form in which equal words are equal strings."""
    words: list[str] = []
    start = 0
    while start < len(text):
        end = _find_piece_end(text, start)
        piece = text[start:end]
        folded = piece if piece.isascii() else fold_text(piece)
        words += _WORD.findall(_MARK.sub(" ", folded).casefold())
        start = end
    return words


def _find_piece_end(text: str, start: int) -> int:
    """Return the end of the piece that begins at ``start``: behind its last white space, or after the maximum size."""
    end = start + _PIECE_CHARACTERS
    if end >= len(text):
        return len(text)
    space = max(text.rfind(" ", start, end), text.rfind("\n", start, end))
    return end if space < 0 else space + 1


def _hash_windows(numbers: Hashes, size: int) -> Hashes:
    """Return a hash of each window of ``size`` adjacent numbers."""
    count = max(0, len(numbers) - size + 1)
    hashes = np.zeros(count, np.uint64)
    for offset in range(size):
        # Unsigned arithmetic wraps.
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _BASE + numbers[offset : offset + count]
    return hashes
