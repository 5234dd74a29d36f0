"""Frequent short words by language, which show the language of a text: articles, pronouns, prepositions, questions.

The stop words of ``stop_words`` count too. The lists here add question words, and languages without stop words.
"""

from app.lexical.stop_words import get_stop_words

_LISTS = {
    "afrikaans": """
        'n aan af al as baie by daar dat deur dit een ek en gaan geen haar het hierdie hoe hom hul hulle ja jy kan
        maar meer moet my na nie nog nou of om omdat ons oor op sal sy sê te toe tot tussen uit van vir vra vyf waar
        waarom wanneer wat watter wees wie word
    """,
    "albanian": """
        ajo ata cila cili dhe do duhet edhe ishte janë jo ka kam kanë kjo ku kur këtë me mund më nga nuk në por pse
        për që sa se si tek të unë çfarë çka është
    """,
    "arabic": """
        أن أو أين إلى التي الذي بين ثم على عن في كان كم كيف لا لماذا ما ماذا متى مع من هذا هذه هل هو هي
    """,
    "basque": """
        baina bat bere bi da dago dira du dute edo egin ere eta ez gehiago hau hori izan noiz nola non nor zein
        zenbat zer zergatik
    """,
    "belarusian": """
        або але была быў гэта да дзе з калі на не пры таксама хто чаму што яго як якія яны ёсць і ў
    """,
    "bulgarian": """
        в да е за защо и или как какво кога кои кой коя къде към ли на не от по при с са се това този че ще
    """,
    "catalan": """
        al als amb aquest aquesta aquests com de del dels des el els en està fa ha han hi i la les li molt més no on
        pel pels per perquè però qual quan quant que qui quin quina quins què s'ha seu seva si sobre són també té un
        una va van és
    """,
    "croatian": """
        ali bez bila bio biti da do gdje ili ima iz ja je jer jesu još kada kako kao kod koja koje koji koliko među
        mi na nakon ne nego ni nije od on ona oni po pod prema pri sam samo se smo su sve tko to u uz već za zašto
        šta što
    """,
    "czech": """
        a ale až bez by byl byla bylo být co do funguje i jak jako jaká jaké jaký je jeho jejich jen jsem jsou k kde
        kdo kdy kdyby kolik která které který lze mezi musí má mít může na nad nebo nebyl není než nová nové nový o
        od po pod podle pokud potřeba pro proto proč před při rozdíl s se seznam si stojí ta tak také ten to tu u
        uveď už v ve vysvětli však za ze že
    """,
    "danish": """
        af blev bliver der er fra hvad hvem hvilke hvilken hvilket hvor hvordan hvorfor hvornår ikke kan mange
        mellem og også på skal til
    """,
    "dutch": """
        bij dan deze dit gebruikt geef geldt geven hebben heeft hoe hoeveel hoog kost kosten kun kunt lang leg mag
        moet moeten mogen nieuwe nodig op recht stel tijdens tussen uit verschil vind volgens waar waarin waarmee
        waarom waarvoor wanneer wat welk welke werken werkt wie worden wordt zijn
    """,
    "english": """
        also another anyone anything became become could done else every everyone get gets give given goes however
        instead its let like made make makes many may might much must need needs never often per please rather say
        says shall should show since someone something still take tell than though thus toward towards unless upon
        us use used using via want whether whose within without would yes yet
    """,
    "esperanto": """
        al ankaŭ da de dum en estas estis ili kaj ke kia kiam kie kiel kio kiu kiuj kun la li mi ne nur oni por post
        pri pro sed sub tio tiu tiuj ĉu ĝi ĝis ŝi
    """,
    "estonian": """
        aga alates ega ei et ja ka kas keda kell kes kui kuidas kuni kus la mida miks millal mille millega milles
        milline mis nagu nende ning ole oli olid oma on poolt pärast seda see selle siis välja või üle
    """,
    "filipino": """
        ang ano at ay bakit hindi ito iyon kailan kanilang kaya kung may mga na nang ng ngunit ni paano para pero sa
        saan si sila sino siya
    """,
    "finnish": """
        ennen joka jossa jälkeen kuinka kuka mihin miksi mikä milloin missä mistä miten mitkä mitä monta myös onko
        ovat paljon pitääkö sekä voi voiko
    """,
    "french": """
        après aussi avant avoir c' cela cette combien comme comment coûte d' depuis différence doit doivent donc
        donne dont effets elle elles entre est existe existent explique faire fait faut fonctionne il ils j' jusqu'
        l' liste lors lorsqu' moins n' nouveau nouvelle ont où peut peuvent plus pourquoi puis qu' quand que quel
        quelle quelles quels qui quoi sans selon si sont sous trouve très ça étapes être
    """,
    "german": """
        bei beim bekomme benötigt beziehungsweise bis brauche braucht bzw darf dürfen erkläre erklärt finde gelten
        gibt gilt heißt hilft hoch höhe kann kannst kosten kostet lange mehr muss müssen nach nenne neue neuen neuer
        ohne seit soll sollen sowie sowohl unterschied vom vor voraussetzungen wann warum was welche welcher welches
        wer werden weshalb wie wieso wieviel wird wo woher wohin wurde wurden zeige zum zur zwischen
    """,
    "hindi": """
        अवधि और कब करें कहाँ का कितने की के कैसे को कौन कौनसा क्या क्यों चाहिए जो था ने पर भी मुझे में मेरा यह लिए
        वह से है हैं हो
    """,
    "hungarian": """
        az egy hogy hogyan hol hány kell ki kik lehet melyik mennyi mi mikor milyen mit miért nem van vannak volt és
    """,
    "icelandic": """
        af að ef eftir ekki er eru eða frá fyrir hann hefur hvar hvað hvenær hver hvernig hvers hún meira með mér og
        sem svo sér sín sú til um upp var við á í þar það þegar þeir þess þessi því
    """,
    "indonesian": """
        ada adalah agar akan antara apa apakah atau bagaimana bagaimanakah banyak berapa berapakah bisa cara daftar
        dalam dan dapat dari dengan di diperlukan hanya harus ini itu jelaskan jika juga kami kapan karena ke kepada
        kita lama lebih mana mengapa mereka oleh pada para perbedaan perlu saat saja sangat saya sebagai sebuah
        secara siapa sudah telah tentang tersebut tidak untuk yang
    """,
    "irish": """
        ach ag agus an ar as bhfuil bhí cad cathain chun conas cá cé de do dá faoi gach go i is leis mar na nach ní
        níl seo sin sé sí tá ó
    """,
    "italian": """
        all' anche avere c' che chi ci cioè come con cos' cosa costa d' dall' dell' deve devo devono differenza dopo
        dov' dove effetti elenco esiste esistono essere fare fra il l' meno molto nell' non nuova nuovo per perché
        più posso possono prima puoi può qual quale quali quando quanto quindi riassumi secondo senza serve servono
        si sono spiega sull' tra trova un' vengono viene è
    """,
    "latvian": """
        ar arī bet bez bija būt gan ir kad kas kur kā kāda kādi kāds kāpēc lai nav ne no par pie pirms pēc tas to tā
        un uz vai vairāk var viņa viņš šis
    """,
    "lithuanian": """
        apie ar bet bus buvo būti dėl ir iš jei ji jis jo jos kad kada kai kaip kas kiek kodėl kokia kokie koks kur
        kuri kurie kurio kuris net nuo nėra o pagal per po prie su tai taip tarp tik turi už yra šis
    """,
    "macedonian": """
        во ги да дека е за зошто и или каде како кога кои кој која ли на не ова од при се со што ќе
    """,
    "marathi": """
        आणि आहे आहेत कधी कसे का काय किती कुठे कोण चा ची च्या ते मध्ये या साठी ही हे होते
    """,
    "nepali": """
        कति कसरी कहाँ कहिले किन के को गर्न छ छन् त्यो पनि भने मा यो र लाई लागि ले हो
    """,
    "norwegian": """
        av ble blir er fra hva hvem hvilke hvilken hvilket hvor hvordan hvorfor ikke kan mange mellom når og også på
        skal til
    """,
    "persian": """
        آن آیا از است این با برای به بین تا در را شود می های هم چرا چند چه چگونه کجا کدام که یا
    """,
    "polish": """
        ale bez być był była było były co czy dla dlaczego do działa gdy gdzie go i ich ile ja jak jaka jaki jakie
        jako jego jej jest jeśli już kiedy kosztuje kto która które który lista lub ma mają między mnie może można
        na nad należy nie niż nowa nowe nowy o od oraz po pod podaj potrzebne potrzebny przed przez przy różnica się
        są tak także tego tej ten to tylko tym u w we według wszystkie wyjaśnij z za ze zmienić że
    """,
    "portuguese": """
        antes ao aos após como custa da das desde deve devem devo diferença do dos efeitos em entre está estão
        existe existem explique fazer faça fica foi lista mais menos na nas no nos nova novo não o onde os passos
        pela pelo pode podem porque posso preciso quais qual quando quantas quanto quantos que quem resumo sem ser
        sob sobre são também ter têm um uma é
    """,
    "romanian": """
        această acest ai al ale am ar au ca care ce cea cel cele cine cu cum când cât câte câți că dacă de din după
        este eu ești fi fost fără la le mai nu o pe pentru poate prin sau se sunt să un unde unei unui în între și
    """,
    "russian": """
        быть где для до если зачем или как какая какие каков какое какой какую когда которая которые который которых
        кто между может можно нужно после почему при сколько также что чтобы это является
    """,
    "serbian": """
        где да за зашто и или када како као ко која које који ли на не ово од при са се су у шта је ће
    """,
    "sesotho": """
        ba bona e ea empa eng ha haholo hape ho hore jang ka kae kahoo kamoo ke le leha li mme mo na neng re sa se
        tla tsa tse ya
    """,
    "slovak": """
        a aj ako aká aké aký ale alebo ani bez bol bola boli bolo by byť do ho i iba ich je jeho k kde kedy koľko
        kto ktorá ktoré ktorý ku len medzi musí má môže na nad nie o od po pod podľa pre pred prečo pri s sa si so
        som sú tak tento to už v vo však z za zo čo že
    """,
    "slovenian": """
        ali bi bil bila bilo biti bo da do ga ima in iz ja je jih kaj kako kakšen kakšna katera katere kateri kdaj
        kdo ki kje ko koliko lahko med na ne ni o ob od po pod pri s se sem si so ta te to tudi v več z za zakaj če
        še
    """,
    "somali": """
        aan ah ama ayaa ayay baa ee in iyo ka kala ku kuwa la ma maxaa oo si sida soo tahay ugu uu waa waxa waxaa
        waxay yahay
    """,
    "spanish": """
        al antes cuesta cuál cuáles cuándo cuánta cuántas cuánto cuántos cómo debe deben del desde después
        diferencia dónde entre es está están existe existen explica fue hace hacen hacer hasta las lista los mayor
        mayores menos más necesito nueva nuevo para pasos por puede pueden puedo quiero quién quiénes qué resume se
        según ser sin son también tener tienen un una
    """,
    "swahili": """
        au baada bila cha gani hadi hii hilo hiyo hizo huo huu ili jinsi kama katika kuwa kwa kwamba la lakini lini
        na nani ni nini pia sana vipi wa wake wapi ya yake za
    """,
    "swedish": """
        att av blev blir från hur inte kan mellan många när och också på ska som till vad var varför vem vilka
        vilken vilket är
    """,
    "turkish": """
        ancak arası arasında arasındaki açıkla bir bu da daha değil edebilir edebilirim eder edilir en fark farkı
        gerekir gerekiyor gerekli gibi göre hakkı hakkında hangi hangileri hangisi ile ise için içinde kadar
        kadardır karşı kaç kim kimdir kimin listele mi midir miyim mu musun mü mı mıdır nasıl ne neden nedir
        nelerdir nerede nereden nereye niçin olabilir olan olarak olup olur sonra tarafından var vardır ve ver veya
        ya yapabilir yapılır yeni yok yılında zaman zorunda çok çünkü önce üzerinde şekilde
    """,
    "ukrainian": """
        або в вони від де для до з й його коли може можна між на не потрібно при після скільки та також у хто це чи
        чому що щоб як яка яке який якщо які є і її
    """,
    "urdu": """
        اور بھی تھا جو سے میں نے وہ پر کا کب کتنے کو کون کہاں کی کیا کیسے کیوں کے ہو ہیں ہے یہ
    """,
    "vietnamese": """
        bao cho các cái có cũng của gì hay hoặc khi không là làm lại mà một nhiều như nhưng những nào này ra rằng
        sao sẽ theo thì thế trong trên tại từ và vào vì về với đang đã đó được đến để ở
    """,
    "welsh": """
        a ac ar beth ble bod ei eich er faint fel fod gan gyda hwn hyn i'r mae mewn nid o'r oedd oes pam pan pwy sut
        sy sydd wedi wrth y ym yn yng yr
    """,
}
_LOOKALIKES = {
    # Words of other languages that are English words with another meaning. They count for no language.
    "english": """
        ad alt ar art as aura bare bat bet bin by care chi come dan do dog door end era far fast fin find fine fire
        go hat hi hindi ill in ir is jak just kim land lo man mange mar me men met mine mo my net no nor ob of on or
        pan plus post pro pus ra re sam sea see ser sin so some son ten that the to under ve war was we when where
        who will with word yr
    """,
}
_LETTERS = {
    "albanian": "çë", "catalan": "àçèéíïòóúü", "croatian": "čćđšž", "czech": "áčďéěíňóřšťúůýž", "danish": "æøå",
    "dutch": "ëïé", "esperanto": "ĉĝĥĵŝŭ", "estonian": "äõöüšž", "finnish": "äö", "french": "àâçèéêëîïôùûüœ",
    "german": "äöüß", "hungarian": "áéíóöőúüű", "icelandic": "áæðéíóöþúý", "irish": "áéíóú", "italian": "àèéìòù",
    "latvian": "āčēģīķļņšūž", "lithuanian": "ąčėęįšųūž", "norwegian": "æøå", "polish": "ąćęłńóśźż",
    "portuguese": "áàâãçéêíóôõú", "romanian": "ăâîșțşţ", "slovak": "áäčďéíĺľňóôŕšťúýž", "slovenian": "čšž",
    "spanish": "áéíñóúü", "swedish": "äåö", "turkish": "çğıöşüâî", "welsh": "âêîôûŵŷ",
    "russian": "ёыэ", "ukrainian": "ґєії", "belarusian": "ёіўыэ", "bulgarian": "ъ", "serbian": "ђјљњћџ",
    "macedonian": "ѓѕјќљњџ", "arabic": "ةىيكإأ", "persian": "پچژگکی", "urdu": "ٹڈڑںھہےکی", "marathi": "ळ",
    "vietnamese": "àáâãèéêìíòóôõùúýăđĩũơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹ",
}  # fmt: skip


def build_word_index() -> dict[str, frozenset[str]]:
    """Return the languages of each function word. Function words of English have ``english`` among their languages."""
    languages: dict[str, set[str]] = {}
    english = {*_LISTS["english"].split(), *get_stop_words("english")}
    lookalikes = set(_LOOKALIKES["english"].split()) - english
    for language, words in _LISTS.items():
        for word in {*words.split(), *get_stop_words(language)} - lookalikes:
            languages.setdefault(word, set()).add(language)
    return {word: frozenset(names) for word, names in languages.items()}


def build_letter_index() -> dict[str, frozenset[str]]:
    """Return the languages of each letter that shows the language, such as "ß" or "ї"."""
    letters = {letter for alphabet in _LETTERS.values() for letter in alphabet}
    return {
        letter: frozenset(language for language, alphabet in _LETTERS.items() if letter in alphabet)
        for letter in letters
    }
