"""Train many cells side by side on one card, and write each result as it comes.

usage: python experiments/lab/work.py CELLS RESULTS --models DIR --features DIR [--workers N] [--seconds S]

CELLS is a JSON list of cells (train.py); RESULTS gets one line each, and cells that are in it already are not run
again.
After S seconds no cell is begun.
"""

import argparse
import gc
import json
import os
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.multiprocessing as mp

from mgpp.run.result import provenance

STACKING = ("minilm", "mpnet-base", "deberta-v3-xsmall")  # whose families stack.py knows
# Not with the others: it changes layers; it takes gradients of its own; it takes more launches.
APART = ("losparse", "obert", "tried")

Cell = dict[str, Any]
Result = dict[str, Any]


def key_of(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


def worker(waiting: Any, done: Any, args: argparse.Namespace) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)  # for rows this short it takes a third of the pass
    from train import train

    while (cells := waiting.get()) is not None:
        if time.time() > args.until:
            break
        began = time.time()
        try:
            results = all_of(cells, lambda some: train(some, args.models, args.features, args.cache, args.device))
        except Exception as error:  # cells that fail are lines that say so
            traceback.print_exc()
            results = [{"error": f"{type(error).__name__}: {error}"[:500]}] * len(cells)
        wall = round(time.time() - began, 2)
        for cell, result in zip(cells, results, strict=True):
            done.put({"cell": cell, **result, "wall": wall})
        _tidy()
    done.put(None)


def all_of(cells: list[Cell], train: Callable[[list[Cell]], list[Result]]) -> list[Result]:
    """What `train` gives, of halves where the whole does not fit into the device's memory beside what others hold."""
    try:
        return train(cells)
    except torch.OutOfMemoryError:
        if len(cells) == 1:
            raise
    _tidy()
    half = len(cells) // 2
    return all_of(cells[:half], train) + all_of(cells[half:], train)


def _tidy() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()  # a graph may still be playing in memory that is given back below
    gc.collect()
    torch.cuda.empty_cache()


def _end_with_parent() -> None:
    """Also where that was killed and could end nobody."""
    parent = mp.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def stacks_of(cells: list[Cell], most: int) -> list[list[Cell]]:
    """Cells that can be trained together (stack.py), in their order: their model and their batches are alike."""
    open_ones: dict[str, list[Cell]] = {}
    stacks = []
    for cell in cells:
        told = cell["method"] or {}
        method = told.get("method")
        shared = {key: cell.get(key) for key in ("model", "task", "epochs", "batch", "held_out", "rows", "unlabelled")}
        apart = {
            "method": method if method in APART else None,
            "ratio": told.get("ratio"),  # layers of other ranks
            "taught": cell.get("teacher") is not None,  # waits for the dense models, which are among the others
        }
        alike = key_of({**shared, **apart})
        if cell["model"] not in STACKING:
            stacks.append([cell])
            continue
        if alike not in open_ones or len(open_ones[alike]) == most:
            open_ones[alike] = []
            stacks.append(open_ones[alike])
        open_ones[alike].append(cell)
    return stacks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "mgpp-lab")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--stack", type=int, default=24, help="cells that a worker trains at once")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.until = time.time() + args.seconds

    lines = args.results.read_text().splitlines() if args.results.exists() else []
    finished = {key_of(row["cell"]) for row in map(json.loads, lines) if "error" not in row}
    cells = [cell for cell in json.loads(args.cells.read_text()) if key_of(cell) not in finished]
    print(f"{len(cells)} cells, {len(finished)} finished before", flush=True)
    context = mp.get_context("spawn")
    waiting, done = context.Queue(), context.Queue()
    waiting.cancel_join_thread()  # what nobody takes any more must not be waited for
    for item in [*stacks_of(cells, args.stack), *[None] * args.workers]:
        waiting.put(item)
    workers = [context.Process(target=worker, args=(waiting, done, args), daemon=True) for _ in range(args.workers)]
    for process in workers:
        process.start()
    began, alive, ended, steps = time.time(), args.workers, 0, 0
    made_on = {**provenance(), "workers": args.workers}
    args.results.parent.mkdir(parents=True, exist_ok=True)
    with args.results.open("a") as file:
        while alive:
            row = done.get()
            if row is None:
                alive -= 1
                continue
            ended, steps = ended + 1, steps + row.get("steps", 0)
            file.write(json.dumps({**row, **made_on}) + "\n")
            file.flush()
            rate = steps / (time.time() - began)
            print(f"[{ended}/{len(cells)}] {rate:.0f} steps/s {row['wall']:.0f} s {label(row)}", flush=True)


def label(row: Result) -> str:
    cell = row["cell"]
    if "error" in row:
        return f"{cell.get('name')} {cell['task']} FAILED {row['error']}"
    scores = " ".join(f"{part} {values[row['metric']]:.4f}" for part, values in row["metrics"].items())
    sparsity = "" if cell["method"] is None else f" {cell['method'].get('sparsity')}"
    return f"{cell.get('name')}{sparsity} {cell['task']} seed {cell['seed']}: {scores}"


if __name__ == "__main__":
    main()
