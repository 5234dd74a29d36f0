"""Texts of many languages with the encodings they are often stored in, for ``benchmarks/encodings.py``."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LanguageSample:
    """Texts of one language.

    Attributes:
        language: Name of the language.
        encodings: Python's names of the encodings.
        paragraph: Four sentences or more.
        words: Three common words: an item, an adjective or second item, and a unit or place.
    """

    language: str
    encodings: tuple[str, ...]
    paragraph: str
    words: tuple[str, str, str]


SAMPLES = (
    LanguageSample(
        "russian", ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac_cyrillic"),
        "Гарантийный срок составляет два года со дня покупки. Чтобы вернуть товар, напишите нам письмо и "
        "приложите копию "
        "чека. Мы заберём посылку бесплатно и вернём деньги в течение десяти рабочих дней. Изделия, изготовленные на "
        "заказ, возврату не подлежат.",
        ("Гайка", "Шайба стальная", "Москва"),
    ),
    LanguageSample(
        "ukrainian", ("cp1251", "koi8-u", "iso8859-5"),
        "Гарантійний термін становить два роки від дня придбання. Щоб повернути товар, напишіть нам листа й "
        "додайте копію "
        "чека. Ми заберемо посилку безкоштовно та повернемо кошти протягом десяти робочих днів.",
        ("Гайка", "Шайба сталева", "Київ"),
    ),
    LanguageSample(
        "bulgarian", ("cp1251", "iso8859-5"),
        "Гаранционният срок е две години от деня на покупката. За да върнете стоката, пишете ни и приложете копие от "
        "касовата бележка. Ние ще вземем пратката безплатно и ще възстановим парите до десет работни дни.",
        ("Гайка", "Стоманена шайба", "София"),
    ),
    LanguageSample(
        "greek", ("cp1253", "iso8859-7", "cp737"),
        "Η εγγύηση ισχύει για δύο χρόνια από την ημέρα της αγοράς. Για να επιστρέψετε το προϊόν, γράψτε μας και "
        "στείλτε "
        "αντίγραφο της απόδειξης. Παραλαμβάνουμε το δέμα δωρεάν και επιστρέφουμε τα χρήματα μέσα σε δέκα "
        "εργάσιμες ημέρες.",
        ("Βίδα", "Παξιμάδι ατσάλινο", "Αθήνα"),
    ),
    LanguageSample(
        "turkish", ("cp1254", "iso8859-9", "cp857"),
        "Garanti süresi satın alma tarihinden itibaren iki yıldır. Ürünü iade etmek için bize yazın ve faturanın bir "
        "kopyasını ekleyin. Kargoyu ücretsiz alırız ve parayı on iş günü içinde geri öderiz. Özel sipariş ürünler iade "
        "edilemez.",
        ("Çelik vida", "Kısa ağaç tapası", "Eskişehir"),
    ),
    LanguageSample(
        "hebrew", ("cp1255", "iso8859-8", "cp862"),
        "האחריות תקפה למשך שנתיים מיום הרכישה. כדי להחזיר מוצר יש לשלוח אלינו הודעה ולצרף העתק של הקבלה. אנו נאסוף את "
        "החבילה ללא תשלום ונחזיר את הכסף בתוך עשרה ימי עסקים. מוצרים שהוזמנו במיוחד אינם ניתנים להחזרה.",
        ("בורג", "אום פלדה", "חיפה"),
    ),
    LanguageSample(
        "arabic", ("cp1256", "iso8859-6"),
        "يسري الضمان لمدة سنتين من تاريخ الشراء. لإرجاع المنتج يرجى مراسلتنا وإرفاق نسخة من الفاتورة. نستلم "
        "الطرد مجانا "
        "ونعيد المبلغ خلال عشرة أيام عمل. لا يمكن إرجاع المنتجات المصنوعة حسب الطلب.",
        ("مسمار", "صامولة فولاذية", "القاهرة"),
    ),
    LanguageSample(
        "polish", ("cp1250", "iso8859-2", "cp852"),
        "Gwarancja obowiązuje przez dwa lata od dnia zakupu. Aby zwrócić towar, należy do nas napisać i załączyć kopię "
        "paragonu. Odbierzemy przesyłkę bezpłatnie i zwrócimy pieniądze w ciągu dziesięciu dni roboczych. "
        "Wyroby wykonane "
        "na zamówienie nie podlegają zwrotowi.",
        ("Śruba", "Nakrętka żółta", "Łódź"),
    ),
    LanguageSample(
        "czech", ("cp1250", "iso8859-2", "mac_latin2"),
        "Záruka platí dva roky ode dne nákupu. Chcete-li zboží vrátit, napište nám a přiložte kopii účtenky. Zásilku "
        "vyzvedneme zdarma a peníze vrátíme do deseti pracovních dnů. Výrobky na zakázku vrátit nelze.",
        ("Šroub", "Ocelová matice žlutá", "Plzeň"),
    ),
    LanguageSample(
        "hungarian", ("cp1250", "iso8859-2"),
        "A jótállás a vásárlás napjától számított két évig érvényes. A termék visszaküldéséhez írjon nekünk, és "
        "csatolja a "
        "számla másolatát. A csomagot díjmentesen elszállítjuk, és tíz munkanapon belül visszafizetjük az összeget.",
        ("Csavar erős", "Sárga anyacsavar", "Győr"),
    ),
    LanguageSample(
        "lithuanian", ("cp1257", "iso8859-13"),
        "Garantija galioja dvejus metus nuo pirkimo dienos. Norėdami grąžinti prekę, parašykite mums ir "
        "pridėkite čekio "
        "kopiją. Siuntą paimsime nemokamai ir pinigus grąžinsime per dešimt darbo dienų. Pagal užsakymą "
        "pagamintų gaminių "
        "grąžinti negalima.",
        ("Varžtas", "Geležinė veržlė", "Šiauliai"),
    ),
    LanguageSample(
        "latvian", ("cp1257", "iso8859-13"),
        "Garantija ir spēkā divus gadus no pirkuma dienas. Lai atgrieztu preci, rakstiet mums un pievienojiet "
        "čeka kopiju. "
        "Sūtījumu saņemsim bez maksas un naudu atmaksāsim desmit darba dienu laikā.",
        ("Skrūve", "Tērauda uzgrieznis", "Rēzekne"),
    ),
    LanguageSample(
        "vietnamese", ("cp1258",),
        "Thời hạn bảo hành là hai năm kể từ ngày mua hàng. Để trả lại sản phẩm, hãy viết thư cho chúng tôi và "
        "gửi kèm bản "
        "sao hóa đơn. Chúng tôi nhận lại hàng miễn phí và hoàn tiền trong vòng mười ngày làm việc.",
        ("Đinh ốc", "Vòng đệm thép", "Hà Nội"),
    ),
    LanguageSample(
        "german", ("cp1252", "cp850", "mac_roman"),
        "Die Gewährleistung gilt zwei Jahre ab dem Tag des Kaufs. Für die Rücksendung schreiben Sie uns bitte "
        "und fügen Sie "
        "eine Kopie der Rechnung bei. Wir holen das Paket kostenlos ab und überweisen den Betrag innerhalb von zehn "
        "Werktagen. Maßanfertigungen können nicht zurückgegeben werden.",
        ("Schraube groß", "Unterlegscheibe für Möbel", "Köln"),
    ),
    LanguageSample(
        "french", ("cp1252", "cp850", "mac_roman"),
        "La garantie est valable deux ans à compter du jour de l’achat. Pour renvoyer un article, écrivez-nous "
        "et joignez "
        "une copie du reçu. Nous récupérons le colis gratuitement et vous remboursons sous dix jours ouvrés. "
        "Les pièces "
        "fabriquées à la demande ne sont ni reprises ni échangées.".replace("’", "'"),
        ("Écrou", "Rondelle en métal trempé", "Orléans"),
    ),
    LanguageSample(
        "spanish", ("cp1252", "cp850"),
        "La garantía es válida durante dos años desde el día de la compra. Para devolver un artículo, "
        "escríbanos y adjunte "
        "una copia del recibo. Recogemos el paquete sin coste y reembolsamos el dinero en un plazo de diez días "
        "hábiles.",
        ("Tornillo pequeño", "Arandela de latón", "Málaga"),
    ),
    LanguageSample(
        "swedish", ("cp1252", "cp850"),
        "Garantin gäller i två år från inköpsdagen. Skriv till oss och bifoga en kopia av kvittot om du vill lämna "
        "tillbaka varan. Vi hämtar paketet kostnadsfritt och återbetalar pengarna inom tio arbetsdagar.",
        ("Träskruv", "Mutter av mässing", "Göteborg"),
    ),
    LanguageSample(
        "thai", ("cp874", "tis-620"),
        "การรับประกันมีผลสองปีนับจากวันที่ซื้อ หากต้องการคืนสินค้า โปรดเขียนถึงเราและแนบสำเนาใบเสร็จ "
        "เรารับพัสดุคืนโดยไม่มีค่าใช้จ่ายและคืนเงินภายในสิบวันทำการ",
        ("ตะปู", "แหวนรองเหล็ก", "เชียงใหม่"),
    ),
    LanguageSample(
        "japanese", ("cp932", "euc_jp", "iso2022_jp"),
        "保証期間はお買い上げの日から二年間です。商品を返品する場合は、領収書の写しを添えてご連絡ください。荷物は無料で"
        "引き取り、十営業日以内に返金いたします。特注品の返品はお受けできません。",
        ("ねじ", "座金ステンレス", "大阪"),
    ),
    LanguageSample(
        "chinese", ("gb18030",),
        "保修期自购买之日起为两年。如需退货，请写信给我们并附上发票的复印件。我们免费取回包裹，并在十个工作日内退款。"
        "按要求定制的产品不能退货。",
        ("螺母", "不锈钢垫圈", "广州"),
    ),
    LanguageSample(
        "traditional chinese", ("big5",),
        "保固期自購買之日起為兩年。如需退貨，請寫信給我們並附上發票的影本。我們免費取回包裹，並在十個工作天內退款。"
        "依要求訂製的產品不能退貨。",
        ("螺帽", "不鏽鋼墊圈", "台北"),
    ),
    LanguageSample(
        "korean", ("cp949", "iso2022_kr"),
        "보증 기간은 구입일로부터 이 년입니다. 제품을 반품하려면 영수증 사본을 첨부하여 "
        "저희에게 연락해 주십시오. 저희가 "
        "무료로 수거하고 영업일 기준 열흘 이내에 환불해 드립니다.",
        ("나사", "강철 와셔", "부산"),
    ),
)  # fmt: skip
