"""Terms of the first version of the analyzer, which search indexes keep until they are reindexed."""

import pytest

from app.lexical.analyzers import get_analyzer


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
def test_tokenize_first_version_english_text(text: str, terms: list[str]) -> None:
    assert get_analyzer(version=1).tokenize(text) == terms


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
def test_tokenize_first_version_other_languages(language: str, text: str, terms: list[str]) -> None:
    assert get_analyzer(language, version=1).tokenize(text) == terms


def test_first_version_has_no_stop_words() -> None:
    analyzer = get_analyzer(version=1)
    assert analyzer.name == "english-v1"
    assert analyzer.tokenize_stop_words("to be or not to be") == []
    assert analyzer.tokenize_document("To be or not to be") == []
