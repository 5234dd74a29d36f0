"""all-MiniLM-L6-v2 in plain numpy, from the model's description: the reference for the fast implementation."""

import json
import math
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

Array = npt.NDArray[np.float64]

_erf = np.vectorize(math.erf, otypes=[np.float64])


class Reference:
    """BERT with 6 layers of 12 heads: the mean of the last states, with unit length, in double precision."""

    def __init__(self, directory: Path) -> None:
        raw = (directory / "model.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + length])
        self.tensors: dict[str, Array] = {}
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] == "F32":
                start, end = (8 + length + offset for offset in entry["data_offsets"])
                self.tensors[name] = np.frombuffer(raw[start:end], "<f4").reshape(entry["shape"]).astype(np.float64)
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def embed(self, text: str) -> Array:
        ids = self.tokenizer.encode(text).ids
        embeddings = [
            self.tensors[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
        ]
        x = self.norm(embeddings[0][ids] + embeddings[1][: len(ids)] + embeddings[2][0], "embeddings.LayerNorm")
        for layer in range(6):
            x = self.layer(x, f"encoder.layer.{layer}.")
        mean: Array = x.mean(axis=0)
        unit: Array = mean / np.linalg.norm(mean)
        return unit

    def layer(self, x: Array, name: str) -> Array:
        query, key, value = (
            self.linear(x, f"{name}attention.self.{part}").reshape(len(x), 12, 32).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(32)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = (weights @ value).transpose(1, 0, 2).reshape(len(x), 384)
        x = self.norm(x + self.linear(mixed, f"{name}attention.output.dense"), f"{name}attention.output.LayerNorm")
        inner = self.linear(x, f"{name}intermediate.dense")
        inner = inner * 0.5 * (1.0 + _erf(inner / math.sqrt(2.0)))
        return self.norm(x + self.linear(inner, f"{name}output.dense"), f"{name}output.LayerNorm")

    def linear(self, x: Array, name: str) -> Array:
        result: Array = x @ self.tensors[f"{name}.weight"].T + self.tensors[f"{name}.bias"]
        return result

    def norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        result: Array = scaled * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]
        return result
