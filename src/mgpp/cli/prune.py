"""`mgpp prune`: fine-tune a pretrained model and prune it on the way."""

from typing import Any

from mgpp.cli import asked, options


@options.with_settings()
def prune(
    *,
    model: asked.Model = None,
    data: asked.Data = None,
    output: options.Output,
    preset: asked.PresetName = None,
    other_model: asked.OtherModel = None,
    other_data: asked.OtherData = None,
    sparsity: asked.Sparsity = None,
    method: asked.MethodName = None,
    settings: asked.Set = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    keep_checkpoints: options.KeepCheckpoints = False,
    as_json: options.AsJson = False,
    **given: Any,
) -> None:
    """Train MODEL on DATA and prune it on the way.

    With --preset model, data and every setting come from one of the paper's rows or a file, and any option overrides
    them. The folder then holds an ordinary checkpoint for from_pretrained, a model card, records.jsonl and result.json.
    """
    from mgpp.cli.train import train

    read = asked.read_asked(
        preset=preset,
        places={"model": (model, other_model), "data": (data, other_data)},
        sparsity=sparsity,
        method=method,
        settings=settings or [],
        given=given,
    )
    train(read, output=output, resume=resume, overwrite=overwrite, keep_checkpoints=keep_checkpoints, as_json=as_json)
