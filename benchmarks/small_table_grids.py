"""Small tables with known grids, which the benchmark of tables renders in every format.

A grid is written as lines of cells between bars. A cell ``<`` continues the cell on its left, a cell ``^`` continues
the cell above, and ``//`` is a line break inside a cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class Ruling(StrEnum):
    """Lines that are drawn around the cells of a table, in formats that draw."""

    ALL = "all"
    HORIZONTAL = "horizontal"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class GridCell:
    """Cell of a small table.

    Attributes:
        text: Text; ``\\n`` is a line break inside the cell. Empty for an empty cell.
        columns: Number of columns that the cell covers.
        rows: Number of rows that the cell covers.
    """

    text: str
    columns: int = 1
    rows: int = 1

    @property
    def line(self) -> str:
        """Text of the cell on one line."""
        return " ".join(self.text.split())


GridRow = Sequence[GridCell | None]
"""Cells of a row by column. None: the column is covered by a cell on the left or above."""


@dataclass(frozen=True, slots=True)
class SmallTable:
    """Table with a known grid. All rows have the same number of columns.

    Attributes:
        name: Name of the table, unique among the tables.
        caption: Lines above the table: its title, and its unit.
        header: Header rows.
        rows: Rows below the header.
        footnotes: Lines below the table.
        ruling: Lines that a renderer draws if it has the choice.
        has_split_signs: Whether a renderer may put a currency sign, bracket or ``%`` apart from its number.
    """

    name: str
    caption: Sequence[str]
    header: Sequence[GridRow]
    rows: Sequence[GridRow]
    footnotes: Sequence[str] = ()
    ruling: Ruling = Ruling.ALL
    has_split_signs: bool = False

    def list_heads(self) -> list[str]:
        """Return the head of each column: its header cells joined by spaces, with the text of spans repeated."""
        expanded = expand_spans(self.header)
        heads = []
        for column in range(len(self.header[0])):
            texts = [row[column] for row in expanded]
            heads.append(" ".join(text for index, text in enumerate(texts) if text and text not in texts[:index]))
        return heads

    def list_rows(self) -> list[list[str]]:
        """Return the texts of the rows below the header, with the text of spans repeated."""
        return expand_spans(self.rows)


def expand_spans(rows: Sequence[GridRow]) -> list[list[str]]:
    """Return the texts of rows of cells. The text of a span is repeated in each of its columns and rows.

    Args:
        rows: Rows of cells.

    Returns:
        Rows of texts without line breaks, all with the same number of columns.
    """
    texts = [["" for _ in row] for row in rows]
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell is not None:
                for covered in texts[number : number + cell.rows]:
                    covered[column : column + cell.columns] = [cell.line] * cell.columns
    return texts


def parse_grid(grid: str) -> list[GridRow]:
    """Parse rows of cells from their notation.

    Args:
        grid: A line for each row.

    Returns:
        The rows.
    """
    words = [[word.strip() for word in line.split("|")] for line in grid.strip().splitlines()]
    rows = list[GridRow]()
    for number, line in enumerate(words):
        row = list[GridCell | None]()
        for column, word in enumerate(line):
            if word in ("<", "^"):
                row.append(None)
                continue
            columns = 1
            while column + columns < len(line) and line[column + columns] == "<":
                columns += 1
            height = 1
            while number + height < len(words) and words[number + height][column] == "^":
                height += 1
            row.append(GridCell(word.replace(" // ", "\n"), columns, height))
        rows.append(row)
    return rows


def _build(name: str, caption: str, header: str, rows: str, footnotes: str = "", *, style: str = "all") -> SmallTable:
    ruling, _, signs = style.partition(" ")
    return SmallTable(
        name,
        caption.splitlines(),
        parse_grid(header),
        parse_grid(rows),
        footnotes.splitlines(),
        Ruling(ruling),
        signs == "split",
    )


TABLES: Sequence[SmallTable] = (
    _build(
        "plans", "Plans and support", "Plan | Storage | Support",
        "Basic | 10 GB | Mail only, // workdays\nPro | | Phone // 24/7\nMax | 1 TB | Phone 24/7",
    ),
    _build(
        "rates", "Hourly rates of the depot", "Vehicle | Weekday | Weekend",
        "Van | 18 EUR | 22 EUR\nTruck | 41 EUR | 47 EUR\nTrailer | 9 EUR | 11 EUR\nBicycle | 3 EUR | 3 EUR",
        style="none",
    ),
    _build(
        "balance", "Alder Works Inc. – Balance sheet\n(in millions)", " | June 30, // 2025 | December 31, // 2024",
        "Current assets: | |\nCash and cash equivalents | $2,150 | $2,077\nAccounts receivable | 1,204 | 1,169\n"
        "Total current assets | 3,354 | 3,246\nGoodwill | 812 | 812\nOther assets | 97 | 140\n"
        "Total assets | $4,263 | $4,198",
        style="none split",
    ),
    _build(
        "income", "Consolidated statement of income\n(in thousands, except per share amounts)",
        " | Three Months Ended June 30, | < | Six Months Ended June 30, | <\n | 2025 | 2024 | 2025 | 2024",
        "Net revenues | $2,540 | $2,422 | $5,050 | $4,905\nCost of net revenues | 722 | 657 | 1,424 | 1,341\n"
        "Gross profit | 1,818 | 1,765 | 3,626 | 3,564\nOther loss, net | (47) | (12) | (88) | (31)\n"
        "Diluted income per share | $0.32 | $0.98 | $1.37 | $1.74",
        style="none split",
    ),
    _build(
        "segments", "Operating income by segment\n(dollars in millions)",
        "Segment | Three Months Ended | < | <\n^ | July 1, 2025 | June 29, 2024 | Change",
        "Americas: | | |\nNet sales | $35,383 | $37,472 | (6)%\nOperating income | $13,117 | $13,914 | (6)%\n"
        "Europe: | | |\nNet sales | $20,205 | $19,287 | 5%\nOperating income | $7,995 | $7,050 | 13%",
        style="horizontal split",
    ),
    _build(
        "regions", "Revenue by geography", "Region | Q1 | Q2 | Q3 | Q4",
        "North | 101 | 117 | 124 | 139\nSouth | 88 | 90 | 85 | 91\nEast | 47 | 52 | 61 | 66\nWest | 33 | 31 | 38 | 40",
        style="horizontal",
    ),
    _build(
        "rowspan", "Prices by region", "Region | Plan | Price",
        "Europe | Basic | 10 EUR\n^ | Pro | 20 EUR\n^ | Max | 35 EUR\nAsia | Basic | 9 EUR\n^ | Pro | 18 EUR",
    ),
    _build(
        "colspan-head", "Members", "Name | < | Age", "Ada | Lovelace | 36\nAlan | Turing | 41\nGrace | Hopper | 85",
    ),
    _build(
        "tolerances", "Table 4. Shaft tolerances in micrometres",
        "Diameter | Fit h6 | < | Fit k6 | <\n^ | upper | lower | upper | lower",
        "6 to 10 mm | 0 | -9 | +10 | +1\n10 to 18 mm | 0 | -11 | +12 | +1\n18 to 30 mm | 0 | -13 | +15 | +2",
    ),
    _build(
        "checks", "Features of the editions", "Feature | Home | Team | Enterprise",
        "Single sign-on | ✗ | ✓ | ✓\nAudit log | ✗ | ✗ | ✓\nOffline mode | ✓ | ✓ | ✓\nOwn domain | ✗ | ✓ | ✓",
    ),
    _build(
        "wrapped-labels", "Allowances per journey", "Kind of journey | Daily allowance | Limit",
        "Journeys within the country of more than // eight hours without a night | 14 EUR | 60 EUR\n"
        "Journeys abroad with at least // one night in a hotel | 28 EUR | 150 EUR\n"
        "Day trips by bicycle | 6 EUR | 20 EUR",
        style="horizontal",
    ),
    _build(
        "empty-first", "Stock at the end of May", "Item | Berlin | Lyon | Turin",
        "Ash boards | | 40 | 12\nOak boards | 17 | | 3\nPine boards | 220 | 95 |\nBirch boards | | | 8",
    ),
    _build(
        "empty-unruled", "Stock at the end of June", "Item | Berlin | Lyon | Turin",
        "Ash boards | | 41 | 13\nOak boards | 18 | | 4\nPine boards | 221 | 96 |\nBirch boards | 7 | 2 | 9\n"
        "Elm boards | | | 5",
        style="none",
    ),
    _build(
        "percentages", "Gross margin percentage", " | 2025 | 2024",
        "Products | 35.4% | 34.5%\nServices | 70.5% | 71.5%\nTotal gross margin percentage | 44.5% | 43.3%",
        style="none split",
    ),
    _build(
        "footnotes", "Headcount (in thousands)", "Function | 2024 | 2025",
        "Research | 12.4 | 13.0\nSales (1) | 8.8 | 8.1\nOperations (2) | 31.9 | 33.2",
        "(1) Without agencies.\n(2) Includes the workforce of the acquired mills.", style="horizontal",
    ),
    _build(
        "currencies", "Exchange rates on the first of the month", "Currency | March | April | May",
        "US dollar | 1.0842 | 1.0719 | 1.0858\nPound sterling | 0.8551 | 0.8546 | 0.8583\nYen | 162.3 | 164.5 | 168.1",
        style="none",
    ),
    _build(
        "addresses", "Where to find us", "Office | Address | Hours",
        "Hamburg | Kaiweg 4 // 20457 Hamburg | 9–17\nLyon | 12 rue du Port // 69002 Lyon | 10–18\n"
        "Turin | Via Po 33 // 10124 Torino | 8–16",
    ),
    _build(
        "parts", "Spare parts", "Part | Description | Price",
        "P-0001 | Gasket, rubber | 1.20 EUR\nP-0002 | Valve, brass | 14.80 EUR\nP-0003 | Spring, steel | 0.95 EUR\n"
        "P-0004 | Housing, aluminium | 48.00 EUR\nP-0005 | Screw M4 | 0.08 EUR\nP-0006 | Hose, 2 m | 7.40 EUR",
        style="none",
    ),
    _build(
        "parts-ruled", "Spare parts of the pump", "Part | Description | Price",
        "P-0101 | Gasket, rubber | 1.30 EUR\nP-0102 | Valve, brass | 15.80 EUR\nP-0103 | Spring, steel | 0.99 EUR\n"
        "P-0104 | Housing, aluminium | 49.00 EUR",
    ),
    _build(
        "one-row", "Current offer", "Model | Range | Price", "Courier 3 | 140 km | 4,200 EUR",
    ),
    _build(
        "two-columns", "Properties of the alloy", "Property | Value",
        "Density | 2.70 g/cm³\nMelting point | 660 °C\nTensile strength | 310 MPa\nElongation | 12 %",
    ),
    _build(
        "two-columns-unruled", "Fees of the archive", "Service | Fee",
        "Copy of a page | 0.30 EUR\nCertified copy | 8.00 EUR\nResearch, per hour | 62.00 EUR\n"
        "Scan of a map | 15.00 EUR",
        style="none",
    ),
    _build(
        "lists", "Limits of the plans", "Plan | Included | Not included",
        "Free | 2 users // 1 project | Backup // Support\nTeam | 20 users // 50 projects // Backup | Support\n"
        "Firm | All of it | Nothing",
    ),
    _build(
        "negative", "Cash flow\n(in millions of euros)", " | 2025 | 2024 | 2023",
        "Operating activities | 1,940 | 2,210 | 1,850\nInvesting activities | (1,120) | (985) | (1,310)\n"
        "Financing activities | (640) | (1,015) | (402)\nNet change in cash | 180 | 210 | 138",
        style="none split",
    ),
    _build(
        "dashes", "Reserves\n($ in thousands)", "Account | Opening | Added | Used | Closing",
        "Warranty | $310 | $45 | $(28) | $327\nRestructuring | — | 120 | — | 120\nLegal | 75 | — | (75) | —",
        style="none split",
    ),
    _build(
        "sections", "Comparable sales", " | Quarter ended June 30, | < | Six months ended June 30, | <\n"
        " | 2025 | 2024 | 2025 | 2024",
        "Markets: | | | |\nUnited States | 10.3% | 3.7% | 11.4% | 3.6%\n"
        "Operated abroad | 11.9% | 13.0% | 12.2% | 16.2%\n"
        "Licensed abroad | 14.0% | 16.0% | 13.4% | 15.4%\nTotal | 11.7% | 9.7% | 12.1% | 10.7%",
        style="horizontal split",
    ),
    _build(
        "timetable", "Ferry from pier 2", "Departure | Weekdays | Saturday | Sunday",
        "First boat | 05:40 | 07:10 | 08:00\nLast boat | 23:50 | 00:50 | 22:20\nEvery | 20 min | 30 min | 40 min",
    ),
    _build(
        "dosage", "Table 2: Dosage by weight", "Weight | Single dose | Doses per day | Maximum",
        "10–15 kg | 100 mg | 3 | 300 mg\n16–25 kg | 150 mg | 3 | 450 mg\n26–40 kg | 200 mg | 4 | 800 mg\n"
        "over 40 kg | 400 mg | 3 | 1,200 mg", "Take with water. Not for infants.", style="horizontal",
    ),
    _build(
        "row-groups", "Opening hours by season", "Season | Day | Opens | Closes",
        "Summer | Monday to Friday | 8:00 | 20:00\n^ | Saturday | 9:00 | 18:00\n"
        "Winter | Monday to Friday | 9:00 | 17:00\n"
        "^ | Saturday | 10:00 | 14:00",
    ),
    _build(
        "body-span", "Delivery times", "Country | Letter | Parcel | Freight",
        "Germany | 1 day | 2 days | 4 days\nFrance | 2 days | 3 days | 6 days\nIceland | 5 days | on request | <",
    ),
    _build(
        "three-line-head", "Pension obligations",
        "Plan | Present value // at the end // of the year | Discount // rate",
        "Staff plan | 4,120 | 3.1 %\nManagers' plan | 870 | 2.9 %\n"
        "Closed plan of 1998 | 1,530 | 3.4 %", style="horizontal",
    ),
    _build(
        "mixed-heads", "Sensors of the test stand", "Sensor | Range | < | Accuracy | Interface\n^ | min | max | ^ | ^",
        "T-100 | -40 °C | 125 °C | 0.5 K | I2C\nT-200 | -200 °C | 850 °C | 0.1 K | SPI\n"
        "P-50 | 0 bar | 16 bar | 0.2 % | CAN",
    ),
    _build(
        "german", "Umsatz nach Sparten\n(in Mio. EUR)", "Sparte | 2024 | 2025 | Veränderung",
        "Papier | 1.204,5 | 1.318,2 | 9,4 %\nZellstoff | 842,0 | 801,7 | -4,8 %\n"
        "Verpackung | 2.010,3 | 2.144,9 | 6,7 %",
        style="none",
    ),
    _build(
        "french", "Tarifs de la cantine", "Repas | Élèves | Adultes",
        "Déjeuner | 3,20 € | 6,80 €\nDîner | 2,90 € | 5,40 €\nGoûter | 1,10 € | 1,10 €",
    ),
    _build(
        "shares", "Weighted average shares outstanding (shares in millions)", " | Basic | Diluted",
        "First quarter | 731.9 | 737.2\nSecond quarter | 729.0 | 734.3\nThird quarter | 726.4 | 731.5", style="none",
    ),
    _build(
        "bonds", "Underwriters",
        "Underwriter | Principal amount of // bonds due 2033 | Principal amount of // bonds due 2053",
        "Harbor Capital Markets Corp. | $92,000,000 | $55,000,000\nLoop & Sons LLC | 23,000,000 | 13,750,000\n"
        "Oak Securities Inc. | 23,000,000 | 13,750,000\nTotal | $138,000,000 | $82,500,000", style="none split",
    ),
    _build(
        "glossary", "Terms used in the contract", "Term | Meaning",
        "Carrier | The party that moves // the goods on its own ship.\n"
        "Consignee | The party that receives // the goods.\n"
        "Notice | A written message, // by mail or by letter.",
    ),
    _build(
        "wide", "Rainfall in millimetres", "Station | Jan | Feb | Mar | Apr | May | Jun | Jul | Aug",
        "Hill | 61 | 48 | 55 | 40 | 62 | 71 | 80 | 77\nCoast | 88 | 70 | 66 | 51 | 49 | 50 | 58 | 63\n"
        "Valley | 44 | 39 | 41 | 36 | 58 | 69 | 74 | 70", style="none",
    ),
    _build(
        "wide-ruled", "Snow depth in centimetres", "Station | Nov | Dec | Jan | Feb | Mar | Apr",
        "Pass | 20 | 65 | 110 | 140 | 150 | 90\nHut | 5 | 30 | 55 | 80 | 70 | 20\nVillage | | 10 | 25 | 30 | 5 |",
    ),
    _build(
        "units", "Consumption of the test drives", "Vehicle | Energy (kWh/100 km) | Range (km)",
        "Model A | 15.4 | 420\nModel B | 18.9 | 388\nModel C | 22.1 | 510\nModel D | 13.0 | 275", style="horizontal",
    ),
    _build(
        "totals", "Invoice 2025-118", "Item | Quantity | Unit price | Amount",
        "Paper, A4 | 40 | $4.10 | $164.00\nToner, black | 3 | $58.00 | $174.00\nEnvelopes | 500 | $0.06 | $30.00\n"
        "Total | | | $368.00", style="horizontal split",
    ),
    _build(
        "numbers-as-labels", "Articles on stock", "Article | Shelf | Pieces",
        "1001 | A3 | 14\n1002 | A4 | 0\n1003 | B1 | 250\n1004 | B2 | 36",
    ),
    _build(
        "years-as-rows", "Members of the society", "Year | Members | Fees paid | Share paid",
        "2021 | 1,204 | 1,150 | 95.5%\n2022 | 1,310 | 1,262 | 96.3%\n2023 | 1,287 | 1,290 | 100.2%\n"
        "2024 | 1,402 | 1,333 | 95.1%",
        style="none",
    ),
    _build(
        "nested-labels", "Current liabilities\n(in millions)", " | 2025 | 2024",
        "Short-term debt | $750 | $1,150\nAccrued expenses: | |\nWages and taxes | 412 | 396\nRent | 38 | 41\n"
        "Deferred revenue | 120 | 99\nTotal current liabilities | $1,320 | $1,686", style="none split",
    ),
    _build(
        "long-cells", "Duties of the tenant", "Duty | Deadline | Consequence of delay",
        "Payment of the rent | Third working day // of each month | Reminder, then a fee // of five euros per week\n"
        "Return of the keys | Last day of the lease | New locks at the // cost of the tenant\n"
        "Report of damage | Within two days | Liability for the // damage that follows",
    ),
    _build(
        "alternating-empty", "Shifts of the week", "Name | Mon | Tue | Wed | Thu | Fri",
        "Amira | early | early | | late | late\nBence | late | | early | early |\nChloe | | night | night | | early",
    ),
)  # fmt: skip
"""Tables with different kinds of heads, labels, spans, signs and empty cells."""


def list_tables(ruling: Ruling | None = None) -> list[SmallTable]:
    """Return the tables, all with one ruling if one is requested. Tables with spans in their rows are always ruled.

    Args:
        ruling: Ruling of the tables; None for the ruling that each table has.

    Returns:
        The tables.
    """
    if ruling is None:
        return list(TABLES)
    return [table if _has_row_spans(table) else replace(table, ruling=ruling) for table in TABLES]


def _has_row_spans(table: SmallTable) -> bool:
    return any(cell is not None and (cell.rows > 1 or cell.columns > 1) for row in table.rows for cell in row)
