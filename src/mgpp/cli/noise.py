"""What libraries print by themselves would drown, and sometimes contradict, what the command says."""

import logging
import os
import sys
import warnings


def show_any_name() -> None:
    """A file's name may be bytes that are no text: shown as such, instead of failing where it is printed."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def quiet_warnings() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else it warns when a data loader forks
    warnings.filterwarnings("ignore")
    logging.getLogger("datasets").setLevel(logging.CRITICAL)  # it tells an error, and then raises it
    for name in ("huggingface_hub", "httpx", "accelerate", "fsspec", "torch", "onnxscript", "onnx_ir"):
        logging.getLogger(name).setLevel(logging.ERROR)


def quiet_libraries() -> None:
    """No warnings about the fresh head (it is expected), no bars for files that load in a second."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        from datasets import disable_progress_bars
    except ImportError:
        pass
    else:
        disable_progress_bars()
    quiet_warnings()  # again: a library that is loaded sets its own level
