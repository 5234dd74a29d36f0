"""multilingual-e5-small: the graph of the package, filled with the weights of a four-bit file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import onnxruntime

from app.inference.embedding.e5_file import FILE_NAME, Blocks, dequantize_blocks, read_e5_file
from app.inference.embedding.e5_tokenizer import E5Tokenizer
from app.inference.embedding.encoder_graph import create_graph_session, map_file, release_pages
from app.inference.embedding.encoder_tensors import HIDDEN


class E5Model:
    """multilingual-e5-small with 384 dimensions. The word embeddings stay in four bits in the mapped file."""

    dimensions = HIDDEN

    def __init__(self, session: onnxruntime.InferenceSession, words: Blocks, tokenizer: E5Tokenizer) -> None:
        """Create the model from the parts that ``load`` creates.

        Args:
            session: Session with the graph and its tensors.
            words: Word embeddings in four bits, of the shape (vocabulary, 12).
            tokenizer: Tokenizer with the vocabulary of the file.
        """
        self.tokenizer = tokenizer
        self._session = session
        self._words = words

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Map the weights into memory, and create the tokenizer and the session.

        The call blocks for about half a second and holds the interpreter lock.

        Args:
            directory: Directory of the weights.

        Raises:
            WeightsDamaged: The weights cannot be read.
        """
        mapping = map_file(directory / FILE_NAME)
        contents = read_e5_file(mapping)
        session = create_graph_session("e5_int8.onnx", contents.tensors)
        # The matrices and the vocabulary have been copied, so release the mapped pages. The word embeddings, which are
        # still read, come from the page cache again.
        release_pages(mapping)
        return cls(session, contents.words, E5Tokenizer(contents.vocabulary))

    def run(self, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the vector of a text, of unit length.

        Args:
            ids: Token ids of the text with special tokens.
        """
        (vector,) = self._session.run(["embedding"], {"words": dequantize_blocks(self._words[list(ids)])})[0]
        return np.asarray(vector, np.float32)
