"""Sessions of the graphs that the package ships, and the mapped files that their weights come from."""

import mmap
import sys
from importlib import resources
from pathlib import Path

import onnxruntime

from app.inference.embedding.encoder_tensors import Tensors
from app.inference.embedding.weights import WeightsDamaged
from app.inference.onnx_session import create_session_options


def create_graph_session(file_name: str, tensors: Tensors) -> onnxruntime.InferenceSession:
    """Create the session of a graph. It copies the tensors.

    Args:
        file_name: Name of the graph in this package.
        tensors: Tensors that the graph declares.
    """
    options = create_session_options()
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
    options.add_external_initializers(list(tensors), values)
    graph = resources.files("app.inference.embedding").joinpath(file_name).read_bytes()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def map_file(path: Path) -> mmap.mmap:
    """Map the file for reading. Raises WeightsDamaged."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as exc:  # ValueError: an empty file cannot be mapped
        raise WeightsDamaged(f"{path} cannot be read: {exc}") from exc


def release_pages(mapping: mmap.mmap) -> None:
    """Release the pages of a mapped file, which come from the page cache again when they are read."""
    if sys.platform == "linux":
        mapping.madvise(mmap.MADV_DONTNEED)
