"""The terms of a query in several languages, and the names that an index stores."""

import random
import unicodedata
from uuid import UUID

import pytest

from app.errors import InvalidInputError
from app.ingestion.parsers.toolkit.text_cleanup import clean_text
from app.lexical.analyzers import get_analyzer
from app.lexical.languages import (
    AUTO,
    MAX_TERMS_PER_CHARACTER,
    build_lexical_entries,
    check_term_limit,
    get_analyzer_id,
    remove_stop_words,
    resolve_document_language,
    tokenize_query,
)
from app.lexical.weights import MAX_TERMS, TooManyTerms, build_entries, compute_salt

INDEX = UUID(int=7)


def test_get_analyzer_id_auto_is_separate() -> None:
    assert get_analyzer_id("german") == "german-v2"
    assert get_analyzer_id(AUTO) == "auto-v2"
    with pytest.raises(InvalidInputError):
        get_analyzer_id("klingon")


@pytest.mark.parametrize(
    ("setting", "text", "language"),
    [
        ("french", "The text does not matter where the language is set.", "french"),
        (AUTO, "Le texte décide quand la langue n'est pas fixée.", "french"),
        (AUTO, "12 34 56", "english"),
    ],
)
def test_resolve_document_language_uses_setting_or_text(setting: str, text: str, language: str) -> None:
    assert resolve_document_language(setting, text) == language


def test_build_lexical_entries_uses_language() -> None:
    texts = ["Die Häuser der Stadt", "Ein Haus"]
    tokens = [get_analyzer("german").tokenize_document(text) for text in texts]
    expected = build_entries(tokens, salt=compute_salt(INDEX), avgdl=50.0)
    assert list(build_lexical_entries(texts, language="german", index_id=INDEX, avgdl=50.0)) == expected


@pytest.mark.parametrize(
    ("languages", "query", "terms"),
    [
        ([], "house", []),
        (["english"], "The houses, the mice!", ["hous", "mice"]),
        (["english", "german"], "Häuser", ["häuser", "haus"]),
        (["english", "japanese"], "houses 東京都", ["hous", "東京", "京都"]),
        # A word that has a meaning in one of the languages is searched.
        (["english", "german"], "die", ["die"]),
        (["english", "german"], "IT", ["=it", "it"]),
        (["english", "german"], "The Who", ["=the", "=who", "the", "who"]),
        (["english"], "it", ["=it"]),
        (["english", "german"], "world war", ["world", "war"]),
        (["english", "german"], "war in Ukraine", ["war", "ukrain"]),
        # A stop word of the query's language is not searched, though it is rare in the other languages.
        (["english", "german"], "the history of the war", ["histori", "war", "history"]),
        (["english", "german"], "Wie ist die Frist der Kündigung?", ["frist", "kündigung", "kundig"]),
        (
            ["danish", "english", "norwegian"],
            "hvem har skrevet det, og er det en bog",
            ["hvem", "skrev", "bog", "skrevet"],
        ),
        # Unless the query has no other word.
        (["english", "german"], "to be or not to be", ["=to", "=be", "=or", "=not", "to", "be", "or", "not"]),
    ],
)
def test_tokenize_query_in_all_languages_of_index(languages: list[str], query: str, terms: list[str]) -> None:
    assert tokenize_query(languages, query) == terms


@pytest.mark.parametrize("language", ["english", "german", "chinese"])
def test_tokenize_query_one_language_equals_its_analyzer(language: str) -> None:
    query = "What is the follow-up of AB-1234, and the Häuser of 東京都?"
    assert tokenize_query([language], query) == list(dict.fromkeys(get_analyzer(language).tokenize(query)))


