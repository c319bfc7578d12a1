"""What one cut by magnitude over all matrices would take of each kind of them.

usage: python experiments/weights/sizes.py MODEL [SPARSITY]
"""

import sys
from collections import defaultdict

import torch
from transformers import AutoModel

from mgpp.targets import find_targets

name, sparsity = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.8
weights = find_targets(AutoModel.from_pretrained(name))
sizes = torch.cat([weight.detach().abs().flatten() for weight in weights.values()])
cut = float(sizes.kthvalue(int(sparsity * len(sizes))).values)
kinds = defaultdict(list)
for path, weight in weights.items():
    kinds[path.split(".")[-2]].append(weight.detach())
print(f"{sparsity:.0%} of all weights lie under {cut:.2f}")
for kind, matrices in kinds.items():
    deviations = [float(weight.std()) for weight in matrices]
    under = [float((weight.abs() <= cut).float().mean()) for weight in matrices]
    told = f"standard deviation {min(deviations):.2f} to {max(deviations):.2f}"
    print(f"{kind:5} {len(matrices)} matrices, {told}; under the cut {min(under):.0%} to {max(under):.0%}")
