"""Texts for which careless code needs quadratic time, each as a function of the length."""

from collections.abc import Callable

HostileText = Callable[[int], str]


def _repeat(*parts: str) -> HostileText:
    """Return the parts, one after another, until the text has the wanted length."""
    unit = "".join(parts)
    return lambda length: (unit * (length // len(unit) + 1))[:length]


def _blocks(*characters: str, begin: str = "", end: str = "") -> HostileText:
    """Return one run of each character, all runs of equal length."""
    return lambda length: begin + "".join(each * (length // len(characters)) for each in characters) + end


HOSTILE_TEXTS: dict[str, HostileText] = {
    "prose": _repeat("The rent is due on the first day of each month. ", "Die Miete ist im Voraus fällig. "),
    "marks of falling classes": _blocks("\u0301", "\u0323", begin="word a", end=" word"),
    "marks in turns": _repeat("\u0301\u0323\u0345"),
    "marks of many classes": _blocks("\u0345", "\u035c", "\u0301", "\u302a", "\u0323", "\u0327", "\u093c", begin="a"),
    "marks that decompose": _repeat("\u0344\u0f73\u0f81\u0f75"),
    "half-width voice marks": _blocks("\uff9e", "\u0323", begin="\uff76"),
    "marks on marked letters": _repeat("\u1e69\u0323\u0307\u01d6\u0327"),
    "marks beyond the basic plane": _repeat("\U0001d165\U0001d167\U0001e944\u0301"),
    "joiners between Latin letters": _blocks("\u200d", begin="a", end="b"),
    "joiners between other letters": _blocks("\u200d", begin="\u0915", end="\u0915"),
    "non-joiners between other letters": _blocks("\u200c", begin="\u0645", end="\u0645"),
    "joiners and marks": _repeat("\u200d\u0301\u200c\u0323"),
    "variation selectors": _blocks("\ufe0f", "\U000e0100", begin="\u2603"),
    "emoji sequences": _repeat("\U0001f469\u200d\U0001f467\ufe0f"),
    "tags": _blocks("\U000e0041", begin="\U0001f3f4"),
    "jamo in order": _repeat("\u1100\u1161\u11a8"),
    "leading jamo": _blocks("\u1100", "\u1161", "\u11a8"),
    "syllables": _repeat("한국어"),
    "direction controls": _blocks("\u202e", "\u2066", begin="a", end="b"),
    "right to left": _repeat("שלום\u05b8\u05b7 العربية\u064b\u0651 "),
    "lone surrogates": _blocks("\ud800", "\udc00"),
    "long decompositions": _repeat("\ufdfa\ufdfb"),
    "one-letter words": _repeat("a b "),
    "one long word": _blocks("a"),
    "capital letters": _blocks("A", end="b"),
    "camel case": _repeat("aBcD1E"),
    "initials": _repeat("A.B."),
    "digits": _blocks("7"),
    "numbers with signs": _repeat("1,2.3,4-"),
    "Thai digits and letters": _repeat("๑กข"),
    "Han": _repeat("漢字"),
    "dots": _blocks("."),
    "ends of sentences": _blocks("!", "?", "…"),
    "ends and quotes": _blocks("!", '"', end="x"),
    "full-width ends": _blocks("。", "」", end="x"),
    "ends and spaces": _repeat("e.g. i.e. z.B. a . "),
    "question marks and brackets": _repeat("?)]”’ "),
    "spaces": _blocks(" ", begin="a", end="b"),
    "other spaces": _blocks("\u3000", "\t", "\u00a0", begin="a", end="b"),
    "line breaks": _blocks("\n", begin="a", end="b"),
    "carriage returns": _repeat("\r\n\u2028\v"),
    "empty lines": _repeat("a\n\n \n"),
    "brackets": _blocks("[", "]"),
    "braces": _blocks("{", "}"),
    "braces and spaces": _repeat("{ \n"),
    "braces and quotes": _repeat('{"'),
    "objects": _repeat('{"a": [1, {"b": 2}]}, '),
    "placeholders": _repeat("{query}{"),
    "quotes": _blocks('"', "'"),
    "backslashes": _blocks("\\"),
    "apostrophes": _repeat("l'homme’s "),
    "apostrophes alone": _blocks("'", "\u2019"),
    "hyphens": _repeat("a-b-"),
    "hyphens alone": _blocks("-", "\u2010"),
    "underscores": _blocks("_", begin="a", end="b"),
    "addresses": _repeat("https://a.b/c?d=e&f#g@h:"),
    "paths": _repeat("../"),
    "semicolons and quotes": _repeat(';a="'),
    "semicolons": _blocks(";"),
    "commas": _blocks(","),
    "pipes": _repeat("| a |---|\n"),
    "number signs": _repeat("# a\n"),
    "angle brackets": _repeat("<a <!-- -->"),
    "comments": _repeat("<!-- "),
    "header lines": _repeat("From: a\r\n b\r\n"),
    "colons": _repeat("a:"),
    "glyph numbers": _repeat("(cid:12(cid:"),
    "instructions": _repeat("ignore all the instruction <| ignorier"),
    "thoughts": _repeat("<think>"),
}
