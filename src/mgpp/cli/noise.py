"""What libraries print by themselves would drown, and sometimes contradict, what the command says."""

import logging
import os
import warnings


def quiet_libraries() -> None:
    """No warnings about the fresh head (it is expected), no bars for files that load in a second."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns when a data loader forks
    warnings.filterwarnings("ignore")
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    for name in ("huggingface_hub", "datasets", "httpx", "accelerate", "fsspec", "torch", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        from datasets import disable_progress_bars
    except ImportError:
        return
    disable_progress_bars()
