"""Which share of a model's prunable weights lies within the half-width of a spike of each of these variances.

usage: python experiments/weights/inside.py MODEL SPIKE_VAR... [--slab-prob 1e-7] [--slab-var 0.05]
"""

import argparse

import torch
from transformers import AutoModel

from mgpp.functional.prior import half_width
from mgpp.targets import find_targets

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("spike_var", type=float, nargs="+")
parser.add_argument("--slab-prob", type=float, default=1e-7)
parser.add_argument("--slab-var", type=float, default=0.05)
args = parser.parse_args()
weights = find_targets(AutoModel.from_pretrained(args.model)).values()
sizes = torch.cat([weight.detach().abs().flatten() for weight in weights])
for spike_var in args.spike_var:
    width = half_width(slab_prob=args.slab_prob, spike_var=spike_var, slab_var=args.slab_var)
    print(f"{spike_var:g}: half-width {width:.4f}, {float((sizes <= width).float().mean()):.1%} inside")
