"""Real files with false names and media types, and hostile file names."""

from collections.abc import Iterator

from app.ingestion.parsers import PARSERS
from harness.hostile import HostileFile, iter_sample_files

_SOURCE_CODE = "source_code"
HOSTILE_NAMES = (
    "../../../etc/passwd", "..\\..\\windows\\win.ini", "/etc/shadow", "C:\\a.txt", "a/../b.txt", ".", "..", "...", " ",
    "a\0b.txt", "a\r\nX-Injected: 1\r\n.txt", "a\x1b[31mb.txt", "a\x7f.txt", "\u202etxt.exe", "\u2066a\u2069.md",
    "CON", "nul.txt", "aux.pdf", "a" * 10_000, "a" * 10_000 + ".txt", "\u00e9" * 5_000 + ".md", "a.txt" * 2_000,
    "\ud83d\ude00.txt".encode("utf-16", "surrogatepass").decode("utf-16"), "\ufeff.txt", "a\u2028b.txt",
    "%2e%2e%2fetc.txt", "a;b=c.txt", 'a"b".txt', "a'b.txt", "${jndi:ldap://a}.txt", "'; drop table document; --.txt",
    "<script>alert(1)</script>.html", "{{7*7}}.md", "$(reboot).sh", "`id`.sh", "-rf.txt", "~root.txt", ".htaccess",
)  # fmt: skip


def generate_false_types() -> Iterator[HostileFile]:
    """Generate each sample with the extension and media type of each parser. The types of source code count as one."""
    samples, visited = list(iter_sample_files()), False
    for media_type, spec in PARSERS.items():
        if spec.module.endswith(_SOURCE_CODE):
            if visited:
                continue
            visited = True
        extension = spec.extensions[0]
        for name, content in samples:
            yield HostileFile("lie", f"{name} as {media_type}", f"{name}.{extension}", content, media_type)


def generate_hostile_names() -> Iterator[HostileFile]:
    """Generate a small text file for each hostile name."""
    for number, name in enumerate(HOSTILE_NAMES):
        yield HostileFile("name", f"{number}: {name[:40]!a}", name, f"The text of number {number}.".encode())
