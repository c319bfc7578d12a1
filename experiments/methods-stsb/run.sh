#!/bin/sh
# All methods side by side on one small task: STS-B (complete), all-MiniLM-L6-v2, 80% and 90%, two seeds.
# usage: run.sh MODEL DATA OUTPUT WORKERS     (go on where it stopped: the same command again)
shared="--sparsities 0.8,0.9 --seeds 0,1 --epochs 4 --batch-size 32 --learning-rate 1e-4 --max-length 96
        --set start=0.1 --set end=0.7 --workers $4"
# The paper's methods, each by its own defaults but for the ramp; MGPP's variances are those of the paper's STS-B row.
# oBERT: half of its events and a quarter of its gradients, since an event costs 1,024 backward passes otherwise.
mgpp compare "$1" "$2" --output "$3/methods" $shared \
  --methods mgpp,gmp,l2,platon,itp,movement,soft_movement,losparse,prior_annealing,obert \
  --set mgpp.spike_var=1e-9 --set mgpp.slab_var=0.1 --set obert.every=0.1 --set obert.num_grads=256
# The curvature score, and the prior decoupled at a tenth of its strength.
mgpp compare "$1" "$2" --output "$3/curvature" $shared --methods mgpp,gmp \
  --set mgpp.spike_var=1e-9 --set mgpp.slab_var=0.1 \
  --set score=curvature --set mgpp.decoupled=true --set mgpp.strength=0.1