@pytest.mark.parametrize(
    "text",
    [
        "Auf\u200clage Um\u200dbau",
        "ABC\u200e-123/4 QZ\u200f-77",
        "\u2067שלום\u2069 \u202bQZ-77\u202c",
        "co\u00adoperation zero\u200bwidth in\u2063visible",
        # joiners that change the meaning
        "\u0915\u094d\u200d\u092f\u093e \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f469\u200d\U0001f467 family",
    ],
    ids=ascii,
)
def test_tokenize_query_equals_cleaned_text(text: str) -> None:
    for languages in (["english"], ["english", "german", "hindi"]):
        assert tokenize_query(languages, text) == tokenize_query(languages, clean_text(text)) != []


def test_lexical_entries_of_pasted_and_typed_title_are_equal() -> None:
    """Title and provided chunks are stored as they were sent."""
    sent, typed = build_lexical_entries(["Auf\u200clage", "Auflage"], language="german", index_id=INDEX, avgdl=50.0)
    assert sent == typed


@pytest.mark.parametrize(
    ("language", "text", "left"),
    [
        ("english", "How long is the parental leave?", "long parental leave"),
        ("german", "Wie lang ist die Elternzeit?", "lang Elternzeit"),
        ("english", "What is it?", "What is it?"),
        ("english", "(RFC-2119), and v1.2!", "RFC-2119 v1.2"),
        ("english", "...", "..."),
    ],
)
def test_remove_stop_words_leaves_words_with_meaning(language: str, text: str, left: str) -> None:
    assert remove_stop_words(language, text) == left


@pytest.mark.parametrize("count", [MAX_TERMS, MAX_TERMS + 1])
@pytest.mark.parametrize("kind", ["words", "bigrams"])
def test_too_many_terms_check_equals_entries(kind: str, count: int) -> None:
    texts = {
        "words": " ".join(f"w{number}" for number in range(count)),
        "bigrams": "".join(chr(0x4E00 + number) for number in range(count + 1)),
    }
    given = ["short", texts[kind]]
    if count > MAX_TERMS:
        with pytest.raises(TooManyTerms) as told:
            check_term_limit(given, setting="english", document_text="")
        assert told.value.fields == {"index": 1}
        with pytest.raises(TooManyTerms):
            build_lexical_entries(given, language="english", index_id=INDEX, avgdl=50.0)
    else:
        check_term_limit(given, setting="english", document_text="")
        assert len(build_lexical_entries(given, language="english", index_id=INDEX, avgdl=50.0)[1].term_ids) == count


@pytest.mark.parametrize("language", ["english", "french", "chinese"])
def test_terms_per_character_are_limited(language: str) -> None:
    """Otherwise a text with too many terms would be found only after its embedding."""
    rng = random.Random(5)
    for alphabet in (
        "aB1-",
        "a-\u0301中",
        "v12.-",
        "aBc_.'9,",
        "한a1-B",
        "Aaé+#- ",
        "".join(map(chr, range(32, 0x3000))),
    ):
        for length in (1, 2, 3, 4, 7, 20, 200):
            for _ in range(100):
                text = "".join(rng.choices(alphabet, k=length))
                found = get_analyzer(language).tokenize(text)
                assert len(found) <= MAX_TERMS_PER_CHARACTER * len(unicodedata.normalize("NFKC", text)), text


@pytest.mark.parametrize(
    ("language", "plain", "accented", "same"),
    [
        ("spanish", "cancion", "canción", True),
        ("catalan", "cancion", "canción", True),
        ("german", "Tur", "Tür", True),
        ("greek", "τηλεφωνο", "τηλέφωνο", True),
        ("russian", "елка", "ёлка", True),
        ("english", "cafe", "café", False),
        ("french", "eleve", "élève", False),
        ("italian", "perche", "perché", False),
        ("french", "oeuvre", "œuvre", False),
        ("turkish", "izmir", "İzmir", True),
    ],
)
def test_accents_match_as_documented(language: str, plain: str, accented: str, *, same: bool) -> None:
    assert (tokenize_query([language], plain) == tokenize_query([language], accented)) is same
