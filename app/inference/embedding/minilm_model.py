"""all-MiniLM-L6-v2: the graph of the package, filled with the weights of the checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import onnxruntime

from app.inference.embedding.encoder_graph import create_graph_session, map_file, release_pages
from app.inference.embedding.encoder_tensors import HIDDEN, WORD_EMBEDDINGS, Precision
from app.inference.embedding.minilm_tensors import prepare_tensors, read_checkpoint


class MiniLMModel:
    """all-MiniLM-L6-v2 with 384 dimensions. The word embeddings stay in the mapped file."""

    dimensions = HIDDEN

    def __init__(self, session: onnxruntime.InferenceSession, word_embeddings: npt.NDArray[np.float32]) -> None:
        """Create the model from the parts that ``load`` creates.

        Args:
            session: Session with the graph and its tensors.
            word_embeddings: Word embeddings, of the shape (vocabulary, 384).
        """
        self._session = session
        self._word_embeddings = word_embeddings

    @classmethod
    def load(cls, directory: Path, precision: Precision) -> Self:
        """Map the weights into memory and create the session.

        The call blocks for some 0.2 seconds and holds the interpreter lock.

        Args:
            directory: Directory of the weights.
            precision: Precision of the arithmetic.

        Raises:
            WeightsDamaged: The weights cannot be read.
        """
        mapping = map_file(directory / "model.safetensors")
        checkpoint = read_checkpoint(mapping)
        session = create_graph_session(f"minilm_{precision}.onnx", prepare_tensors(checkpoint, precision))
        # onnxruntime has copied the matrices, so release the mapped pages. The word embeddings, which are still read,
        # come from the page cache again.
        release_pages(mapping)
        return cls(session, checkpoint[WORD_EMBEDDINGS])

    def run(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the vector of a text, of unit length.

        Args:
            ids: Token ids of the text with special tokens.
        """
        (vector,) = self._session.run(["embedding"], {"words": self._word_embeddings[list(ids)]})[0]
        return np.asarray(vector, np.float32)
