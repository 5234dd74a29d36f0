"""Options of ONNX Runtime sessions."""

import onnxruntime


def create_session_options() -> onnxruntime.SessionOptions:
    """Return options of a session for all threads: each ``run`` stays on its caller's thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # an error is raised, so it is not written to the standard error stream too
    return options
