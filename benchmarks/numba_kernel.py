"""The kernel of mgpp.runtime written in numba, against the compiled one, torch's CSR and the dense layer.

Why runtime/ is C++: needs `pip install numba`, prints a table, and appends it to the file it is given.
"""

import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from mgpp.bench.results import append
from mgpp.bench.timing import table_row, take_turns
from mgpp.run.result import provenance
from mgpp.runtime.layout import BLOCK, CHUNK, Packed, pack
from mgpp.runtime.paths import active

TILE, TOKENS, SPARSITY = 64, 128, 0.9


@numba.njit(parallel=True, fastmath=True)
def multiply(tiles, values, places, lines, starts, bias, out):
    """(tiles × columns × 64) → (tiles × rows × 64): the loops of spmm.cpp, four entries at a time.

    numba has no way to say that sums stay in registers: with four entries a turn they are loaded and stored once for
    four products instead of once for one.
    """
    blocks = -(-tiles.shape[1] // BLOCK)
    chunks = -(-out.shape[1] // CHUNK)
    for item in numba.prange(len(tiles) * chunks):
        x, chunk = tiles[item // chunks], item % chunks
        sums = out[item // chunks, chunk * CHUNK : (chunk + 1) * CHUNK]
        for row in range(len(sums)):
            sums[row, :] = bias[chunk * CHUNK + row]
        for block in range(blocks):
            here = chunk * blocks + block
            entry = starts[here, 0]
            for line in range(starts[here, 1], starts[here + 1, 1]):
                held, last = sums[lines[line, 0]], entry + lines[line, 1]
                while entry + 4 <= last:
                    a, b, c, d = values[entry], values[entry + 1], values[entry + 2], values[entry + 3]
                    xa, xb = x[block * BLOCK + places[entry]], x[block * BLOCK + places[entry + 1]]
                    xc, xd = x[block * BLOCK + places[entry + 2]], x[block * BLOCK + places[entry + 3]]
                    for token in range(TILE):
                        held[token] += a * xa[token] + b * xb[token] + c * xc[token] + d * xd[token]
                    entry += 4
                while entry < last:
                    a, xa = values[entry], x[block * BLOCK + places[entry]]
                    for token in range(TILE):
                        held[token] += a * xa[token]
                    entry += 1


def by_numba(packed: Packed, bias: Tensor, x: Tensor) -> Tensor:
    tiles = x.view(-1, TILE, packed.columns).transpose(1, 2).contiguous()
    out = torch.empty(len(tiles), packed.rows, TILE)
    parts = (packed.values.view(-1), packed.places, packed.lines, packed.starts, bias, out)
    multiply(tiles.numpy(), *(part.numpy() for part in parts))
    return out.transpose(1, 2).reshape(len(x), packed.rows)


def measure(rows: int, columns: int) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(rows, columns), torch.randn(rows), torch.randn(TOKENS, columns)
    weight *= weight.abs() > np.quantile(weight.abs().numpy(), SPARSITY)
    packed = pack(weight)
    sides = {
        "dense": partial(F.linear, x, weight, bias),
        "csr": partial(active("csr").bind(packed), x, bias),
        "numba": partial(by_numba, packed, bias, x),
        "compiled": partial(active("compiled").bind(packed), x, bias),
    }
    for run in sides.values():
        torch.testing.assert_close(run(), sides["dense"](), rtol=1e-4, atol=1e-3)
    times = take_turns(sides, rounds=25, warm_up=5, device=torch.device("cpu"), calls=5)
    dense = times["dense"]["median_ms"]
    return [
        table_row(f"{columns} → {rows}, {name}", numbers, speedup=round(dense / numbers["median_ms"], 3))
        for name, numbers in times.items()
    ]


def main(output: str) -> None:
    numba.set_num_threads(torch.get_num_threads())
    with torch.inference_mode():
        rows = [row for size in ((768, 768), (3072, 768), (768, 3072)) for row in measure(*size)]
    entry = {
        "what": f"one layer, {SPARSITY:.0%} zeros, {TOKENS} tokens; numba {numba.__version__}, {active('compiled')}",
        "command": " ".join(["python", *sys.argv]),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        **provenance(),
        "rows": rows,
    }
    append(Path(output), entry)
    for row in rows:
        print(f"{row['name']:25} {row['median_ms']:8.3f} ms  {row['speedup']:.2f}× dense")


if __name__ == "__main__":
    main(*sys.argv[1:])
