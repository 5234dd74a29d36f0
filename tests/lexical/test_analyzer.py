"""The analyzer's terms for words, identifiers, numbers and scripts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.errors import InvalidInputError
from app.lexical.analyzer import DEFAULT_LANGUAGE, Analyzer, get_analyzer, list_languages


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \n.,;!?'\"--__…", []),
        ("The running dogs were RUNNING", ["run", "dog", "run"]),
        ("the and of it", []),
        ("model's MODELS’ don't can’t we've", ["model", "model"]),
        ("T cells, vitamin C", ["t", "cell", "vitamin", "c"]),
        ("O'Brien", ["o", "brien"]),
        ("getUserById", ["getuserbyid", "get", "user", "id"]),
        ("HTTPServer parseJSON", ["httpserver", "http", "server", "parsejson", "pars", "json"]),
        ("mRNA PDFs iPhone", ["mrna", "rna", "pdfs", "iphon", "phone"]),
        ("snake_case __init__ x_y", ["snake_case", "snake", "case", "init", "x_y", "x", "y"]),
        ("AB-1234", ["ab-1234", "ab1234", "ab", "1234"]),
        ("AB1234", ["ab1234"]),
        ("follow-ups follow\u2010up followup", ["followup", "follow", "up", "followup", "follow", "followup"]),
        ("v2.3.1 2.3.1", ["v2.3.1", "2.3.1", "v2", "2.3.1"]),
        ("app.settings.url", ["app.settings.url", "app", "set", "url"]),
        ("name@example.com", ["name", "example.com", "exampl", "com"]),
        ("C++ C# F# 5+ #7", ["c++", "c#", "f#", "5", "7"]),
        ("U.S. e.g. Ph.D", ["us", "eg", "ph.d", "ph", "d"]),
        ("1,000,000 3.14 3,14 12,5 0.5 192.168.0.1", ["1000000", "3.14", "3,14", "12,5", "0.5", "192.168.0.1"]),
        ("one,two 1,2nd", ["one", "two", "1,2nd", "2nd"]),
        ("2024-05-01", ["2024-05-01", "2024", "05", "01"]),
        ("co\u00adoperation ﬁne ＦＵＬＬ ①", ["cooper", "fine", "full", "1"]),
        ("東京都へ", ["東京", "京都", "都へ"]),
        ("Python入門 v2", ["python", "入門", "v2"]),
        ("猫 ｶﾀｶﾅ", ["猫", "カタ", "タカ", "カナ"]),
        ("안녕하세요", ["안녕", "녕하", "하세", "세요"]),
        ("ไทย", ["ไท", "ทย"]),
        ("हिन्दी", ["हिन्दी"]),
    ],
)
def test_tokenize_english_text(text: str, terms: list[str]) -> None:
    assert get_analyzer().tokenize(text) == terms


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("german", "Die Häuser der Straße", ["haus", "strass"]),
        ("french", "l'homme n’est pas dans les maisons", ["homm", "maison"]),
        ("spanish", "las casas de los niños", ["cas", "niñ"]),
        ("italian", "dell'acqua e le case", ["acqua", "cas"]),
        ("dutch", "de huizen van het dorp", ["huis", "dorp"]),
        ("portuguese", "as casas são brancas", ["cas", "branc"]),
        ("russian", "Дома и в домах", ["дом", "дом"]),
        ("swedish", "och flickorna på husen", ["flick", "hus"]),
    ],
)
def test_tokenize_other_languages(language: str, text: str, terms: list[str]) -> None:
    assert get_analyzer(language).tokenize(text) == terms


def test_analyzer_name_identifies_language_and_version() -> None:
    assert get_analyzer().name == "english-v1"
    assert get_analyzer("german").name == "german-v1"
    assert get_analyzer(DEFAULT_LANGUAGE) is get_analyzer()


@pytest.mark.parametrize("language", ["", "klingon", "English", "porter"])
def test_get_analyzer_unknown_language_lists_languages(language: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        get_analyzer(language)
    assert caught.value.loc == ("body", "language")
    assert DEFAULT_LANGUAGE in caught.value.fields["supported"]
    assert "german" in str(caught.value)


def test_tokenize_every_language_reads_every_script() -> None:
    text = "Running v2.3.1 getUser Здравствуйте 東京都 مرحبا हिन्दी 3.14 l'eau"
    for language in list_languages():
        terms = get_analyzer(language).tokenize(text)
        assert {"v2.3.1", "東京", "3.14"} <= set(terms)
        assert "" not in terms


def _texts() -> Iterator[str]:
    for n in range(3_000):
        yield f"running word{n} item_{n} Zürich{n} 東京{n}"


def test_tokenize_more_words_than_cache_size_is_stable() -> None:
    analyzer = Analyzer("english")
    words = [f"Running-{n}" for n in range(45_000)]
    first = [analyzer.tokenize(word) for word in words]
    assert [analyzer.tokenize(word) for word in words[::500]] == first[::500]
    assert first[44_999] == ["running-44999", "running44999", "run", "44999"]


def test_tokenize_endless_word_gives_short_terms() -> None:
    analyzer = get_analyzer()
    for word in ("x" * 100_000, "x-" * 50_000 + "1", "a.b_" * 20_000, "xY" * 50_000, "1" * 100_000):
        assert max(map(len, analyzer.tokenize(word))) <= 256


def test_tokenize_in_threads_is_deterministic() -> None:
    shared, texts = Analyzer("english"), list(_texts())
    expected = [Analyzer("english").tokenize(text) for text in texts[:50]]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: [shared.tokenize(text) for text in texts], range(4)))
    assert all(result == results[0] for result in results)
    assert results[0][:50] == expected
