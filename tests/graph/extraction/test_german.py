"""Names in German texts, where all nouns have capitals."""

import pytest

from tests.graph.extraction.chunks import names


@pytest.mark.capability("graph-german")
@pytest.mark.parametrize(
    "text",
    [
        "Der Vermieter vermietet dem Mieter die Wohnung zum Ersten des Monats.",
        "Die Kaution beträgt 500 Euro. Mieter zahlen Miete und Nebenkosten.",
        "Sie tranken zwei Tassen Kaffee, ein Glas Wasser und keine Flasche Wein.",
        "Er zahlt eine Million Euro mit 10 Prozent Rabatt.",
        "Ende März und Anfang Juni, am Montag und im Dezember 2020.",
        "Das Recht des Mieters, der Preis von Öl und das Haus am Meer.",
        "Mieter und Vermieter, Rechte und Pflichten.",
        "MIETVERTRAG FÜR WOHNUNGEN\nDer Mieter zahlt.",
        "Er ging nach Hause, aus Angst, in Rechnung und bei Regen.",
        "Sie fuhr mit der U-Bahn und schrieb eine E-Mail.",
    ],
)
def test_extract_mentions_ordinary_german_nouns_are_no_names(text: str) -> None:
    assert names(text, "german") == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Die Mieterin heißt Anna Schmidt.", {"Anna Schmidt"}),
        ("Anna Schmidt und Peter Müller wohnen hier.", {"Anna Schmidt", "Peter Müller"}),
        ("Das Urteil des Amtsgerichts ist von Johann Wolfgang von Goethe.", {"Johann Wolfgang von Goethe"}),
        ("Otto von Bismarck regierte.", {"Otto von Bismarck"}),
        ("Nach Angaben von Angela Merkel regnet es.", {"Angela Merkel"}),
        ("Die Deutsche Bahn und die Europäische Union zahlen.", {"Deutsche Bahn", "Europäische Union"}),
        ("Die Müller GmbH und die Siemens AG zahlen.", {"Müller GmbH", "Siemens AG"}),
        ("Die Robert Bosch GmbH & Co. KG zahlt.", {"Robert Bosch GmbH & Co. KG", "Robert Bosch GmbH"}),
        ("Ich traf Herrn Weber dort.", {"Herrn Weber", "Weber"}),
        ("Frau Schmidt-Maier zahlt.", {"Frau Schmidt-Maier", "Schmidt-Maier"}),
        ("Die Firma Krause zahlt.", {"Firma Krause", "Krause"}),
        ("Das Max-Planck-Institut und die EU-Kommission zahlen.", {"Max-Planck-Institut", "EU-Kommission"}),
        ("Die NATO, das ZDF und YouTube zahlen.", {"NATO", "ZDF", "YouTube"}),
        ("Er wohnt in Heidelberg und kommt aus Spanien.", {"Heidelberg", "Spanien"}),
        ("In Berlin regnet es.", {"Berlin"}),
        ("Er wohnt in Frankfurt am Main dort.", {"Frankfurt am Main"}),
        ("Der Code lautet E-4711 in max_size.", {"E-4711", "max_size"}),
        (
            "Er liest „Die unendliche Geschichte“ und »Krieg und Frieden«.",
            {"Die unendliche Geschichte", "Krieg und Frieden"},
        ),
    ],
)
def test_extract_mentions_german_names_are_found(text: str, expected: set[str]) -> None:
    assert names(text, "german") == expected


def test_extract_mentions_without_language_detects_german() -> None:
    text = "Der Vermieter vermietet dem Mieter die Wohnung. Die Mieterin Anna Schmidt zahlt die Miete für den Monat."
    assert names(text, None) == {"Mieterin Anna Schmidt"}
    assert len(names(text, "english")) > 3
