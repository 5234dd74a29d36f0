"""The analyzer's terms for words, identifiers, numbers and scripts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.errors import InvalidInputError
from app.lexical.analyzer import DEFAULT_LANGUAGE, Analyzer
from app.lexical.analyzers import get_analyzer, list_languages

# A text that is long enough for the rules of ordinary chunks.
LONG = "Winter brings snow and rain, so people heat rooms, wear coats, drink tea, read books and wait for spring days."


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \n.,;!?'\"--__…", []),
        ("The running dogs were RUNNING", ["run", "dog", "run"]),
        ("the and of it", []),
        ("model's MODELS’ don't can’t we've", ["model", "model"]),
        ("T cells, vitamin C", ["t", "cell", "vitamin", "c"]),
        ("O'Brien", ["obrien", "o", "brien"]),
        ("getUserById", ["getuserbyid", "get", "user", "id"]),
        ("HTTPServer parseJSON", ["httpserver", "http", "server", "parsejson", "pars", "json"]),
        ("mRNA PDFs iPhone", ["mrna", "rna", "pdfs", "iphon", "phone"]),
        ("snake_case __init__ x_y", ["snake_case", "snake", "case", "init", "x_y", "x", "y"]),
        ("AB-1234", ["ab-1234", "ab1234", "ab", "1234"]),
        ("AB1234", ["ab1234", "ab", "1234"]),
        ("follow-ups follow\u2010up followup", ["followup", "follow", "up", "followup", "follow", "followup"]),
        ("v2.3.1 2.3.1", ["v2.3.1", "2.3.1", "v2", "2.3.1"]),
        ("app.settings.url", ["app.settings.url", "app", "set", "url"]),
        ("name@example.com", ["name", "example.com", "exampl", "com"]),
        ("C++ C# F# 5+ #7", ["c++", "c#", "f#", "5", "7"]),
        ("U.S. e.g. Ph.D", ["us", "eg", "ph.d", "phd", "ph", "d"]),
        ("1,000,000 3.14 3,14 12,5 0.5 192.168.0.1", ["1000000", "3.14", "3.14", "12.5", "0.5", "192.168.0.1"]),
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


@pytest.mark.parametrize(
    ("query", "text"),
    [
        # signs and digits
        ("c++", "written in C++17"),
        ("C++17", "written in C++ 17"),
        ("C#8", "the language C# in version 8"),
        ("item 7", "see item#7"),
        ("10 mg", "take 10mg twice"),
        ("10mg", "take 10 mg twice"),
        ("2.5 kg", "weighs 2.5kg"),
        ("2,5kg", "weighs 2.5 kg"),
        ("ISO 9001", "certified by ISO9001"),
        ("ISO9001", "certified by ISO 9001"),
        ("python 3", "runs on python3"),
        ("python3", "runs on Python 3"),
        ("5 g", "a 5g network"),
        ("25 m²", "a flat of 25m²"),
        ("1970", "in the 1970s"),
        # versions, dates and numbers
        ("1.0.0", "released as v1.0.0-rc1"),
        ("2.17.1", "fixed in log4j-2.17.1.jar"),
        ("3.1", "see foo_3.1-beta.zip"),
        ("2024", "signed on 01.05.2024"),
        ("2024-05-01", "signed on 1.5.2024"),
        ("01.05.2024", "signed on 2024-05-01"),
        ("1000.50", "costs 1.000,50 EUR"),
        ("1.000,50", "costs 1,000.50 USD"),
        ("1000,50", "costs 1 000,50 EUR"),
        ("5000", "some 5 000 people"),
        ("5 000", "some 5,000 people"),
        ("5\u00a0000", "some 5000 people"),
        ("12345678", "1\u202f234\u202f567 or 12 345 678"),
        ("1000000", "1.000.000 Einwohner, 1'000'000"),
        ("1000000", "1'000'000 Franken"),
        ("100000", "Rs 1,00,000"),
        # digits of other scripts
        ("2024", "سنة ٢٠٢٤"),
        ("१२३", "number 123"),
        ("1234.5", "١٬٢٣٤٫٥"),
        ("42", "๔๒ baht"),
        ("7", "۷"),
        # names with signs
        ("OBrien", "Mr O'Brien"),
        ("O’Brien", "Mr OBrien"),
        ("Quran", "the Qur'an"),
        ("Qur´an", "the Quran"),
        ("PhD", "a Ph.D. thesis"),
        ("ph.d.", "a PhD"),
        ("msc", "M.Sc. in physics"),
        ("rocknroll", "rock'n'roll"),
        ("Hawaii", "Hawai\u02bbi"),
        ("istanbul", "İstanbul"),
        # superscripts
        ("10^6", "10⁶ cells"),
        ("10⁶", "10^6 cells"),
        ("10⁻³", "10^-3 m"),
        ("m2", "per m²"),
        ("m^2", "per m²"),
        ("m²", "per m2"),
        ("H2O", "H₂O"),
        ("note", "a note¹ here"),
        ("25 °C", "at 25 ºC"),
        ("25 ℃", "at 25 °C"),
        ("kg", "5 ㎏"),
        ("fine", "ﬁne"),
        ("Küttler", "K¨uttler"),
    ],
)
def test_tokenize_query_meets_text(query: str, text: str) -> None:
    analyzer = get_analyzer()
    wanted = analyzer.tokenize(query)
    assert wanted != []
    common = set(wanted) & set(analyzer.tokenize_document(text))
    assert common, (wanted, analyzer.tokenize(text))


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("106", "10⁶ cells"),
        ("52", "5² = 25"),
        ("51", "5½ cups"),
        ("102", "10² and 10^2"),
        ("1", "note of brca1"),
        ("th", "the 19th century"),
        ("100200300400500600", "100 200 300 400 500 600"),
        ("2019300", "in 2019 300 people"),
    ],
)
def test_tokenize_other_number_does_not_meet_text(query: str, text: str) -> None:
    analyzer = get_analyzer()
    assert not set(analyzer.tokenize(query)) & set(analyzer.tokenize_document(text))


@pytest.mark.parametrize(
    ("language", "query", "text"),
    [
        ("turkish", "iade", "İade süresi"),
        ("turkish", "ışık", "IŞIK HIZI"),
        ("turkish", "istanbul", "İSTANBUL’DA"),
        ("turkish", "İSTANBUL", "istanbul"),
        ("turkish", "ISPARTA", "Isparta gülü"),
        ("turkish", "internet", "INTERNET"),
        ("persian", "میخواهم", "می\u200cخواهم"),
        ("persian", "می خواهم", "می\u200cخواهم"),
        ("persian", "کتاب\u200cها", "کتابها"),
        ("hindi", "क्या", "क\u094d\u200dया"),
        ("hindi", "श्रीमान", "श\u094d\u200cरीमान"),
        ("french", "O'Brien", "M. OBrien"),
        ("german", "1.234,56", "1234.56 Euro"),
        ("arabic", "كتاب", "ﻛﺘﺎﺏ"),
    ],
)
def test_tokenize_query_meets_text_in_its_language(language: str, query: str, text: str) -> None:
    analyzer = get_analyzer(language)
    assert set(analyzer.tokenize(query)) & set(analyzer.tokenize_document(text))


def test_tokenize_elision_has_no_joined_form() -> None:
    assert "lhomme" not in get_analyzer("french").tokenize("l'homme")
    assert "dellacqua" not in get_analyzer("italian").tokenize("dell'acqua")


@pytest.mark.parametrize(
    ("text", "stop_words"),
    [
        ("It was the best of times", ["=it", "=was", "=the", "=of"]),
        (f"{LONG} The IT department answers.", ["=it"]),
        (f"{LONG} The Who played in Leeds.", ["=the", "=who"]),
        (f"{LONG} Many like the novel It by King.", ["=it"]),
        (f"{LONG} Hamlet says to be or not to be there.", ["=to", "=be", "=or", "=not", "=to", "=be", "=there"]),
        (f"It\n\n{LONG} A novel by King.", ["=it"]),
        (f"{LONG} It is the end. Then the rain stops.", []),
    ],
)
def test_tokenize_document_has_terms_for_names_of_stop_words(text: str, stop_words: list[str]) -> None:
    terms = get_analyzer().tokenize_document(text)
    assert [term for term in terms if term.startswith("=")] == stop_words
    assert [term for term in terms if not term.startswith("=")] == get_analyzer().tokenize(text)


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("IT", ["=it"]),
        ("The Who", ["=the", "=who"]),
        ("That's it, don't!", ["=that", "=it", "=don"]),
        ("to be or not to be", ["=to", "=be", "=or", "=not", "=to", "=be"]),
        ("...", []),
        ("house", []),
    ],
)
def test_tokenize_stop_words_of_query(query: str, terms: list[str]) -> None:
    assert get_analyzer().tokenize_stop_words(query) == terms


def test_analyzer_name_identifies_language_and_version() -> None:
    assert get_analyzer().name == "english-v2"
    assert get_analyzer("german").name == "german-v2"
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
