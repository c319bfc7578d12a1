"""How many weights are removed, and when. Steps t are counted from 1; sparsity is the fraction removed."""


def cubic_sparsity(t: int, *, start: int, end: int, final: float, initial: float = 0.0) -> float:
    """v(t): 0 before `start`, then along a flattening cubic from `initial` to `final`, reached at `end`   (Eq. 1)."""
    if t < start:
        return 0.0
    if t >= end:
        return final
    return final - (final - initial) * (1 - (t - start) / (end - start)) ** 3


def learning_rate_factor(sparsity: float, *, power: float) -> float:
    """How many times the others' learning rate weights have of which 1 - `sparsity` are left: (1 - v)^-power.

    An output moves by the sum of what its weights move by: where few are left, each has to move further.
    """
    return (1 - sparsity) ** -power


def prior_warm_up(t: int, *, start: int) -> float:
    """η(t): t/start before `start`, 1 from then on."""
    return t / start if t < start else 1.0


def linear(t: int, *, start: int, end: int, initial: float, final: float) -> float:
    """`initial` up to `start`, `final` from `end` on, and along a line between."""
    share = min(1.0, max(0.0, (t - start) / (end - start)))
    return final + (initial - final) * (1 - share)


def cooling(t: int, *, end: int) -> float:
    """τ(t)/τ(0), the temperature's: 1 up to `end`, then 1/(t - end)   (the paper's appendix on annealing)."""
    return 1.0 if t <= end else 1 / (t - end)


def is_event(t: int, *, start: int, end: int, every: int, last: int, held: bool = False) -> bool:
    """Is a pruning event due after step t?

    Every `every` steps from `start` on, at every step past `end`, and at the run's last step, so that a ramp
    that ends with the run reaches its target even where `every` does not divide the run's length. Where zeros are
    `held` the first event from `end` on is the last: no other has anything to prune.
    """
    if held and t > end:
        return t == end + 1 and not is_event(end, start=start, end=end, every=every, last=last)
    return (t % every == 0 and t >= start) or t > end or t == last
