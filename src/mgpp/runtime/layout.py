"""How a pruned matrix lies in memory for the kernel, and the kernel itself in plain torch."""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 64  # rows whose sums are worked on at a time
BLOCK = 128  # columns at a time: their activations for 64 tokens are 32 KiB, a nearest cache
# What an entry for two rows costs, in entries for one: 1.45 was measured with AVX-512 and 1.5 with AVX2 at 128 tokens.
PAIR_COST = 1.5


@dataclass(frozen=True, kw_only=True)
class Packed:
    """A (rows × columns) matrix without its zeros: 5 bytes for each weight that stays, and a few for each row.

    Chunk by chunk of 64 rows and in it block by block of 128 columns, each row with entries in the block is a *line*:
    [row in the chunk, number of entries]. An *entry* is a column in the block (`places`) and `tied` values, one for
    each of the rows that share it. Lines with the same number of entries stand together, the longest first: the
    processor then foresees where a line ends.
    """

    rows: int
    columns: int
    tied: int  # 1, or 2 where rows come in pairs with the same columns
    values: Tensor  # float32, (entries × tied)
    places: Tensor  # uint8, (entries)
    lines: Tensor  # int16, (lines × 2): row in the chunk, entries
    starts: Tensor  # int64, (chunks · blocks + 1 × 2): where the block's entries and lines begin

    @property
    def nonzeros(self) -> int:
        return int(torch.count_nonzero(self.values))

    @property
    def density(self) -> float:
        return self.nonzeros / max(1, self.rows * self.columns)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self.values, self.places, self.lines, self.starts))


def pack(weight: Tensor) -> Packed:
    """The layout of a float32 matrix, in pairs of rows where that is the lighter work."""
    weight = weight.detach()
    single, paired = _pattern(weight, 1), _pattern(weight, 2)
    in_pairs = int(paired.sum()) * PAIR_COST < int(single.sum())
    return _laid_out(weight, paired, 2) if in_pairs else _laid_out(weight, single, 1)


def unpack(packed: Packed) -> Tensor:
    """The matrix, bit for bit, but for the sign of a zero."""
    dense = torch.zeros(packed.rows + packed.rows % packed.tied, packed.columns)
    rows, columns = _positions(packed)
    for row in range(packed.tied):
        dense[rows + row, columns] = packed.values[:, row]
    return dense[: packed.rows]


def multiply(packed: Packed, x: Tensor, bias: Tensor | None) -> Tensor:
    """x·Wᵀ + b, (tokens × columns) → (tokens × rows), by walking the layout as the kernel does."""
    sums = torch.zeros(packed.rows + packed.rows % packed.tied, len(x))
    if bias is not None:
        sums[: packed.rows] += bias.unsqueeze(1)
    blocks = _parts(packed.columns, BLOCK)
    for here in range(len(packed.starts) - 1):
        first_row, first_column = here // blocks * CHUNK, here % blocks * BLOCK
        (entry, line), (_, last) = packed.starts[here].tolist(), packed.starts[here + 1].tolist()
        for row, count in packed.lines[line:last].tolist():
            columns = first_column + packed.places[entry : entry + count].long()
            together = slice(first_row + row, first_row + row + packed.tied)
            sums[together] += packed.values[entry : entry + count].T @ x[:, columns].T
            entry += count
    return sums[: packed.rows].T.contiguous()


def to_csr(packed: Packed) -> Tensor:
    """The same matrix as torch's CSR, with the 32-bit indices that its fast product wants."""
    dense = unpack(packed)
    rows, columns = dense.nonzero(as_tuple=True)
    ends = torch.bincount(rows, minlength=packed.rows).cumsum(0)
    begins = torch.cat([ends.new_zeros(1), ends]).int()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(begins, columns.int(), dense[rows, columns], dense.shape, check_invariants=True)


def _pattern(weight: Tensor, tied: int) -> Tensor:
    """Which columns each group of `tied` rows needs; a missing last row needs none."""
    needed = weight != 0
    if len(needed) % tied:
        needed = torch.cat([needed, needed.new_zeros(1, needed.shape[1])])
    return needed.view(-1, tied, needed.shape[1]).any(dim=1)


def _laid_out(weight: Tensor, pattern: Tensor, tied: int) -> Packed:
    rows, columns = weight.shape
    blocks, per_chunk = _parts(columns, BLOCK), CHUNK // tied
    group, column = pattern.nonzero(as_tuple=True)
    counts = torch.bincount(group * blocks + column // BLOCK, minlength=len(pattern) * blocks)
    line_of_entry = group * blocks + column // BLOCK
    inside_line = torch.arange(len(group)) - (counts.cumsum(0) - counts)[line_of_entry]

    # A line belongs to a section (chunk, block); in it the longest come first, then the upper rows.
    line = torch.arange(len(counts))
    section = line // blocks // per_chunk * blocks + line % blocks
    row = line // blocks % per_chunk
    order = torch.argsort((section * (BLOCK + 1) + BLOCK - counts) * per_chunk + row)
    order = order[counts[order] > 0]
    begin = torch.zeros_like(counts)
    begin[order] = counts[order].cumsum(0) - counts[order]
    target = begin[line_of_entry] + inside_line

    values, places = torch.zeros(len(group), tied), torch.zeros(len(group), dtype=torch.uint8)
    places[target] = (column % BLOCK).to(torch.uint8)
    for below in range(tied):
        there = group * tied + below < rows  # an odd number of rows leaves the last alone
        values[target[there], below] = weight[group[there] * tied + below, column[there]]
    sections = _parts(rows, CHUNK) * blocks
    per_section = torch.zeros(sections, 2, dtype=torch.int64)
    per_section[:, 0].index_add_(0, section, counts)
    per_section[:, 1] = torch.bincount(section[order], minlength=sections)
    return Packed(
        rows=rows,
        columns=columns,
        tied=tied,
        values=values,
        places=places,
        lines=torch.stack([row[order] * tied, counts[order]], dim=1).to(torch.int16),
        starts=torch.cat([per_section.new_zeros(1, 2), per_section.cumsum(0)]),
    )


def _positions(packed: Packed) -> tuple[Tensor, Tensor]:
    """The (first) row and the column of every entry."""
    blocks = _parts(packed.columns, BLOCK)
    lines_in = packed.starts[:, 1].diff()
    section = torch.arange(len(lines_in)).repeat_interleave(lines_in)
    counts = packed.lines[:, 1].long()
    rows = (section // blocks * CHUNK + packed.lines[:, 0]).repeat_interleave(counts)
    columns = (section % blocks * BLOCK).repeat_interleave(counts) + packed.places
    return rows, columns


def _parts(total: int, size: int) -> int:
    return -(-total // size)
