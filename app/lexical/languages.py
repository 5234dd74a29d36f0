"""In which languages words are analysed: in the one that is said, or each document in its own."""

from collections.abc import Iterator, Sequence
from uuid import UUID

from app.characters import normalize_characters
from app.lexical.analyser import DEFAULT_LANGUAGE, analyser_for, auto_name
from app.lexical.detection import detect_language
from app.lexical.packed import PackedEntries
from app.lexical.weights import MOST_TERMS, LexicalEntry, TooManyTerms, iterate_entries, salt, term_id
from app.threads import require_wanted

AUTO = "auto"
"""The setting that leaves it to the text."""

# Of a text an analyser makes at most so many: bigrams, or an identifier's parts beside its two or three wholes.
TERMS_A_CHARACTER = 2
# By so many stop words a query is rather in one language than in another.
CLEARLY = 2
_PUNCTUATION = ".,:;!?\"'()[]…„“”«»¿¡"


def identity_name(setting: str) -> str:
    """What a search index's identity says of its words. Raises InvalidInput for a language without an analyser."""
    return auto_name() if setting == AUTO else analyser_for(setting).name


def document_language(setting: str, text: str) -> str:
    """The language that a document is analysed in: the one that is set, else that of its text, else the default."""
    return (detect_language(text) or DEFAULT_LANGUAGE) if setting == AUTO else setting


def lexical_entries(texts: Sequence[str], *, language: str, index_id: UUID, avgdl: float) -> Sequence[LexicalEntry]:
    """The entries of a document's chunks in one search index, in their order. Raises TooManyTerms, CancelledError."""
    return PackedEntries(iterate_entries(_tokens(texts, language), salt=salt(index_id), avgdl=avgdl))


def _tokens(texts: Sequence[str], language: str) -> Iterator[Sequence[str]]:
    """Text by text: the tokens of all of them take many times the memory of the texts."""
    tokens = analyser_for(language).tokens
    for text in texts:
        require_wanted()
        yield tokens(text)


def require_few_terms(texts: Sequence[str], *, setting: str, whole: str) -> None:
    """Raise TooManyTerms where the entries of these passages of ``whole`` will.

    Only those that are long enough for it are analysed; mostly there is none, and nobody asks for the language.
    """
    long = [at for at, text in enumerate(texts) if TERMS_A_CHARACTER * len(normalize_characters(text)) > MOST_TERMS]
    if not long:
        return
    language = document_language(setting, whole)
    for index in long:
        terms = len(set(map(term_id, analyser_for(language).tokens(texts[index]))))
        if terms > MOST_TERMS:
            raise TooManyTerms(index, terms)


def query_tokens(languages: Sequence[str], text: str) -> list[str]:
    """The terms of a query in any of the languages, once each: so it finds what was analysed in each of them."""
    if len(languages) > 1:
        text = _without_stop_words(languages, normalize_characters(text))
    return list(dict.fromkeys(token for language in languages for token in analyser_for(language).tokens(text)))


def meaningful(language: str, text: str) -> str:
    """The words that are no stop words of the language; all, where there are none."""
    stops = analyser_for(language).stop_words
    words = [word.strip(_PUNCTUATION) for word in text.split()]
    return " ".join(word for word in words if word and word.casefold() not in stops) or text


def _without_stop_words(languages: Sequence[str], text: str) -> str:
    """A query without the words that mean nothing in its own language, as far as that can be told.

    Where German quotes English, "the" is a rare word, which would weigh more than what is asked for. So a stop word
    goes, unless it is none in a language that has almost as many of the query's words as stop words: "die" asks for
    deaths, "die Kündigung der Wohnung" does not.
    """
    words = [(word, word.casefold().strip(_PUNCTUATION)) for word in text.split()]
    lists = [analyser_for(language).stop_words for language in languages]
    counts = [sum(bare in each for _, bare in words) for each in lists]

    def means_nothing(bare: str) -> bool:
        stops = [count for each, count in zip(lists, counts, strict=True) if bare in each]
        others = [count for each, count in zip(lists, counts, strict=True) if bare not in each]
        return max(stops, default=0) - max(others, default=0) >= CLEARLY

    left = [word for word, bare in words if not means_nothing(bare)]
    return " ".join(left) or text
