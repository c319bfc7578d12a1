"""The paper's settings, transcribed table by table in the paper's own shape, so that an eye can compare them.

Nothing is corrected here: where the paper contradicts itself, these are the numbers as printed, and what a preset does
instead stands in `test_paper.py`.
"""

# Table A1, #Train, as rounded there.
TRAIN_SIZES = {
    "mnli": "393k",
    "rte": "2.5k",
    "qnli": "108k",
    "mrpc": "3.7k",
    "qqp": "364k",
    "sst2": "67k",
    "cola": "8.5k",
    "stsb": "7k",
}

# Table A2: MGPP on GLUE, DeBERTaV3-base. The learning rate is the only line that depends on the sparsity.
A2 = """
                     mnli    rte    qnli   mrpc   qqp    sst2   cola   stsb
epochs               8       20     10     10     10     6      5      5
batch_size           32      16     64     16     32     32     32     16
every                10      10     10     10     10     10     10     10
start                5500    1000   1500   750    10000  2000   1500   1000
end                  75500   2500   11500  2300   85000  8000   3500   3500
spike_var            1e-10   1e-10  1e-10  1e-9   1e-10  1e-10  1e-9   1e-9
slab_var             0.05    0.1    0.1    0.1    0.1    0.1    0.1    0.1
0.8:learning_rate    5e-5    1e-4   8e-5   9e-5   1e-4   7e-5   1e-4   1e-4
0.85:learning_rate   5e-5    1e-4   8e-5   1e-4   1e-4   8e-5   1e-4   1e-4
0.9:learning_rate    8e-5    1e-4   8e-5   1e-4   1e-4   1e-4   1e-4   1e-4
"""

# Table A3: MGPP, BERT-base. "t_i: 1 epoch" is written 1ep, "1000 iterations" 1000. There is no t_f. The last two lines
# span all columns: "Linearly decay from 5e-5 to 5e-6", and lambda.
A3 = """
                     mnli    qqp    qnli   squad  sst2
epochs               8       10     10     10     6
batch_size           32      32     32     16     32
every                100     100    100    100    10
start                1ep     2ep    2ep    2ep    1000
spike_var            1e-10   1e-10  1e-9   1e-10  1e-9
slab_var             0.05    0.05   0.05   0.05   0.1
learning_rate        5e-5    5e-5   5e-5   5e-5   5e-5
last_learning_rate   5e-6    5e-6   5e-6   5e-6   5e-6
slab_prob            1e-7    1e-7   1e-7   1e-7   1e-7
"""
# The sparsities of the BERT-base results table, which has no SQuAD column.
A3_SPARSITIES = (0.8, 0.9)

# Table A4: MGPP on SQuAD v1.1, DeBERTaV3-base; transposed, for there the sparsities are the lines.
A4 = """
                     0.5     0.6    0.7    0.8    0.9    0.95
epochs               10      10     10     10     10     10
batch_size           16      16     16     16     16     16
learning_rate        5e-5    5e-5   5e-5   5e-5   5e-5   5e-5
every                10      10     10     10     10     10
start                10000   10000  10000  10000  5000   5000
end                  35000   35000  35000  35000  40000  40000
spike_var            1e-10   1e-10  1e-10  1e-10  1e-10  1e-10
slab_var             0.05    0.05   0.05   0.05   0.05   0.05
"""

# Table A5: MGPP on XSum and CNN/DailyMail, BART-large. Beams: the text of "Natural Language Generation".
A5 = """
                     xsum    cnn-dailymail
epochs               12      12
batch_size           32      32
start                20000   20000
end                  60000   90000
every                100     100
spike_var            1e-10   1e-10
slab_var             0.1     0.1
learning_rate        2e-5    2e-5
beams                8       8
"""
A5_SPARSITIES = (0.5, 0.6, 0.7)

# "Upstream Pruning" in the appendix: two lists. The first takes the rest from MNLI's column of Table A3.
UPSTREAM = """
                     upstream
batch_size           256
learning_rate        5e-5
last_learning_rate   5e-6
max_length           512
epochs               3
every                200
slab_var             0.01
"""
UPSTREAM_FROM_MNLI = ("start", "spike_var", "slab_prob")
UPSTREAM_SPARSITIES = (0.9,)
SPARSE_FINE_TUNING = """
                     mnli    qnli   qqp    sst2
batch_size           32      32     32     32
learning_rate        2e-5    2e-5   2e-5   2e-5
last_learning_rate   0       0      0      0
max_length           512     512    512    512
epochs               8       8      8      8
"""

# Table A6: the L2 ablation, DeBERTaV3-base; its weight stands in the text above the table.
A6 = """
                     mnli    mrpc   sst2
epochs               8       10     6
batch_size           32      16     32
every                10      10     10
start                5500    1000   1500
end                  75500   2500   11500
learning_rate        5e-5    9e-5   5e-5
weight               1e-2    1e-2   1e-2
"""
A6_SPARSITIES = (0.8, 0.85, 0.9)
A6_WEIGHTS = (0.1, 1e-2, 1e-3, 1e-4, 1e-5)

# Table A7: the prior annealing ablation, DeBERTaV3-base. E epochs of annealing, then E_r of refining.
A7 = """
                       mnli    mrpc    sst2
annealing_epochs       7       9       5
batch_size             32      16      32
refining_epochs        1       1       1
refining_batch_size    32      16      32
temperature            1       1       1
slab_prob              1e-7    1e-7    1e-7
slab_var               0.05    0.1     0.5
learning_rate          2e-5    5e-5    2e-5
0.8:start              5000    1000    1500
0.8:end                80000   3000    12000
0.8:spike_var_start    1e-4    1e-4    1e-4
0.8:spike_var_end      1e-5    1e-5    1e-5
0.85:start             5000    1000    1500
0.85:end               80000   2500    12000
0.85:spike_var_start   1.2e-4  1.2e-4  1.2e-4
0.85:spike_var_end     2e-5    2e-5    2e-5
0.9:start              5000    1000    1500
0.9:end                80000   3000    12000
0.9:spike_var_start    1.4e-4  1.4e-4  1.4e-4
0.9:spike_var_end      3e-5    3e-5    3e-5
"""

# "For all experiments involving MGPP", and what was chosen from.
SLAB_PROB = 1e-7
GRID = {
    "learning_rate": (1e-4, 9e-5, 8e-5, 7e-5, 5e-5, 2e-5, 1e-5),
    "batch_size": (8, 16, 32, 64),
    "spike_var": (1e-9, 1e-10),
    "slab_var": (0.1, 0.05),
}


def column(table: str, name: str, sparsity: float | None = None) -> dict[str, float | int | str]:
    """One column of a table, with the lines that hold at this sparsity only."""
    heading, *lines = [line.split() for line in table.strip().splitlines()]
    number = heading.index(name) + 1
    found = {}
    for line in lines:
        at, colon, key = line[0].rpartition(":")
        if not colon or float(at) == sparsity:
            found[key] = _value(line[number])
    return found


def _value(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
