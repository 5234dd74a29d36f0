"""Detection of a text's language, and the part of the text that decides."""

import random
import subprocess
import sys

import pytest

from app.lexical.analyzers import list_languages
from app.lexical.detection import WINDOW_CHARACTERS, WINDOW_COUNT, detect_language, sample_text

GERMAN = "Die Kündigungsfrist beträgt drei Monate zum Ende des Quartals, sofern nichts anderes vereinbart ist."
ENGLISH = "The period of notice is three months to the end of a quarter, unless something else was agreed upon."


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "english"),
        (GERMAN, "german"),
        ("Le préavis est de trois mois avant la fin du trimestre, sauf accord contraire.", "french"),
        ("El plazo de preaviso es de tres meses antes del final del trimestre.", "spanish"),
        ("Il termine di preavviso è di tre mesi prima della fine del trimestre.", "italian"),
        ("O prazo de aviso prévio é de três meses antes do final do trimestre.", "portuguese"),
        ("De opzegtermijn bedraagt drie maanden voor het einde van het kwartaal.", "dutch"),
        ("Uppsägningstiden är tre månader före kvartalets slut, om inget annat avtalats.", "swedish"),
        ("Oppsigelsestiden er tre måneder før utgangen av kvartalet, hvis ikke annet er avtalt.", "norwegian"),
        ("Okres wypowiedzenia wynosi trzy miesiące przed końcem kwartału.", "polish"),
        ("Срок уведомления составляет три месяца до конца квартала.", "russian"),
        ("Bildirim süresi üç aydır ve çeyrek dönemin sonunda biter.", "turkish"),
        ("مدة الإشعار ثلاثة أشهر قبل نهاية ربع السنة.", "arabic"),
        ("सूचना की अवधि तिमाही के अंत से तीन महीने पहले तक है।", "hindi"),
        ("通知期间为季度结束前三个月。", "chinese"),
        ("通知期間は四半期末の三か月前までです。", "japanese"),
        ("통지 기간은 분기 말 석 달 전까지입니다.", "korean"),
        ("ระยะเวลาแจ้งล่วงหน้าคือสามเดือนก่อนสิ้นไตรมาส", "thai"),
        # Languages that the detector knows, but that have no analyzer.
        ("Термін повідомлення становить три місяці до кінця кварталу, якщо не домовлено інакше.", None),
        # Not a text.
        ("", None),
        (" \n ", None),
        ("17; 23.50; 8\n" * 200, None),
        ("def foo(x):\n    return x + 1\n" * 100, None),
        ("a", None),
    ],
)
def test_detect_language_returns_language_or_none(text: str, language: str | None) -> None:
    assert detect_language(text) == language
    assert language is None or language in list_languages()


def test_detect_language_majority_decides_at_any_place() -> None:
    rng = random.Random(1)
    parts = [GERMAN] * 400 + [ENGLISH] * 100
    rng.shuffle(parts)
    assert detect_language("\n\n".join(parts)) == "german"
    assert detect_language("\n\n".join([ENGLISH] * 50 + [GERMAN] * 450)) == "german"
    assert detect_language("\n\n".join([GERMAN] * 450 + [ENGLISH] * 50)) == "german"


@pytest.mark.parametrize("length", [0, 1, 1999, 2000, 2001, 2007, 10_001, 1_000_000])
def test_detect_language_sample_is_limited_and_covers_both_ends(length: int) -> None:
    text = "".join(random.Random(length).choices("abcdefghij", k=length))
    taken = sample_text(text)
    if length <= WINDOW_COUNT * WINDOW_CHARACTERS:
        assert taken == text
        return
    windows = taken.split("\n")
    assert [len(window) for window in windows] == [WINDOW_CHARACTERS] * WINDOW_COUNT
    assert text.startswith(windows[0])
    assert text.endswith(windows[-1])
    assert all(window in text for window in windows)


NO_THREAD = """
import resource, threading
from app.lexical.detection import detect_language, load_detector_in_thread
limits = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
threading.stack_size(2**29)
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, limits[1]))
load_detector_in_thread()
resource.setrlimit(resource.RLIMIT_AS, limits)
print(detect_language("Der Mieter muss die Wohnung am Ende des Quartals verlassen."))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a thread's stack counts only on Linux")
def test_load_detector_without_a_free_thread_leaves_detection_usable() -> None:
    done = subprocess.run([sys.executable, "-c", NO_THREAD], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("german", "")
