"""Model of an ONNX file that reads token ids, as exporters write it: its token vectors are pooled and normalised."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from app.inference.embedding import EmbeddingRejected
from app.inference.embedding.local_models import Pooling
from app.inference.embedding.weights import WeightsDamaged
from app.inference.onnx_session import create_session_options

_IDS, _MASK, _TYPES, _POSITIONS = "input_ids", "attention_mask", "token_type_ids", "position_ids"
# Names of outputs that are already pooled.
_POOLED_OUTPUTS = ("sentence_embedding", "sentence_embeddings")
_TOKEN_OUTPUTS = ("last_hidden_state", "token_embeddings")


class OnnxModel:
    """Model of an ONNX file. Its vectors have unit length."""

    def __init__(self, path: Path, pooling: Pooling) -> None:
        """Create the session and run it once. The call blocks and holds the interpreter lock.

        Args:
            path: The ONNX file.
            pooling: How the vectors of the tokens become the vector of the text. It is not used if the model has an
                output that is already pooled.

        Raises:
            WeightsDamaged: The file cannot be read, or it is not an embedding model.
        """
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), create_session_options(), providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # the library raises no narrower class
            raise WeightsDamaged(f"{path} cannot be read: {str(exc)[:300]}") from exc
        self._path = path
        self._pooling = pooling
        self._inputs = [each.name for each in self._session.get_inputs()]
        if _IDS not in self._inputs or not {_IDS, _MASK, _TYPES, _POSITIONS}.issuperset(self._inputs):
            raise WeightsDamaged(f"{path} is no model of texts: its inputs are {', '.join(self._inputs)}.")
        self._output = self._select_output()
        self.dimensions = self._measure_dimensions()

    def run(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the vector of a text, of unit length.

        Args:
            ids: Token ids of the text with special tokens.

        Raises:
            EmbeddingRejected: The model cannot read the text, for example because a token is not in its vocabulary.
        """
        try:
            (output,) = self._session.run([self._output], self._build_feed(ids))
        except Exception as exc:  # the library raises no narrower class
            raise EmbeddingRejected(f"The local model cannot read a text: {str(exc)[:200]}") from exc
        vector: npt.NDArray[np.float32] = np.asarray(output[0], np.float32)
        if vector.ndim == 2:
            vector = self._combine(vector)
        length = np.linalg.norm(vector)
        # A model that is damaged in a subtle way may have a vector without a direction; it stays as it is.
        return np.asarray(vector / length, np.float32) if length > 0 else vector

    def _combine(self, vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if self._pooling == "mean":
            return np.asarray(vectors.mean(axis=0), np.float32)
        return np.asarray(vectors[0 if self._pooling == "cls" else -1], np.float32)

    def _build_feed(self, ids: Sequence[int]) -> dict[str, npt.NDArray[np.int64]]:
        row = np.array([ids], np.int64)
        feed = {
            _IDS: row,
            _MASK: np.ones_like(row),
            _TYPES: np.zeros_like(row),
            _POSITIONS: np.arange(row.shape[1], dtype=np.int64)[None],
        }
        return {name: feed[name] for name in self._inputs}

    def _select_output(self) -> str:
        names: list[str] = [output.name for output in self._session.get_outputs()]
        for name in (*_POOLED_OUTPUTS, *_TOKEN_OUTPUTS):
            if name in names:
                return name
        return names[0]

    def _measure_dimensions(self) -> int:
        try:
            (output,) = self._session.run([self._output], self._build_feed([1, 1]))
        except Exception as exc:
            raise WeightsDamaged(f"{self._path} cannot be run: {str(exc)[:300]}") from exc
        if output.ndim not in (2, 3) or output.shape[0] != 1:
            raise WeightsDamaged(f"{self._path} is no embedding model: an output has the shape {output.shape}.")
        return int(output.shape[-1])
