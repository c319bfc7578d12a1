"""One run, from a config to a folder: check everything, train, score, write."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn
from transformers import PreTrainedModel, Trainer, TrainerCallback, set_seed

from mgpp.finite import first_broken
from mgpp.layers import merge_
from mgpp.notebook import RunResult
from mgpp.preparation import prepare
from mgpp.run.card import write_card
from mgpp.run.config import RunConfig
from mgpp.run.evaluation import scores
from mgpp.run.folder import TENSORBOARD_FOLDER, RunFolder, step_of
from mgpp.run.optimizers import own_optimizer
from mgpp.run.plan import Plan, make_plan
from mgpp.run.reasons import RunInterrupted, RunStopped, reason_of
from mgpp.run.result import count_zeros, emptied, provenance, sparsity_of
from mgpp.run.teacher import describe_teacher, load_teacher
from mgpp.run.trainers import make_trainer, order_of
from mgpp.run.watch import Checkpoints, Dense
from mgpp.targets import find_targets
from mgpp.trainer import PruningCallback

Tell = Callable[[str], None]


def run(
    config: RunConfig,
    *,
    resume: bool = False,
    overwrite: bool = False,
    keep_checkpoints: bool = False,
    callbacks: Sequence[TrainerCallback] = (),
    tell: Tell = lambda line: None,
) -> RunResult:
    """Train, prune and score as `config` says; returns what `result.json` holds.

    Bad input raises ValueError, OSError or ImportError before anything is written, and so does a folder in which
    another run is at work. From then on whatever goes wrong is a RunStopped, and the newest whole checkpoint stands.
    `tell` gets lines for a person.
    """
    _require_one_process()
    folder = RunFolder(config.output)
    folder.require_free()
    folder.check(config, resume=resume, overwrite=overwrite)
    plan = make_plan(config, folder.checkpoints)
    set_seed(config.seed)  # a fresh head is random
    model = plan.task.load_model()
    _require_finite(model, config)
    teacher = None if plan.teacher is None else load_teacher(plan.teacher, plan.task, model, config)
    targets = _targets(model, config)
    loaded = sparsity_of(targets)
    if config.method is not None:  # what cannot be prepared is refused here, while nothing is written
        prepare(model, config.method, include=config.include, exclude=config.exclude)
    for line in (*plan.task.notes, *_outline(plan, loaded)):
        tell(line)
    with folder.taken(config, resume=resume, overwrite=overwrite) as cut_short, _stops_cleanly(folder, plan):
        for name in cut_short:
            tell(f"{name} was not finished when the run stopped: it is removed")
        folder.write({**folder.read(), "texts": plan.task.texts})
        resume_from = folder.newest_checkpoint()
        pruning, watch = _pruning(plan), Checkpoints()
        if resume_from is not None:
            watch.resume(resume_from)
        trainer = _trainer(plan, model, [pruning, watch, *callbacks], teacher, on_wait=watch.wait)
        before = _scores_before(plan, trainer, folder)
        tell(f"before training: {describe(before) or 'not scored (--score-before would)'}")
        if resume_from is not None:
            what = "with the scoring, " if _is_last(resume_from, plan) else ""
            tell(f"resuming {what}after step {step_of(resume_from)}")
        elif resume:
            tell(f"no checkpoint had been written: starting from step 1 (--save-steps is {config.save_steps})")
        set_seed(config.seed)  # scoring draws random numbers, and a resumed run may have skipped it
        trainer.train(resume_from_checkpoint=None if resume_from is None else str(resume_from))
        watch.stop()
        counted = {**_counted(targets, pruning), "zeros_before": loaded["zeros"]}
        result = _result(plan, trainer, counted, watch, before=before)
        tell(f"after training: {describe(result['after'])}, sparsity {result['sparsity']:.4f}")
        pruner = getattr(pruning, "pruner", None)
        if pruner is not None and result["zeros"] < pruner.asked_zeros:
            tell(f"warning: that is less than the {result['target_sparsity']:g} asked for")
        if result["emptied"]:
            tell(f"warning: {_about_emptied(result, len(targets))}")
        save = _saver(plan, model, targets, result)
        return RunResult(folder.finish(save, result, keep_checkpoints=keep_checkpoints))


def _require_one_process() -> None:
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        raise ValueError(
            f"a run is one process and a launcher has started {processes}: leave the launcher out, or give "
            "mgpp.PruningCallback to a Trainer of your own (docs/scale.md)"
        )


def _require_finite(model: nn.Module, config: RunConfig) -> None:
    broken = first_broken(model)
    if broken is not None:
        raise ValueError(f"{config.model}: {broken} has numbers that are not finite: take an earlier checkpoint of it")


def describe(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def _scores_before(plan: Plan, trainer: Trainer, folder: RunFolder) -> dict[str, float]:
    """Of the model as loaded, if they are wanted; kept, for a resumed run should not spend the time again."""
    state = folder.read()
    if "before" not in state:
        state["before"] = scores(trainer) if plan.scores_before else {}
        folder.write(state)
    return state["before"]


def _pruning(plan: Plan) -> TrainerCallback:
    config = plan.config
    if config.method is None:
        return Dense()
    size = plan.length.train_size
    return PruningCallback(config.method, include=config.include, exclude=config.exclude, train_size=size)


def _trainer(
    plan: Plan,
    model: nn.Module,
    callbacks: Sequence[TrainerCallback],
    teacher: nn.Module | None,
    *,
    on_wait: Callable[[float], None],
) -> Trainer:
    config = plan.config
    distillation = {
        "temperature": config.distil_temperature,
        "weight": config.distil_weight,
        "hidden_weight": config.distil_hidden,
        "unlabelled": plan.task.unlabelled,
    }
    return make_trainer(
        plan.task,
        model,
        plan.args,
        callbacks=callbacks,
        optimizer=own_optimizer(config.optimizer, plan.args),
        sampler=order_of(config, plan.task),
        teacher=teacher,
        distillation=distillation,
        on_wait=on_wait,
        tensorboard=Path(config.output).expanduser() / TENSORBOARD_FOLDER,
    )


def _counted(targets: Mapping[str, nn.Parameter], pruning: TrainerCallback) -> dict[str, Any]:
    counted = {**sparsity_of(targets), "added": 0, "emptied": emptied(targets)}
    pruner = getattr(pruning, "pruner", None)
    if pruner is not None:  # parameters that a method adds count against its zeros
        counted |= {"sparsity": pruner.sparsity, "added": pruner.num_added}
    if counted["added"]:  # and do the work of a matrix that is empty
        counted["emptied"] = []
    return counted


def _about_emptied(result: Mapping[str, Any], matrices: int) -> str:
    gone = result["emptied"]
    said = f"{len(gone):,} of {matrices:,} matrices have no weight left, {gone[0]} the first"
    if (result["method"] or {}).get("score") != "magnitude":
        return said
    return f"{said}; by size alone a matrix of small weights goes whole, --set score=curvature judges by gradients too"


def _targets(model: nn.Module, config: RunConfig) -> dict[str, nn.Parameter]:
    try:
        return find_targets(model, include=config.include, exclude=config.exclude)
    except ValueError:
        if config.method is None and not (config.include or config.exclude):
            return {}  # nothing to count in, and nothing to prune
        raise


def _outline(plan: Plan, loaded: Mapping[str, Any]) -> list[str]:
    length, schedule = plan.length, plan.method["schedule"]
    epoch = "" if length.steps_per_epoch is None else f", {length.steps_per_epoch:,} to an epoch"
    lines = [f"{length.total_steps:,} steps over {length.train_size:,} rows{epoch}"]
    if loaded["zeros"]:
        lines.append(f"{loaded['zeros']:,} of {loaded['prunable']:,} prunable weights are zero already")
    if plan.method["target_sparsity"] > 0:
        lines.append(
            f"pruning {loaded['prunable']:,} weights to sparsity {schedule['sparsity']:g} between steps "
            f"{schedule['start']} and {schedule['end']}, every {schedule['every']}"
        )
        if "structure" in plan.method["method"]:
            lines.append(f"in the structure {plan.method['method']['structure']}")
    elif plan.config.method is not None and not plan.config.method.holds_zeros:
        lines.append("nothing is pruned at sparsity 0: give --sparsity, for example 0.9")
    lines += _about_events(plan)
    if plan.config.teacher is not None:
        share = plan.config.distil_weight
        lines.append(f"taught by {plan.config.teacher}: {share:g} of the loss, at {plan.config.distil_temperature:g}")
    return lines


def _about_events(plan: Plan) -> list[str]:
    method = plan.config.method
    if method is None:
        return []
    cost, warning = method.event_cost, method.schedule(plan.length).warning
    told = [] if cost is None else [f"every event computes {cost} of its own"]
    return told if warning is None else [*told, f"warning: {warning}"]


def _result(
    plan: Plan, trainer: Trainer, counted: dict[str, Any], watch: Checkpoints, *, before: dict[str, float]
) -> dict[str, Any]:
    return {
        **plan.method,
        **counted,
        "teacher": describe_teacher(plan.config),
        "task": plan.config.task,
        "metric": plan.task.metric,
        "lower_is_better": plan.task.lower_is_better,
        "before": before,
        "after": scores(trainer),
        "steps": trainer.state.global_step,
        "train_rows": plan.length.train_size,
        "eval_rows": plan.task.eval_rows,
        "notes": list(plan.task.notes),
        "seconds": round(watch.seconds, 2),
        "loader_share": round(watch.loader_share, 4),
        "seed": plan.config.seed,
        **provenance(),
        "config": plan.config.to_dict(),
    }


def _saver(
    plan: Plan, model: PreTrainedModel, targets: Mapping[str, nn.Parameter], result: dict[str, Any]
) -> Callable[[Path], None]:
    def save(draft: Path) -> None:
        zeros = count_zeros(targets)  # merging fills them in
        merge_(model)
        model.save_pretrained(draft)
        _save_tokenizer(plan, draft)
        sizes = {name: weight.numel() for name, weight in targets.items()}
        write_card(draft, result, plan.task, zeros=zeros, sizes=sizes)

    return save


def _save_tokenizer(plan: Plan, draft: Path) -> None:
    tokenizer = plan.task.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        # How it last cut and padded would be written with it: nothing, where the rows came tokenized from a cache.
        backend.no_truncation()
        backend.no_padding()
    tokenizer.save_pretrained(draft)


@contextmanager
def _stops_cleanly(folder: RunFolder, plan: Plan) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        folder.abandon()
        raise RunInterrupted(f"interrupted; {_way_on(folder, plan)}") from None
    except Exception as error:
        folder.abandon()
        raise RunStopped(f"{reason_of(error)}; {_way_on(folder, plan)}") from error


def _is_last(checkpoint: Path, plan: Plan) -> bool:
    return step_of(checkpoint) >= plan.length.total_steps


def _way_on(folder: RunFolder, plan: Plan) -> str:
    if folder.is_back:
        return (
            f"no checkpoint had been written yet (--save-steps writes them sooner): {folder.path} is as it was before"
        )
    if folder.is_finished:
        return f"the run in {folder.path} is finished all the same"
    checkpoint = folder.newest_checkpoint()
    if checkpoint is None:
        lost = "no checkpoint had been written yet, so nothing is left of this run"
        return f"{lost}: start it again without --resume (--save-steps writes them sooner)"
    kept = f"the last good checkpoint is {checkpoint}"
    if _is_last(checkpoint, plan):
        return f"all steps are trained, and {kept}: the same command with --resume goes on with the scoring"
    return f"{kept}: the same command with --resume goes on from there"
