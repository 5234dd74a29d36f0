"""Documents of different kinds: short notes, long reports with many sections, tables, and Chinese text."""

from collections.abc import Callable
from random import Random

_PROSE = (
    "the machine read numbers from cards and printed them on paper in long columns of figures revenue quarter growth "
    "of a program for an engine that counted wheels while people at the university compared results with tables"
)
_WORDS = _PROSE.split()
_PEOPLE = ("Ada Lovelace", "Charles Babbage", "Grace Hopper", "Howard Aiken", "Mary Somerville", "Alan Turing")
_CHINESE_PEOPLE = ("王小明", "李建国", "张文华", "王志强", "李秀英", "张伟民")
_CHINESE_PARTS = (
    "公司在第二季度的收入增长了百分之十二",
    "新的机器每小时可以处理三千张卡片",
    "研究人员比较了不同年份的结果",
    "工厂的设备需要定期检查和维护",
    "大学的图书馆保存了早期的程序手稿",
    "客户希望在年底之前收到完整的报告",
    "实验数据表明温度对精度有明显影响",
    "这项工作得到了多个部门的支持",
)


def write_note(random: Random, number: int) -> str:
    """Return a note of one to three sentences."""
    return f"Note {number}. {_write_sentences(random, random.randint(1, 3))}"


def write_report(random: Random, number: int) -> str:
    """Return a report of one to four sections of some paragraphs."""
    return "\n\n".join(
        f"# Part {part} of report {number}\n\n{_write_sentences(random, random.randint(6, 30))}"
        for part in range(random.randint(1, 4))
    )


def write_handbook(random: Random, number: int) -> str:
    """Return a handbook with five to eight chapters, each with sections of different lengths."""
    lines = [f"# Handbook {number}"]
    for chapter in range(random.randint(5, 8)):
        lines.append(f"## Chapter {chapter}\n\n{_write_sentences(random, random.randint(0, 4))}")
        for section in range(random.randint(0, 3)):
            paragraphs = [_write_sentences(random, random.randint(3, 12)) for _ in range(random.randint(1, 4))]
            lines.append(f"### Section {chapter}.{section}\n\n" + "\n\n".join(paragraphs))
    return "\n\n".join(lines)


def write_tables(random: Random, number: int) -> str:
    """Return a document of one to three tables of names, codes and figures."""
    parts = [f"# Figures {number}"]
    for table in range(random.randint(1, 3)):
        rows = []
        for _ in range(random.randint(5, 40)):
            amount, day = random.randint(1000, 999999) / 100, random.randint(1, 28)
            cells = [
                *random.sample(_PEOPLE, 2),
                f"KX-{random.randint(100, 9999)}",
                f"{amount:.2f}",
                f"{day:02}.04.2024",
            ]
            rows.append(f"| {' | '.join(cells)} |")
        head = "| Owner | Deputy | Code | Amount | Date |\n| --- | --- | --- | --- | --- |"
        parts.append(f"## Table {table}\n\n{head}\n" + "\n".join(rows))
    return "\n\n".join(parts)


def write_chinese(random: Random, number: int) -> str:
    """Return a Chinese report of one to four sections."""
    sections = []
    for part in range(random.randint(1, 4)):
        sentences = [
            f"{random.choice(_CHINESE_PEOPLE)}和{random.choice(_CHINESE_PEOPLE)}认为，"
            f"{'，'.join(random.sample(_CHINESE_PARTS, random.randint(1, 3)))}。"
            for _ in range(random.randint(4, 40))
        ]
        sections.append(f"# 报告{number}第{part}部分\n\n" + "".join(sentences))
    return "\n\n".join(sections)


DOCUMENT_WRITERS: dict[str, Callable[[Random, int], str]] = {
    "notes": write_note,
    "reports": write_report,
    "handbooks": write_handbook,
    "tables": write_tables,
    "chinese": write_chinese,
}


def _write_sentences(random: Random, count: int) -> str:
    sentences = []
    for _ in range(count):
        words = random.choices(_WORDS, k=random.randint(6, 18))
        if random.random() < 0.4:
            words[:0] = [random.choice(_PEOPLE), "and", random.choice(_PEOPLE)]
        sentence = " ".join(words)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(sentences)
