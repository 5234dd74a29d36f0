"""Mutated copies of real files: bits, runs and blocks of the whole file, or of one member of an archive."""

import io
import random
import zipfile
from collections.abc import Iterator, Sequence

from harness.hostile import HostileFile
from harness.hostile.zip_packages import pack_zip

_HEAD_BYTES = 16
"""So many bytes at the start stay in most copies: a file that no longer is of its kind never reaches a parser."""

_BLOCK_BYTES = 512
_SPLICES = (
    b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"99999999999", b"-1", b"<", b">", b"&x;", b"/>", b"%s", b"(", b"]]>",
    b"\xc3\x28", b"<<", b"endstream", b'"',
)  # fmt: skip


def flip_bits(data: bytearray, dice: random.Random) -> None:
    """A few bits."""
    for _ in range(dice.choice((1, 2, 8, 40))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def fill_run(data: bytearray, dice: random.Random) -> None:
    """One byte, again and again."""
    start = dice.randrange(len(data))
    length = min(dice.choice((4, 64, 1024)), len(data) - start)
    data[start : start + length] = bytes([dice.choice((0, 32, 255, dice.randrange(256)))]) * length


def cut_end(data: bytearray, dice: random.Random) -> None:
    """The end is missing."""
    del data[dice.randrange(len(data)) + 1 :]


def repeat_block(data: bytearray, dice: random.Random) -> None:
    """A block comes again."""
    start, place = dice.randrange(len(data)), dice.randrange(len(data))
    data[place:place] = data[start : start + _BLOCK_BYTES] * dice.choice((1, 3, 20))


def swap_blocks(data: bytearray, dice: random.Random) -> None:
    """Two blocks change their places."""
    first, second = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    length = min(_BLOCK_BYTES, second - first, len(data) - second)
    item, other = data[first : first + length], data[second : second + length]
    data[first : first + length], data[second : second + length] = other, item


def remove_block(data: bytearray, dice: random.Random) -> None:
    """A block is missing."""
    start = dice.randrange(len(data))
    del data[start : min(start + dice.randrange(1, _BLOCK_BYTES), len(data) - 1)]


def splice_token(data: bytearray, dice: random.Random) -> None:
    """Something that a parser counts with stands where it should not."""
    for _ in range(dice.choice((1, 3))):
        place = dice.randrange(len(data))
        data[place : place + dice.choice((0, 1, 4))] = dice.choice(_SPLICES)


MUTATIONS = (flip_bits, fill_run, cut_end, repeat_block, swap_blocks, remove_block, splice_token)


def mutate_bytes(data: bytes, dice: random.Random, *, keep: int = 0) -> tuple[str, bytes]:
    """One to three changes behind the first ``keep`` bytes, and their names."""
    changed, names = bytearray(data[keep:]), []
    for _ in range(dice.choice((1, 1, 2, 3))):
        change = dice.choice(MUTATIONS)
        if changed:
            change(changed, dice)
            names.append(change.__name__)
    return "+".join(names), data[:keep] + bytes(changed)


def mutate_archive(data: bytes, dice: random.Random) -> tuple[str, bytes]:
    """One member is changed, and the archive packed anew, so that it is a good one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    chosen = dice.choice(sorted(name for name in members if members[name] and name != "mimetype"))
    content = members[chosen]
    assert isinstance(content, bytes)
    how, members[chosen] = mutate_bytes(content, dice)
    return f"{chosen}: {how}", pack_zip(members)


def generate_mutations(sources: Sequence[tuple[str, bytes]], *, count: int, seed: int) -> Iterator[HostileFile]:
    """So many copies, of each source in turn; the number of a copy and the seed are all that it is made from."""
    whole = {name for name, data in sources if zipfile.is_zipfile(io.BytesIO(data))}
    for number in range(count):
        name, data = sources[number % len(sources)]
        dice = random.Random(f"{seed}/{number}")
        if name in whole and dice.random() < 0.8:
            how, created = mutate_archive(data, dice)
        else:
            how, created = mutate_bytes(data, dice, keep=_HEAD_BYTES if dice.random() < 0.9 else 0)
        yield HostileFile("mutation", f"seed {seed}, number {number}: {name}, {how}", name, created)
