"""`mgpp finetune`: learn a task without pruning; of a model that is sparse already, the zeros are held."""

from typing import Annotated, Any

import typer

from mgpp.cli import options
from mgpp.cli.prune import train
from mgpp.methods import HoldMask
from mgpp.run import RunConfig


@options.with_settings()
def finetune(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    hold_mask: Annotated[
        bool, typer.Option("--hold-mask", help="What is zero in MODEL stays zero; without it zeros may grow back.")
    ] = False,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    keep_checkpoints: options.KeepCheckpoints = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Train MODEL on DATA without pruning it further; with --hold-mask a sparse MODEL stays exactly as sparse.

    The folder holds what `mgpp prune` leaves there.
    """
    method = HoldMask() if hold_mask else None
    config = RunConfig(model=model, data=data, output=output, method=method, **given)
    train(config, resume=resume, overwrite=overwrite, keep_checkpoints=keep_checkpoints, as_json=as_json)
