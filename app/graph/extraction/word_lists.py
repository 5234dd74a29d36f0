"""Words that decide what a name is: function words, connectors, forms of address, months, and generic headings."""

from functools import lru_cache

from app.lexical.function_words import build_word_index


def _split(words: str) -> frozenset[str]:
    return frozenset(words.split())


ENGLISH, GERMAN, TURKISH = "english", "german", "turkish"

CONNECTORS = (
    "of|the|de|del|della|delle|dello|dei|degli|da|das|dos|do|di|du|des|la|las|le|les|los|el|al|van|von|vom|der|den|dem"
    "|ter|ten|te|zu|zum|zur|am|an|bin|bint|ibn|ben|abu|af|av|y|e|et|i|og|och|und|and|en|for|in|on|to|at|upon|auf|im|für"
    "|и|о|с|στην?|του|της|των|και"
)
"""Lower-case words that join the capitalized words of a name, as alternatives of a pattern."""

COORDINATORS = _split("and & und et y e og och i и και en")
"""Connectors that may join two names."""

PREPOSITIONS = _split("in on to at for from")
"""Connectors that join two names more often than they are a part of one."""

GERMAN_CONNECTORS = "von|vom|van|zu|der|den|dem|de|la|di|bin|ibn|al"
"""Connectors of names in German. Other German connectors join ordinary nouns."""

GERMAN_PLACE_CONNECTORS = (
    r"am(?= (?:Main|Rhein|Neckar|Inn|Lech|See|Bodensee|Harz|Berg|Wald)\b)"
    r"|an(?= der (?:Oder|Donau|Elbe|Saale|Weser|Ruhr|Isar|Spree)\b)|ob(?= der )|in(?= der Oberpfalz)"
)
"""Connectors of German names of places, as alternatives of a pattern."""

NAME_PARTICLES = frozenset(
    {"van", "van der", "van den", "van de", "von", "von der", "de", "de la", "de los", "della", "di"}
    | {"da", "dos", "bin", "ibn"}
)
"""Particles that belong to the name behind them."""

ELIDING = frozenset({"french", "italian", "catalan"})
"""Languages that elide articles before names: "l'Italie"."""

PARTICLES = (
    "van der|van den|van de|van|von der|von|de la|de las|de los|de|della|del|di|da|dos|du|la|le|bin|ibn|al|el|ten|ter"
)
"""Particles with which a surname begins, as alternatives of a pattern."""

SAFE_PARTICLES = frozenset({"van", "van der", "van den", "van de", "von", "von der", "bin", "ibn"})
"""Particles that are no words of most languages."""

ABBREVIATIONS = (
    r"St|Ste|Sta|Dr|Mr|Mrs|Ms|Mx|Prof|Mt|Ft|Gen|Col|Capt|Cpt|Lt|Sgt|Maj|Rev|Hon|Gov|Sen|Rep|Pres|Bros|Fr|Hr|Mme|Mlle"
    r"|Sr|Sra|Srta|Ing|Dipl|Dott|Msgr|Hl|Bd|Co(?=\.[ \u00a0]KG)"
)
"""Abbreviations with a full stop that stand inside of names, as alternatives of a pattern."""

FORMS_OF_ADDRESS = _split(
    """
    mr mrs ms mx dr prof sir mme mlle madame monsieur señor señora señorita sr sra srta signor signora herr
    herrn frau fräulein firma fa dipl ing professor doktor doctor dott hr fr rev msgr
    """
)
"""Casefolded words, without a full stop, that stand before the name of a person or a company."""

ACRONYMS = frozenset({"US", "U.S", "WHO", "IT", "UN"})
"""Acronyms that are equal to function words."""

NAME_SUFFIXES = _split(
    """
    jr sr inc ltd co corp llc llp plc gmbh ag kg ohg ug mbh se sa srl spa bv nv st mt ft jun sen phd esq ii iii
    """
)
"""Casefolded words, without a full stop, that stand behind names and are no names."""

MONTHS = _split(
    """
    january february march april may june july august september october november december jan feb mar apr jun
    jul aug sep sept oct nov dec januar februar märz mai juni juli oktober dezember jänner
    """
)
WEEKDAYS = _split(
    """
    monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun montag dienstag
    mittwoch donnerstag freitag samstag sonnabend sonntag
    """
)
DATE_WORDS = MONTHS | WEEKDAYS | _split("bc ad bce ce am pm st nd rd th anfang mitte ende")

REFERENCES = _split(
    """
    figure fig table section chapter page part step example appendix item note line column row level phase day
    week year version question answer exercise lesson equation eq art article abbildung abb tabelle tab kapitel
    seite abschnitt teil schritt beispiel anlage zeile spalte absatz abs satz nr no nummer number vol volume
    figura tabla capítulo página sección paso chapitre tableau étape capitolo tabella pagina рис табл глава
    """
)
"""Words before the number of a part of a document. With a number, they name nothing outside of the document."""

GENERIC_FILE_WORDS = _split(
    """
    img dsc dscn pict pxl vid mov screenshot screen shot image photo picture index main readme default page
    """
)
"""Casefolded words of names of files that cameras and programs make."""

