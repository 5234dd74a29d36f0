"""Names in scripts without capitals: Latin words, foreign names in katakana, and names before a form of address."""

import re
from collections.abc import Iterator

from app.graph.extraction.letters import CASED_WORD, UNCASED
from app.graph.extraction.word_lists import get_function_words

MAX_LATIN_WORDS = 5
"""Maximum number of Latin words of a name in another script. Longer runs are foreign sentences."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff々"
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff"
_HANGUL = "\uac00-\ud7a3"
_UNCASED = re.compile(f"[{UNCASED}]")
_CASED_LETTER = re.compile(r"[A-Za-z\u00c0-\u058f]")
_LATIN_WORD = rf"[A-Za-zÀ-ɏ][{CASED_WORD}'’&+#]*+(?:[-.][{CASED_WORD}]++)*+"
_LATIN_RUN = re.compile(rf"(?<![{CASED_WORD}.\-/@]){_LATIN_WORD}(?>[ \u00a0](?:{_LATIN_WORD}|\d[{CASED_WORD}.\-]*+))*+")
# A foreign name in katakana, whose parts are divided by a dot: スティーヴン・ホーキング.
_KATAKANA_NAME = re.compile(rf"[{_KATAKANA}]{{1,20}}(?:[・＝][{_KATAKANA}]{{1,20}}){{1,5}}")
_JAPANESE_ADDRESS = "さん|さま|様|氏|先生|教授|社長|会長|部長|課長|博士|選手|首相|大統領|議員|容疑者|被告|君|ちゃん"
_JAPANESE_PERSON = re.compile(
    rf"(?<![{_HAN}{_KATAKANA}])([{_HAN}]{{1,5}}?|[{_KATAKANA}・]{{2,20}})(?:{_JAPANESE_ADDRESS})(?![{_HAN}])"
)
_JAPANESE_COMPANY = re.compile(
    rf"(?:株式会社|有限会社|合同会社)[{_HAN}{_KATAKANA}A-Za-z]{{2,15}}|[{_KATAKANA}{_HAN}A-Za-z]{{2,15}}(?:株式会社|有限会社)"
)
_CHINESE_SURNAMES = (
    "王李张張刘劉陈陳杨楊黄黃赵趙吴吳周徐孙孫马馬朱胡郭何高林罗羅郑鄭梁谢謝宋唐许許韩韓冯馮邓鄧曹彭曾肖蕭田董袁潘于蒋蔣"
    "蔡余杜叶葉程苏蘇魏吕呂丁任沈姚卢盧姜崔钟鍾谭譚陆陸汪范金石廖贾賈夏韦韋方白邹鄒孟熊秦邱江尹薛闫段雷侯龙龍史陶黎贺賀"
    "顾顧毛郝龚邵万萬钱錢严嚴覃武戴莫孔向汤湯"
)
_CHINESE_PERSON = re.compile(
    rf"([{_CHINESE_SURNAMES}][{_HAN}]{{0,2}}?)"
    "(?:先生|女士|小姐|教授|博士|老师|老師|总统|總統|主席|总理|總理|经理|經理|部长|部長|院长|院長|主任|书记|律师|医生)"
)
_KOREAN_PERSON = re.compile(
    rf"(?<![{_HANGUL}])([{_HANGUL}]{{2,4}}?) ?"
    r"(?:씨|님|대통령|총리|장관|교수|박사|회장|사장|대표|의원|선수|감독|기자|변호사|선생님)(?:[은는이가을를의와과도께에]|[^\uac00-\ud7a3]|\Z)"
)
# Greedy pieces before a form of address that are no names.
_NO_KOREAN_NAMES = frozenset(
    {
        "대통령",
        "총리",
        "장관",
        "교수",
        "박사",
        "회장",
        "사장",
        "대표",
        "의원",
        "선수",
        "감독",
        "부",
        "전",
        "현",
        "새",
        "우리",
        "그",
        "이",
        "저",
        "고객",
        "손님",
        "담당",
        "신임",
        "초대",
        "역대",
    }
)
_KANA = re.compile("[\u3041-\u30ff]")


def find_uncased_names(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names in the parts of a text that are written without capitals, with their offsets, in linear time.

    Latin words inside of another script are names. Japanese names are foreign names in katakana with a dot, names of
    companies, and names before a form of address. Chinese and Korean names are those before a form of address.

    Args:
        text: Text of a chunk.
    """
    if _UNCASED.search(text) is None:
        return
    if _is_mostly_uncased(text):
        yield from _find_latin_names(text)
    is_japanese = _KANA.search(text) is not None
    if is_japanese:
        for pattern in (_KATAKANA_NAME, _JAPANESE_COMPANY):
            yield from ((match[0], match.start()) for match in pattern.finditer(text))
        yield from ((match[1].strip("・"), match.start()) for match in _JAPANESE_PERSON.finditer(text))
    else:
        yield from ((match[1], match.start()) for match in _CHINESE_PERSON.finditer(text) if len(match[1]) > 1)
    for match in _KOREAN_PERSON.finditer(text):
        if match[1] not in _NO_KOREAN_NAMES:
            yield match[1], match.start()


def _is_mostly_uncased(text: str) -> bool:
    """Return whether the first 2,000 characters have at least half as many letters without capitals as others."""
    head = text[:2000]
    return 2 * len(_UNCASED.findall(head)) >= len(_CASED_LETTER.findall(head))


def _find_latin_names(text: str) -> Iterator[tuple[str, int]]:
    """Yield the short runs of Latin words, without function words at their ends."""
    function_words = get_function_words(None)
    for match in _LATIN_RUN.finditer(text):
        words = match[0].split()
        first, last = 0, len(words)
        while first < last and words[first].casefold() in function_words:
            first += 1
        while last > first and words[last - 1].casefold() in function_words:
            last -= 1
        if 0 < last - first <= MAX_LATIN_WORDS and len("".join(words[first:last])) > 1:
            yield " ".join(words[first:last]), match.start()
