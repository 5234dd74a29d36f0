"""Names in other languages with capitals, and in scripts without capitals."""

import pytest

from tests.graph.extraction.chunks import mentions, names


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("french", "Il a vu Jeanne d'Arc.", {"Jeanne d'Arc"}),
        ("french", "Il aime l'Italie.", {"Italie"}),
        ("french", "L'Italie est belle.", {"Italie"}),
        ("french", "Le livre d’Albert Camus est «La Peste».", {"Albert Camus", "La Peste"}),
        ("french", "Il a vu Charles de Gaulle.", {"Charles de Gaulle"}),
        ("italian", "Ha visto Leonardo da Vinci nell'Umbria.", {"Leonardo da Vinci", "Umbria"}),
        ("spanish", "Vio a Gabriel García Márquez en España.", {"Gabriel García Márquez", "España"}
         | {"Gabriel García Márquez en España"}),
        ("dutch", "Hij zag Jan de Vries.", {"Jan de Vries"}),
        ("dutch", "Hij zag Piet van den Berg.", {"Piet van den Berg"}),
        ("swedish", "Hon skrev Pippi Långstrump där.", {"Pippi Långstrump"}),
        ("polish", "Tu jest Maria Skłodowska-Curie.", {"Maria Skłodowska-Curie"}),
        ("turkish", "O dün Ankara'da yaşadı.", {"Ankara"}),
        ("russian", "Роман написал Лев Толстой.", {"Лев Толстой"}),
        ("russian", "Он живёт в Санкт-Петербурге.", {"Санкт-Петербурге"}),
        ("russian", "Роман «Война и мир» читают.", {"Война и мир"}),
        ("ukrainian", "Це написав Тарас Шевченко.", {"Тарас Шевченко"}),
        ("bulgarian", "Това е Христо Ботев.", {"Христо Ботев"}),
        ("greek", "Ο Κωνσταντίνος Καβάφης γεννήθηκε στην Αλεξάνδρεια.", {"Κωνσταντίνος Καβάφης", "Αλεξάνδρεια"}),
        ("armenian", "նա Երևան քաղաքում է։", {"Երևան"}),
    ],
)  # fmt: skip
def test_extract_mentions_names_of_languages_with_capitals_are_found(
    language: str, text: str, expected: set[str]
) -> None:
    assert names(text, language) == expected


@pytest.mark.parametrize("text", ["Кит поёт. Киты поют.", "Dlouhý text. Krátký text.", "Ella canta. Él canta."])
def test_extract_mentions_first_words_of_sentences_are_no_names_in_any_language(text: str) -> None:
    assert names(text, None) == set()


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("japanese", "スティーヴン・ホーキングが語った。", {"スティーヴン・ホーキング"}),
        ("japanese", "彼は『坊っちゃん』を読んだ。", {"坊っちゃん"}),
        ("japanese", "東京の山田太郎教授が来た。", {"山田太郎"}),
        ("japanese", "田中さんと佐藤氏が来た。", {"田中", "佐藤"}),
        ("japanese", "株式会社トヨタと、ソニー株式会社がある。", {"株式会社トヨタ", "ソニー株式会社"}),
        ("japanese", "これはDockerとGoogle Cloudで動く。", {"Docker", "Google Cloud"}),
        ("japanese", "コンピュータのサービスを使う。", set()),
        ("chinese", "请阅读《红楼梦》和“三体”。", {"红楼梦", "三体"}),
        ("chinese", "今天王小明教授使用Kubernetes。", {"王小明", "Kubernetes"}),
        ("chinese", "错误代码是E-4711，参数max_size。", {"E-4711", "max_size"}),
        ("chinese", "他说：“我今天不想去那里，因为下雨了。”", set()),
        ("korean", "어제 김철수 씨가 「태백산맥」을 읽었다.", {"김철수", "태백산맥"}),
        ("korean", "그는 Samsung Electronics에서 일한다.", {"Samsung Electronics"}),
        ("thai", "เขาอ่าน “สี่แผ่นดิน” และใช้ Microsoft Word อยู่", {"สี่แผ่นดิน", "Microsoft Word"}),
        ("arabic", "قرأ كتاب «ألف ليلة وليلة» على Linux.", {"ألف ليلة وليلة", "Linux"}),
        (None, "הוא קרא \"סיפור על אהבה\" ב-Docker.", {"סיפור על אהבה", "Docker"}),
        ("hindi", "उन्होंने “गीतांजलि” पढ़ी और Google Maps देखा।", {"गीतांजलि", "Google Maps"}),
    ],
)  # fmt: skip
def test_extract_mentions_names_in_scripts_without_capitals_are_found(
    language: str | None, text: str, expected: set[str]
) -> None:
    assert names(text, language) == expected


def test_extract_mentions_title_in_a_script_without_capitals_is_an_entity() -> None:
    found = mentions("雨が降る。", "japanese", title="夏目漱石", headings=("吾輩は猫である",))
    assert {(each.name, each.kind) for each in found.values()} == {
        ("夏目漱石", "title"), ("吾輩は猫である", "heading")
    }  # fmt: skip


def test_extract_mentions_foreign_words_in_an_english_text_make_no_english_word_a_name() -> None:
    assert names("The Japanese author 村上春樹 wrote ノルウェイの森 long ago.") == {"Japanese"}
