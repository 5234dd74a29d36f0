"""multilingual-e5-small in plain numpy and the unigram model of the tokenizers library, both from the stored file."""

import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

Array = npt.NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


class StoredE5File:
    """The parts of the file: pieces and scores, the map of characters, and the tensors by name."""

    def __init__(self, path: Path) -> None:
        self.raw = path.read_bytes()
        size = struct.unpack_from("<Q", self.raw, 64)[0]
        position = 72
        offsets = struct.unpack_from("<250003I", self.raw, position)
        position += 4 * 250_003
        scores = struct.unpack_from("<250002f", self.raw, position)
        position += 4 * 250_002
        text = self.raw[position : position + size]
        self.pieces = [(text[offsets[i] : offsets[i + 1]].decode(), score) for i, score in enumerate(scores)]
        position += size
        self.characters, position = self.read_characters(position)
        self.entries = self.read_entries(position)

    def read_characters(self, position: int) -> tuple[dict[str, str], int]:
        count, _ = struct.unpack_from("<iI", self.raw, position)
        position += 8
        characters = {}
        for _ in range(count):
            source, length = struct.unpack_from("<IB", self.raw, position)
            target = struct.unpack_from(f"<{length}I", self.raw, position + 5)
            characters[chr(source)] = "".join(map(chr, target))
            position += 5 + 4 * length
        return characters, position

    def read_entries(self, position: int) -> dict[str, tuple[int, int, int]]:
        (count,) = struct.unpack_from("<i", self.raw, position)
        position += 4
        entries = {}
        for _ in range(count):
            (length,) = struct.unpack_from("<H", self.raw, position)
            name = self.raw[position + 2 : position + 2 + length].decode()
            kind, elements, offset, _ = struct.unpack_from("<BIQQ", self.raw, position + 2 + length)
            entries[name] = (kind, elements, offset)
            position += 2 + length + 21
        return entries

    def vector(self, name: str) -> Array:
        kind, count, offset = self.entries[name]
        assert kind == 0
        return np.frombuffer(self.raw, "<f4", count, offset).astype(np.float64)

    def matrix(self, name: str, columns: int, rows: list[int] | None = None) -> Array:
        """Return a matrix, or some of its rows: 18 bytes for 32 weights, a scale and then the weights' four bits."""
        kind, count, offset = self.entries[name]
        assert kind == 1
        width = columns // 32 * 18
        stored = np.frombuffer(self.raw, np.uint8, count // columns * width, offset).reshape(-1, columns // 32, 18)
        chosen = stored if rows is None else stored[rows]
        scales = chosen[..., :2].copy().view("<f2").astype(np.float64)
        weights = np.concatenate([chosen[..., 2:] % 16, chosen[..., 2:] // 16], axis=-1).astype(np.float64) - 8
        result: Array = (weights * scales).reshape(len(chosen), columns)
        return result


class E5Reference:
    """BERT with 12 layers of 12 heads: the mean of the last states, with unit length, in double precision."""

    def __init__(self, stored: StoredE5File) -> None:
        self.stored = stored
        self.matrices = {
            name: stored.matrix(name, 1536 if name.endswith("fo.w") else 384)
            for name, (kind, _, _) in stored.entries.items()
            if kind == 1 and name != "emb.word"
        }

    def embed(self, ids: list[int]) -> Array:
        positions = self.stored.vector("emb.pos").reshape(512, 384)[: len(ids)]
        words = self.stored.matrix("emb.word", 384, ids)
        x = self.norm(words + positions + self.stored.vector("emb.type")[:384], "emb.ln")
        for layer in range(12):
            x = self.layer(x, f"l{layer}.")
        mean: Array = x.mean(axis=0)
        unit: Array = mean / np.linalg.norm(mean)
        return unit

    def layer(self, x: Array, name: str) -> Array:
        query, key, value = (
            self.linear(x, name + part).reshape(len(x), 12, 32).transpose(1, 0, 2) for part in ("q", "k", "v")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(32)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(x), 384)
        x = self.norm(x + self.linear(mixed, f"{name}ao"), f"{name}aln")
        inner = self.linear(x, f"{name}fi")
        inner = inner * 0.5 * (1.0 + _erf(inner / math.sqrt(2.0)))
        return self.norm(x + self.linear(inner, f"{name}fo"), f"{name}oln")

    def linear(self, x: Array, name: str) -> Array:
        result: Array = x @ self.matrices[f"{name}.w"].T + self.stored.vector(f"{name}.b")
        return result

    def norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        result: Array = scaled * self.stored.vector(f"{name}.w") + self.stored.vector(f"{name}.b")
        return result


def build_library_tokenizer(stored: StoredE5File) -> Tokenizer:
    """Build the tokenizer from the library's parts. The names of special tokens are no pieces here."""
    special = {0, 1, 2, 3, 250_001}
    pieces = [(f"\ue000{id_}" if id_ in special else piece, score) for id_, (piece, score) in enumerate(stored.pieces)]
    tokenizer = Tokenizer(models.Unigram(pieces, 3, False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"), ""),
            normalizers.Replace(Regex("[\t\n\f\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"), " "),
            normalizers.Replace("\uff5e", "\ue001"),
            normalizers.NFKC(),
            normalizers.Replace("\ue001", "\uff5e"),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", None, [("<s>", 0), ("</s>", 2)])
    return tokenizer