GENERIC_TITLES = _split(
    """
    introduction overview summary conclusion conclusions references abstract background methods method results
    discussion contents appendix notes note faq faqs example examples preface foreword glossary index
    bibliography acknowledgements acknowledgments motivation definitions scope purpose general other untitled
    document einleitung einführung überblick übersicht zusammenfassung fazit literatur inhalt inhaltsverzeichnis
    anhang anmerkungen beispiel beispiele vorwort glossar allgemeines sonstiges introducción resumen
    conclusiones índice résumé sommaire bibliographie annexe introduzione conclusioni indice bibliografia
    введение заключение содержание
    """
) | frozenset(
    {"table of contents", "see also", "external links", "further reading", "related work", "この記事について"}
)
"""Normalized titles and headings that name nothing."""

GERMAN_NOUNS = _split(
    """
    form kraft haus zeit holz antrag gericht höhe betrieb bezug angst zukunft papier glas stahl metall stein
    gold silber wasser öl eis schnee regen nacht kürze sicht bar urlaub haft not gefahr bedarf kauf vertrag
    ablauf erhalt eingang beginn abzug abschluss wunsch wahl art bereich deutsch englisch französisch
    wirklichkeit umlauf besitz gang sport spiel fall person stück kilo prozent euro meter liter grad uhr land
    stadt dorf wald feld luft tod krieg streit zorn spaß mangel verlust schaden ausland inland ansicht meinung
    arbeit schluss dienst amt plan maß recht gesetz sinn zweck ziel grund anlass vorrat einsatz verzug zahlung
    gewinn umsatz druck strom gas licht nebel wind sturm sonne frost kälte tag früh aufruf verdacht unfall brand
    krankheit fieber schmerz bau saft teil preis zahl anzahl form menge verkauf sohn bruder vater könig kaiser
    graf herzog fürst freund autor bürger leiter chef direktor präsident gründer bau ort platz lust spanne
    """
)
"""Nouns that often follow a preposition without an article."""

GERMAN_QUANTITIES = _split(
    """
    ein eine einen einem einer eines zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend
    kein keine keinen keiner pro je viele mehrere wenige einige manche
    """
)
"""Words of quantities, before which two nouns are no name."""

GERMAN_ARTICLES = GERMAN_QUANTITIES | _split(
    """
    der die das den dem des im am vom zum zur beim ins ans mein dein sein ihr unser euer meine deine seine ihre
    unsere eure seiner ihrer ihren seinen dieser diese dieses diesen diesem jeder jede jedes jeden
    """
)
"""Articles and similar words."""

# Adverbs, conjunctions and prepositions that begin sentences and are not among the function words of ``app.lexical``.
_SENTENCE_WORDS = {
    ENGLISH: """according across actually additionally after afterwards again alongside already also although always
        amid among another apparently around aside because besides both certainly clearly consequently currently
        dear despite during earlier early either especially eventually every finally following former formerly
        fortunately frequently furthermore generally he hello hence her here hi how however i if indeed initially
        inside instead interestingly it late later latter like many maybe meanwhile more moreover most much nearly
        neither nevertheless nonetheless nor normally not notably now obviously occasionally often ok okay once
        only opposite originally otherwise our outside perhaps please possibly presumably previously probably
        recently regarding secondly shortly similarly simply since so some sometimes soon still subsequently
        such suddenly surely thank thanks then there thereafter therefore these they this those though three
        through throughout thus today together tomorrow tonight two under unfortunately unless unlike until upon
        usually various very via we well what whatever when whenever where whereas wherever whether which while who
        whoever whom whose why with within without yes yesterday yet you your let lets see did does has have is are
        was were can could should would will may might must do""",
    "greek": "ο η το οι τα τον την του της των τους τις στο στη στην στον στους στις ένα ένας μια μία και για με από",
    GERMAN: """allerdings anschließend außerdem bereits bisher dabei dadurch dafür dagegen daher damals danach
        daneben daraufhin darüber darum dazu dennoch derzeit deshalb deswegen diese dieser dieses ebenso eigentlich
        einst erst etwa falls ferner ganz gegen gemäß gerade gestern genau heute hier hierzu hinzu immer indem
        innerhalb insbesondere insgesamt inzwischen jede jeder jedes jedoch keine kein laut leider liebe lieber
        manche mancher mehrere meist meistens mittlerweile morgen nachdem nachher natürlich neben nun nur obwohl oft
        ohnehin schließlich schon seitdem sehr selbst seine ihre unsere sobald sofern sogar solche somit sonst
        sowie später statt stets trotz trotzdem über übrigens und unter unser viele vielleicht vielmehr während wegen
        weil weitere weiterhin wenn zudem zuerst zuletzt zunächst zusammen zuvor zwar zwischen beide beim zum zur
        vom am im ins ans aufs alle alles einige eine einer ein sein ihr ihren seiner hat haben ist sind war""",
}


@lru_cache(maxsize=256)
def get_function_words(language: str | None) -> frozenset[str]:
    """Return the casefolded function words of a language; of English, if the language has no list.

    Args:
        language: Language by the name of its analyzer.
    """
    words = _group_function_words()
    selected = words.get(language or ENGLISH) or words[ENGLISH]
    return selected | frozenset(_SENTENCE_WORDS.get(language or ENGLISH, "").split())


@lru_cache(maxsize=1)
def _group_function_words() -> dict[str, frozenset[str]]:
    grouped: dict[str, set[str]] = {}
    for word, languages in build_word_index().items():
        for language in languages:
            grouped.setdefault(language, set()).add(word)
    return {language: frozenset(words) for language, words in grouped.items()}
