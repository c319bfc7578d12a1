"""What this process holds of the weights to prune: all of them, or a part of each that an engine has given it."""

from mgpp.sharding.hold import engine_of, hold, local_gradients, stepping_optimizer
from mgpp.sharding.parts import Held, Now, Span, Turn

__all__ = ["Held", "Now", "Span", "Turn", "engine_of", "hold", "local_gradients", "stepping_optimizer"]
