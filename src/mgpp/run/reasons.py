"""Why a run did not reach its end, in one line with its cure."""

import errno

# safetensors and torch.save do not raise the OSError that they met.
_FULL = ("No space left", "os error 28", "PytorchStreamWriter", "inline_container", "iostream error")
_NO_MEMORY = ("DefaultCPUAllocator", "CUDA out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "Cannot allocate memory")


class RunStopped(RuntimeError):
    """A run that did not reach its end. The message says why, and from where it can go on."""


class RunInterrupted(RunStopped):
    """Stopped by the user."""


class NoMemoryToScore(MemoryError):
    """While the model was scored, where what is trained at a time is of no matter."""


def reason_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if is_full_disk(error):
        return f"the disk is full: free some space ({text[:200]})"
    if is_out_of_memory(error):
        scored = isinstance(error, NoMemoryToScore)
        cure = "lower --eval-batch-size" if scored else "lower --batch-size and raise --accumulate"
        return f"out of memory{' while scoring' * scored}: {cure} ({text[:200] or type(error).__name__})"
    if isinstance(error, FloatingPointError | ValueError | OSError):
        return text
    return f"{type(error).__name__}: {text[:400]}"


def is_full_disk(error: BaseException) -> bool:
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    return full or any(sign in str(error) for sign in _FULL)


def is_out_of_memory(error: BaseException) -> bool:
    """A GPU's memory or the machine's; on a CPU torch raises a plain RuntimeError."""
    # By its name, for a mistyped word should not wait for torch.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError | OSError) and any(sign in str(error) for sign in _NO_MEMORY)
