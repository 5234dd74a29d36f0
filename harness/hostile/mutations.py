"""Mutated copies of real files: changed bits, runs and blocks of a file, or of one member of an archive."""

import io
import random
import zipfile
from collections.abc import Iterator, Sequence

from harness.hostile import HostileFile
from harness.hostile.zip_packages import pack_zip

_HEAD_BYTES = 16
"""Number of bytes at the start that most copies keep. Without them, the format is not detected and no parser runs."""

_BLOCK_BYTES = 512
_SPLICES = (
    b"\0", b"\xff" * 4, b"\x7f\xff\xff\xff", b"99999999999", b"-1", b"<", b">", b"&x;", b"/>", b"%s", b"(", b"]]>",
    b"\xc3\x28", b"<<", b"endstream", b'"',
)  # fmt: skip


def flip_bits(data: bytearray, dice: random.Random) -> None:
    """Flip a few bits."""
    for _ in range(dice.choice((1, 2, 8, 40))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def fill_run(data: bytearray, dice: random.Random) -> None:
    """Fill a run with one byte."""
    start = dice.randrange(len(data))
    length = min(dice.choice((4, 64, 1024)), len(data) - start)
    data[start : start + length] = bytes([dice.choice((0, 32, 255, dice.randrange(256)))]) * length


def cut_end(data: bytearray, dice: random.Random) -> None:
    """Cut off the end."""
    del data[dice.randrange(len(data)) + 1 :]


def repeat_block(data: bytearray, dice: random.Random) -> None:
    """Insert copies of a block at another place."""
    start, place = dice.randrange(len(data)), dice.randrange(len(data))
    data[place:place] = data[start : start + _BLOCK_BYTES] * dice.choice((1, 3, 20))


def swap_blocks(data: bytearray, dice: random.Random) -> None:
    """Swap two blocks."""
    first, second = sorted((dice.randrange(len(data)), dice.randrange(len(data))))
    length = min(_BLOCK_BYTES, second - first, len(data) - second)
    item, other = data[first : first + length], data[second : second + length]
    data[first : first + length], data[second : second + length] = other, item


def remove_block(data: bytearray, dice: random.Random) -> None:
    """Remove a block."""
    start = dice.randrange(len(data))
    del data[start : min(start + dice.randrange(1, _BLOCK_BYTES), len(data) - 1)]


def splice_token(data: bytearray, dice: random.Random) -> None:
    """Insert tokens with a special meaning for parsers at random places."""
    for _ in range(dice.choice((1, 3))):
        place = dice.randrange(len(data))
        data[place : place + dice.choice((0, 1, 4))] = dice.choice(_SPLICES)


MUTATIONS = (flip_bits, fill_run, cut_end, repeat_block, swap_blocks, remove_block, splice_token)


def mutate_bytes(data: bytes, dice: random.Random, *, keep: int = 0) -> tuple[str, bytes]:
    """Apply one to three mutations.

    Args:
        data: The file.
        dice: Source of random numbers.
        keep: Number of bytes at the start to keep.

    Returns:
        Names of the mutations, and the changed file.
    """
    changed, names = bytearray(data[keep:]), []
    for _ in range(dice.choice((1, 1, 2, 3))):
        change = dice.choice(MUTATIONS)
        if changed:
            change(changed, dice)
            names.append(change.__name__)
    return "+".join(names), data[:keep] + bytes(changed)


def mutate_archive(data: bytes, dice: random.Random) -> tuple[str, bytes]:
    """Mutate one member of a zip and pack the zip again, so that the zip itself is valid.

    Args:
        data: The zip.
        dice: Source of random numbers.

    Returns:
        Names of the member and the mutations, and the new zip.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    chosen = dice.choice(sorted(name for name in members if members[name] and name != "mimetype"))
    content = members[chosen]
    assert isinstance(content, bytes)
    how, members[chosen] = mutate_bytes(content, dice)
    return f"{chosen}: {how}", pack_zip(members)


def generate_mutations(sources: Sequence[tuple[str, bytes]], *, count: int, seed: int) -> Iterator[HostileFile]:
    """Generate mutated copies of the sources in turn. A copy depends only on its source, its number and the seed.

    Args:
        sources: Names and contents of files.
        count: Number of copies.
        seed: Seed of the random numbers.
    """
    whole = {name for name, data in sources if zipfile.is_zipfile(io.BytesIO(data))}
    for number in range(count):
        name, data = sources[number % len(sources)]
        dice = random.Random(f"{seed}/{number}")
        if name in whole and dice.random() < 0.8:
            how, created = mutate_archive(data, dice)
        else:
            how, created = mutate_bytes(data, dice, keep=_HEAD_BYTES if dice.random() < 0.9 else 0)
        yield HostileFile("mutation", f"seed {seed}, number {number}: {name}, {how}", name, created)
