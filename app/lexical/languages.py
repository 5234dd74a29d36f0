"""Languages in which texts are analyzed: one fixed language, or the detected language of each document."""

from collections.abc import Iterator, Sequence
from itertools import chain
from uuid import UUID

from app.lexical.analyzer import CURRENT_VERSION, DEFAULT_LANGUAGE
from app.lexical.analyzers import get_analyzer
from app.lexical.detection import detect_language
from app.lexical.packed_entries import PackedEntries
from app.lexical.weights import MAX_TERMS, LexicalEntry, TooManyTerms, compute_salt, compute_term_id, iterate_entries
from app.text_normalization import fold_text, normalize_text
from app.threads import raise_if_cancelled

AUTO = "auto"
"""Setting that detects the language of each document."""

# Maximum number of terms for one character: bigrams, or the parts of an identifier and its whole forms.
MAX_TERMS_PER_CHARACTER = 3
# Number of stop words by which one language must exceed another to count as the language of a query.
MIN_STOP_WORD_MARGIN = 2
_PUNCTUATION = ".,:;!?\"'()[]…„“”«»¿¡"


def get_analyzer_id(setting: str, version: int = CURRENT_VERSION) -> str:
    """Return the analyzer id that a search index stores in its identity.

    Args:
        setting: Language of the knowledge base, or ``AUTO``.
        version: Version of the analyzer.

    Raises:
        InvalidInputError: The language has no analyzer.
    """
    return f"{AUTO}-v{version}" if setting == AUTO else get_analyzer(setting, version).name


def resolve_document_language(setting: str, text: str) -> str:
    """Return the language of a document: the fixed language, else the detected language, else the default."""
    return (detect_language(text) or DEFAULT_LANGUAGE) if setting == AUTO else setting


def build_lexical_entries(
    texts: Sequence[str], *, language: str, index_id: UUID, avgdl: float, version: int = CURRENT_VERSION
) -> Sequence[LexicalEntry]:
    """Build the lexical entries of a document's chunks in one search index, in the order of ``texts``.

    Args:
        texts: Texts of the chunks.
        language: Language of the document.
        index_id: Id of the search index.
        avgdl: Fixed average length of the search index, in terms.
        version: Version of the analyzer of the search index.

    Raises:
        TooManyTerms: A chunk has too many different terms.
        CancelledError: The caller was cancelled.
    """
    return PackedEntries(
        iterate_entries(_tokenize_texts(texts, language, version), salt=compute_salt(index_id), avgdl=avgdl)
    )


def _tokenize_texts(texts: Sequence[str], language: str, version: int) -> Iterator[Sequence[str]]:
    """Yield the tokens of one text at a time: the tokens of all texts take many times the memory of the texts."""
    tokenize = get_analyzer(language, version).tokenize_document
    for text in texts:
        raise_if_cancelled()
        yield tokenize(text)


def check_term_limit(texts: Sequence[str], *, setting: str, document_text: str, version: int = CURRENT_VERSION) -> None:
    """Check that no chunk has too many different terms for a lexical entry.

    Only chunks that are long enough to exceed the limit are analyzed. Most documents have no such chunk, and then their
    language is not detected.

    Args:
        texts: Texts of the document's chunks.
        setting: Language of the knowledge base, or ``AUTO``.
        document_text: Text of the whole document, for language detection.
        version: Version of the analyzer of the search index.

    Raises:
        TooManyTerms: A chunk has more than ``MAX_TERMS`` different terms.
    """
    long_indexes = [
        position for position, text in enumerate(texts) if MAX_TERMS_PER_CHARACTER * len(fold_text(text)) > MAX_TERMS
    ]
    if not long_indexes:
        return
    language = resolve_document_language(setting, document_text)
    for index in long_indexes:
        terms = len(set(map(compute_term_id, get_analyzer(language, version).tokenize_document(texts[index]))))
        if terms > MAX_TERMS:
            raise TooManyTerms(index, terms)


def tokenize_query(languages: Sequence[str], text: str, version: int = CURRENT_VERSION) -> list[str]:
    """Return the distinct terms of a query in all the languages, so that it matches documents of each language.

    In a language in which the query has only stop words, it searches for the stop words. A single lowercase word does
    so only if it is a stop word of all the languages: "die" is an English verb too.

    Args:
        languages: Languages of the documents.
        text: Text of the query.
        version: Version of the analyzer of the search index.
    """
    if len(languages) > 1:
        text = _remove_query_stop_words(languages, normalize_text(text))
    analyzers = [get_analyzer(language, version) for language in languages]
    term_lists = [analyzer.tokenize(text) for analyzer in analyzers]
    if not any(term_lists) or len(text.split()) > 1 or not text.islower():
        pairs = zip(analyzers, term_lists, strict=True)
        term_lists = [terms or analyzer.tokenize_stop_words(text) for analyzer, terms in pairs]
    return list(dict.fromkeys(chain.from_iterable(term_lists)))


def remove_stop_words(language: str, text: str) -> str:
    """Return a text without the stop words of a language, or the whole text if it has only stop words."""
    stops = get_analyzer(language).stop_words
    words = [word.strip(_PUNCTUATION) for word in text.split()]
    return " ".join(word for word in words if word and word.casefold() not in stops) or text


def _remove_query_stop_words(languages: Sequence[str], text: str) -> str:
    """Remove the stop words of the query's own language, if that language can be recognized.

    In a German corpus with English quotes, "the" is a rare word and would outweigh the real query terms. A stop word is
    removed only if its language has clearly more stop words in the query than every language without it. For example,
    "die" is removed from "die Kündigung der Wohnung", but it stays if it is the whole query.
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
