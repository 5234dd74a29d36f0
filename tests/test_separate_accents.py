"""Accents that are separate characters are composed with their letters, and apostrophes and quotation marks stay."""

import random
import unicodedata

import pytest

from app.separate_accents import compose_accents, compose_letter, find_mark
from app.text_normalization import normalize_text


@pytest.mark.parametrize(
    ("text", "composed"),
    [
        ("K¨uttler", "Küttler"),
        ("K ¨uttler", "Küttler"),
        ("K \u0308uttler", "Küttler"),
        ("Mu¨ller und Gro¨ße", "Müller und Größe"),
        ("Herv´e and Herv ´e and Herv \u0301e", "Hervé and Hervé and Hervé"),
        ("J ´egou, J \u0301egou, P´erez", "Jégou, Jégou, Pérez"),
        ("Universit´e de Montr´eal", "Université de Montréal"),
        ("Garc´ıa, Mar´ıa, na¨ıve", "García, María, naïve"),
        ("ˇCapek, Dvoˇr´ak, Erd˝os", "Čapek, Dvořák, Erdős"),
        ("fran¸cais, franc¸ais, S¸tefan", "français, français, Ştefan"),
        ("Zu˜niga, S˜ao, ˆıle, for ˆet", "Zuñiga, São, île, forêt"),
        ("1.5 ˚A, ˙Zuk, W˛egrzyn", "1.5 Å, Żuk, Węgrzyn"),
        ("¨Osterreich, die ¨Osterreicher, IN ¨OSTERREICH", "Österreich, die Österreicher, IN ÖSTERREICH"),
        ("M ¨UNCHEN, ZU¨RICH", "MÜNCHEN, ZÜRICH"),
        ("un ´etat, les ´etudes", "un état, les études"),
        ("\u0308Uber\n\u0301etat", "Über\nétat"),
    ],
)
def test_compose_separate_accents_gives_letters(text: str, composed: str) -> None:
    assert normalize_text(text) == composed


@pytest.mark.parametrize(
    "text",
    [
        "5 ´, 5´ 30´´, 12 ´a",
        "a ¨ b, ¨, ~ ^ ` ´",
        "~/bin ^top `code` ~n ^a `e`",
        "l´eau, d´accord, aujourd´hui, C´est, L´Oréal, dell´acqua",
        "it´s, we´re, I´m, don´t, O´Brien, ma´am",
        "Qur´an, Hawai´i, Sana´a",
        "give ´em hell, rock ´n´ roll",
        "¨Hola¨, dijo ¨el perro¨.",
        "the ´apple´ is ´eaten´",
        "25 ˚C, 90˚ north, ¯\\_(ツ)_/¯",
        "the diaeresis \u0308 alone, ˇ and ˘",
    ],
)
def test_compose_other_uses_of_accents_stay(text: str) -> None:
    assert compose_accents(text) == text


def test_compose_twice_equals_composing_once() -> None:
    rng = random.Random(3)
    alphabet = "aeucszEUx \u00b4\u00a8\u02c7\u00b8\u0308\u0301\u0131éü1.\n"
    for _ in range(30_000):
        text = "".join(rng.choices(alphabet, k=rng.randint(1, 12)))
        once = normalize_text(text)
        assert normalize_text(once) == once, ascii(text)


@pytest.mark.parametrize(
    ("accent", "letter", "composed"),
    [
        ("´", "e", "é"),
        ("´", "ı", "í"),
        ("`", "a", "à"),
        ("~", "n", "ñ"),
        ("ˇ", "S", "Š"),
        ("¨", "t", None),
        ("x", "a", None),
    ],
)
def test_find_mark_knows_letters_of_languages(accent: str, letter: str, composed: str | None) -> None:
    mark = find_mark(accent, letter)
    assert (mark and compose_letter(letter, mark)) == composed
    assert mark is None or unicodedata.combining(mark)
