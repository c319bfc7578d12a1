"""Memory that is freed and soon taken again: kept by the process, instead of given back to the system each time."""

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # of glibc's malloc.h
NEVER = -1


def keep_memory() -> bool:
    """From now on this process keeps what it frees, for its next pass; False where the C library cannot be told (it is
    not glibc).

    glibc takes every block of more than 32 MB from the system anew and gives it back when it is freed, so each of its
    pages is cleared and mapped in every pass. Large batches have such blocks in every layer: 32 rows of 128 tokens at
    BERT-base's size, for example. The price is that the process stays as large as it has ever been.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no such function; on Windows there is no such library either
        return False
    return bool(mallopt(MMAP_MAX, 0) and mallopt(TRIM_THRESHOLD, NEVER))
