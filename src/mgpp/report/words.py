"""Numbers among words."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """1 step, 1,000 steps, 2 matrices"""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
