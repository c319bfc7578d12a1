"""`mgpp finetune`: learn a task without pruning; of a model that is sparse already, the zeros are held."""

from typing import Annotated, Any

import typer

from mgpp.cli import asked, options

HOLD = "hold_mask"


@options.with_settings()
def finetune(
    *,
    model: asked.Model = None,
    data: asked.Data = None,
    output: options.Output,
    hold_mask: Annotated[
        bool, typer.Option("--hold-mask", help="What is zero in MODEL stays zero; without it zeros may grow back.")
    ] = False,
    preset: asked.PresetName = None,
    other_model: asked.OtherModel = None,
    other_data: asked.OtherData = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    keep_checkpoints: options.KeepCheckpoints = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Train MODEL on DATA without pruning it further; with --hold-mask a sparse MODEL stays exactly as sparse.

    A preset such as bert-base/upstream-mnli holds the mask by itself. The folder holds what `mgpp prune` leaves there.
    """
    from mgpp.cli.train import train

    read = asked.read_asked(
        preset=preset,
        places={"model": (model, other_model), "data": (data, other_data)},
        sparsity=None,
        method=HOLD if hold_mask else "none" if preset is None else None,
        settings=[],
        given=given,
        prunes=False,
    )
    train(read, output=output, resume=resume, overwrite=overwrite, keep_checkpoints=keep_checkpoints, as_json=as_json)
