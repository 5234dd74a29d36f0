"""In which languages words are analysed: in the one that is said, or each document in its own."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from app.lexical.analyzer import DEFAULT_LANGUAGE, get_analyzer, get_auto_analyzer_id
from app.lexical.detection import detect_language
from app.lexical.packed_entries import PackedEntries
from app.lexical.weights import MAX_TERMS, LexicalEntry, TooManyTerms, compute_salt, compute_term_id, iterate_entries
from app.text_normalization import normalize_text
from app.threads import raise_if_cancelled

AUTO = "auto"
"""The setting that leaves it to the text."""

# Of a text an analyzer makes at most so many: bigrams, or an identifier's parts beside its two or three wholes.
MAX_TERMS_PER_CHARACTER = 2
# By so many stop words a query is rather in one language than in another.
MIN_STOP_WORD_MARGIN = 2
_PUNCTUATION = ".,:;!?\"'()[]…„“”«»¿¡"


def get_analyzer_id(setting: str) -> str:
    """What a search index's identity says of its words. Raises InvalidInputError for a language without an analyzer."""
    return get_auto_analyzer_id() if setting == AUTO else get_analyzer(setting).name


def resolve_document_language(setting: str, text: str) -> str:
    """The language that a document is analysed in: the one that is set, else that of its text, else the default."""
    return (detect_language(text) or DEFAULT_LANGUAGE) if setting == AUTO else setting


def build_lexical_entries(
    texts: Sequence[str], *, language: str, index_id: UUID, avgdl: float
) -> Sequence[LexicalEntry]:
    """The entries of a document's chunks in one search index, in their order. Raises TooManyTerms, CancelledError."""
    return PackedEntries(iterate_entries(_tokenize_texts(texts, language), salt=compute_salt(index_id), avgdl=avgdl))


def _tokenize_texts(texts: Sequence[str], language: str) -> Iterator[Sequence[str]]:
    """Text by text: the tokens of all of them take many times the memory of the texts."""
    tokenize = get_analyzer(language).tokenize
    for text in texts:
        raise_if_cancelled()
        yield tokenize(text)


def check_term_limit(texts: Sequence[str], *, setting: str, document_text: str) -> None:
    """Raise TooManyTerms where the entries of these passages of ``document_text`` will.

    Only those that are long enough for it are analysed; mostly there is none, and nobody asks for the language.
    """
    long_indexes = [
        position
        for position, text in enumerate(texts)
        if MAX_TERMS_PER_CHARACTER * len(normalize_text(text)) > MAX_TERMS
    ]
    if not long_indexes:
        return
    language = resolve_document_language(setting, document_text)
    for index in long_indexes:
        terms = len(set(map(compute_term_id, get_analyzer(language).tokenize(texts[index]))))
        if terms > MAX_TERMS:
            raise TooManyTerms(index, terms)


def tokenize_query(languages: Sequence[str], text: str) -> list[str]:
    """The terms of a query in any of the languages, once each: so it finds what was analysed in each of them."""
    if len(languages) > 1:
        text = _remove_query_stop_words(languages, normalize_text(text))
    return list(dict.fromkeys(token for language in languages for token in get_analyzer(language).tokenize(text)))


def remove_stop_words(language: str, text: str) -> str:
    """The words that are no stop words of the language; all, where there are none."""
    stops = get_analyzer(language).stop_words
    words = [word.strip(_PUNCTUATION) for word in text.split()]
    return " ".join(word for word in words if word and word.casefold() not in stops) or text


def _remove_query_stop_words(languages: Sequence[str], text: str) -> str:
    """A query without the words that mean nothing in its own language, as far as that can be told.

    Where German quotes English, "the" is a rare word, which would weigh more than what is asked for. So a stop word
    goes, unless it is none in a language that has almost as many of the query's words as stop words: "die" asks for
    deaths, "die Kündigung der Wohnung" does not.
    """
    words = [(word, word.casefold().strip(_PUNCTUATION)) for word in text.split()]
    lists = [get_analyzer(language).stop_words for language in languages]
    counts = [sum(bare in each for _, bare in words) for each in lists]

    def is_stop_word(bare: str) -> bool:
        stops = [count for each, count in zip(lists, counts, strict=True) if bare in each]
        others = [count for each, count in zip(lists, counts, strict=True) if bare not in each]
        return max(stops, default=0) - max(others, default=0) >= MIN_STOP_WORD_MARGIN

    remaining = [word for word, bare in words if not is_stop_word(bare)]
    return " ".join(remaining) or text
