"""Tokenizer of multilingual-e5-small: the pieces of each word that have the highest total score.

The algorithm is the unigram model of Kudo (2018, "Subword Regularization"), with Viterbi's search for the best pieces.
The library "tokenizers" has the same algorithm, but its index of 250,002 pieces takes some 260 MB and 0.6 seconds.
This one takes about 40 MB, and is nearly as fast, because most words are in its cache.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from app.inference.embedding.e5_file import BEGIN_ID, END_ID, MASK_ID, UNKNOWN_ID, PieceVocabulary

WORD_START = "\u2581"
MAX_WORD_CHARACTERS = 16_384
"""Length at which a word is cut. The first 512 tokens never have more characters, because a piece has at most 16."""
MAX_PART_CHARACTERS = 128 * 1024
MAX_CACHED_WORDS = 20_000
MAX_CACHED_CHARACTERS = 32
UNKNOWN_PENALTY = 10.0

# The normalisation is NFKC with these exceptions, as in the original's map of characters. Control characters are
# removed. Separators and marks without width become spaces. A full-width tilde stays, as a noncharacter during NFKC.
_TILDE, _TILDE_MARK, _BARRIER = "\uff5e", "\ufdd0", "\ufdd1"
_REMOVED = [*range(0x01, 0x09), 0x0B, *range(0x0E, 0x20), 0x7F, 0x8F, 0x9F]
_SPACES = [0x09, 0x0A, 0x0C, 0x0D, 0x1680, *range(0x200B, 0x2010), 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD]
_EXCEPTIONS: dict[int, str | None] = {
    **dict.fromkeys(_REMOVED),
    **dict.fromkeys(_SPACES, " "),
    ord(_TILDE): _TILDE_MARK,
    ord(_TILDE_MARK): None,
    ord(_BARRIER): None,
}
# Python sorts a run of combining marks in quadratic time, so a noncharacter divides long runs during NFKC. The pattern
# also matches other symbols, where the noncharacter changes nothing. Half-width voice marks are letters to Python.
_MARK = r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f])"
_MARK_RUN = re.compile(rf"({_MARK}{{30}})(?={_MARK})")
_CUT_BEFORE = frozenset(" \t\n\r")
_SPACE_RUN = re.compile(" {2,}")


class E5Tokenizer:
    """Tokenizer with the vocabulary of the weights. Special tokens in a text are ordinary characters."""

    special_tokens = 2

    def __init__(self, vocabulary: PieceVocabulary) -> None:
        """Create the index of pieces. The call takes about 0.1 seconds.

        Args:
            vocabulary: Pieces with their scores.
        """
        special_ids = range(UNKNOWN_ID + 1)
        self._ids = {
            piece: id_
            for id_, piece in enumerate(vocabulary.pieces)
            if piece and id_ not in special_ids and id_ != MASK_ID
        }
        self._scores = vocabulary.scores
        self._unknown_score = min(vocabulary.scores) - UNKNOWN_PENALTY
        self._max_lengths: dict[str, int] = {}
        for piece in self._ids:
            first = piece[0]
            self._max_lengths[first] = max(len(piece), self._max_lengths.get(first, 1))
        self._cache: dict[str, tuple[int, ...]] = {}

    def encode(self, text: str, max_tokens: int) -> list[int]:
        """Return the token ids of a text with the special tokens.

        Args:
            text: The text, with the prefix of a query or of a document.
            max_tokens: Maximum number of ids, special tokens included. Further tokens are omitted.
        """
        ids = [BEGIN_ID]
        for word in _split_words(text):
            ids += self._encode_word(word)
            if len(ids) >= max_tokens:
                break
        return [*ids[: max_tokens - 1], END_ID]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens."""
        return [sum(len(self._encode_word(word)) for word in _split_words(text)) for text in texts]

    def _encode_word(self, word: str) -> tuple[int, ...]:
        if len(word) > MAX_CACHED_CHARACTERS:
            return self._find_best_pieces(word)
        ids = self._cache.get(word)
        if ids is None:
            ids = self._find_best_pieces(word)
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache.clear()
            self._cache[word] = ids
        return ids

    def _find_best_pieces(self, word: str) -> tuple[int, ...]:
        """Return the ids of the pieces with the highest total score (Viterbi's algorithm).

        The time is linear: at most 16 pieces begin at a character.
        """
        length = len(word)
        best_scores = [float("-inf")] * (length + 1)
        best_scores[0] = 0.0
        starts = [0] * (length + 1)
        best_ids = [UNKNOWN_ID] * (length + 1)
        find_id, scores = self._ids.get, self._scores
        for start, character in enumerate(word):
            score_here = best_scores[start]
            last = min(length, start + self._max_lengths.get(character, 1))
            if character not in self._ids and score_here + self._unknown_score > best_scores[start + 1]:
                best_scores[start + 1], starts[start + 1] = score_here + self._unknown_score, start
                best_ids[start + 1] = UNKNOWN_ID
            for end in range(start + 1, last + 1):
                id_ = find_id(word[start:end])
                if id_ is not None and score_here + scores[id_] > best_scores[end]:
                    best_scores[end], starts[end], best_ids[end] = score_here + scores[id_], start, id_
        return _collect_ids(starts, best_ids)


def _collect_ids(starts: Sequence[int], best_ids: Sequence[int]) -> tuple[int, ...]:
    """Return the ids on the best path from the end to the begin. Neighbouring unknown characters are one token."""
    ids: list[int] = []
    end = len(starts) - 1
    while end:
        id_ = best_ids[end]
        if id_ != UNKNOWN_ID or not ids or ids[-1] != UNKNOWN_ID:
            ids.append(id_)
        end = starts[end]
    return tuple(reversed(ids))


def _split_words(text: str) -> Iterator[str]:
    """Yield the normalised words of a text, each with a mark at its begin. A very long word is cut."""
    for part in _split_parts(text):
        normalized = normalize(part)
        if not normalized:
            continue
        for word in normalized.removeprefix(" ").split(" "):
            marked = WORD_START + word
            for start in range(0, len(marked), MAX_WORD_CHARACTERS):
                yield marked[start : start + MAX_WORD_CHARACTERS]


def _split_parts(text: str) -> Iterator[str]:
    """Yield a text in parts that end before white space, so that the copies of a long text stay small.

    A long text without white space is cut anywhere.
    """
    start = 0
    while len(text) - start > MAX_PART_CHARACTERS:
        max_end = start + MAX_PART_CHARACTERS
        end = next(
            (
                position
                for position in range(max_end, max_end - MAX_WORD_CHARACTERS, -1)
                if text[position] in _CUT_BEFORE and text[position - 1] not in _CUT_BEFORE
            ),
            max_end,
        )
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def normalize(text: str) -> str:
    """Return the text in NFKC, without control characters and with single spaces."""
    mapped = text.translate(_EXCEPTIONS)
    if not mapped.isascii():
        divided = _MARK_RUN.sub(rf"\1{_BARRIER}", mapped)
        composed = unicodedata.normalize("NFKC", divided)
        mapped = composed.replace(_BARRIER, "").replace(_TILDE_MARK, _TILDE)
    return _SPACE_RUN.sub(" ", mapped)
