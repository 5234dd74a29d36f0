"""Flags for chunks that may contain a prompt injection. Flagged chunks are stored and found like all others.

The patterns are common phrases of injected prompts. A flag is a hint, not a proof: attackers can avoid the phrases, and
a text about prompt injection is flagged too. Clients filter by ``$suspicious`` or read the ``flags`` of a result.
"""

import re
from typing import NamedTuple

from app.text_normalization import fold_text

INSTRUCTIONS, MARKUP, HIDDEN = "instructions", "chat_markup", "hidden_text"
# Invisible characters. Between the letters of a word they hide the word from a pattern.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")
# Unicode tag characters encode ASCII invisibly, and models read them. The emoji of a regional flag contains only six of
# them, after a 🏴. Ten in a row are hidden text.
_INVISIBLE_ASCII = re.compile("[\U000e0020-\U000e007f]{10}")
# Number of characters of a chunk that are searched. Useful chunks are far shorter.
_MAX_SCANNED_CHARACTERS = 100_000


class _Pattern(NamedTuple):
    """Regular expression with its flag.

    Attributes:
        flag: Flag of a text that the expression matches.
        literal: String that every matching text contains. A search for it takes a hundredth of the expression's time.
        expression: Regular expression over casefolded text in NFKC with single spaces.
    """

    flag: str
    literal: str
    expression: re.Pattern[str]


def _compile(literal: str, expression: str) -> _Pattern:
    return _Pattern(INSTRUCTIONS, literal, re.compile(expression))


# No expression has an unbounded repetition that can match its own beginning, so a hostile chunk takes linear time.
_BREAK = r"\b(?:ignore|disregard|forget|override|bypass)"
_ALL = "(?:all |any |the |these |those |of |my |your ){0,4}"
_EARLIER = "(?:previous |prior |above |earlier |preceding |my |your )(?:system )?"
_PATTERNS = (
    _compile("instruction", rf"{_BREAK} {_ALL}(?:{_EARLIER}instructions?|instructions (?:above|before))\b"),
    _compile("prompt", rf"{_BREAK} {_ALL}(?:{_EARLIER}prompts?|prompts? (?:above|before))\b"),
    _compile("prompt", r"\b(?:reveal|print|repeat|show|leak) (?:me )?(?:your|the) (?:system|hidden|initial) prompt\b"),
    _compile("instruction", r"\b(?:reveal|print|repeat|leak) (?:me )?your (?:system |hidden |initial )?instructions\b"),
    _compile("you are now", r"\byou are now (?:dan\b|jailbroken|unrestricted|in (?:developer|debug|admin|god) mode)"),
    _compile("the user", r"\b(?:do not|don't|never) (?:tell|inform|reveal this to|mention this to) the user\b"),
    _compile("anweisung", r"\b(?:ignorier|vergiss|missacht)\w* (?:alle |die |deine |s[äa]mtliche ){1,3}"
          r"(?:vorherigen|bisherigen|obigen|vorangegangenen|fr[üu]heren) anweisung"),
    _compile("consigne", r"\b(?:ignore|oublie)[rz]? (?:toutes )?(?:les|tes|vos) consignes"),
    _compile("instruction", r"\b(?:ignore|oublie)[rz]? (?:toutes )?(?:les|tes|vos) instructions "
          r"(?:pr[ée]c|ant[ée]r|ci-dessus)"),
    _compile("instruccion", r"\b(?:ignora|olvida)\w* (?:todas )?(?:las|tus|sus) instrucciones (?:anterior|previa)"),
    _compile("istruzion", r"\b(?:ignora|dimentica)\w* (?:tutte )?(?:le|tue|le tue) istruzioni (?:precedent|anterior)"),
    _compile("instruç", r"\b(?:ignor|esqueç)\w+ (?:todas )?(?:as|suas|as suas) instruções (?:anterior|prévia|acima)"),
    _compile("instruct", r"\b(?:negeer|vergeet) (?:alle )?(?:de |je )?(?:vorige|voorgaande|eerdere) instructies"),
    _compile("инструкци", r"\b(?:игнорир|забудь|забыть)\w* (?:все )?(?:предыдущие|прежние|прошлые) инструкции"),
    _compile("忽略", r"忽略(?:所有|全部|你)?(?:之前|以上|先前|此前|上述|前面)的?"
          r"(?:所有|全部|一切)?(?:指令|指示|提示|说明|說明)"),
    _compile("無視", r"(?:以前|上記|前|これまで)の(?:すべての|全ての)?(?:指示|命令)(?:を|は)?(?:すべて|全て)?無視"),
    _compile("무시", r"(?:이전|위의?|앞의?) ?(?:모든 )?(?:지시|명령|지침)[가-힣]{0,6}(?: 모두)? ?무시"),
    _Pattern(MARKUP, "<|", re.compile(
        r"<\|(?:im_start|im_end|system|user|assistant|endoftext|start_header_id|eot_id)\|>")),
    _Pattern(MARKUP, "[/inst]", re.compile(r"\[inst\]")),
    _Pattern(MARKUP, "<<sys>>", re.compile(r"<<sys>>")),
)  # fmt: skip


def detect_prompt_injection(text: str) -> list[str]:
    """Detect signs of prompt injection in the first 100,000 characters of a text.

    Args:
        text: Text of a chunk.

    Returns:
        The sorted flags, of ``instructions``, ``chat_markup`` and ``hidden_text``. Most texts have none.
    """
    visible_text = fold_text(text[:_MAX_SCANNED_CHARACTERS]).casefold()
    if not visible_text.isascii():
        visible_text = _INVISIBLE.sub("", visible_text)
    flags = {
        pattern.flag
        for pattern in _PATTERNS
        if pattern.literal in visible_text and pattern.expression.search(" ".join(visible_text.split()))
    }
    if not visible_text.isascii() and _INVISIBLE_ASCII.search(visible_text):
        flags.add(HIDDEN)
    return sorted(flags)
