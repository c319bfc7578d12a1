#!/usr/bin/env bash
# SQuAD v1.1, dense and MGPP at 80%, at the same time on one device:
#   run.sh MODEL DATA OUT [options of mgpp prune for both]
# DATA holds train.* and validation.*, or says which split to train on: --train-split train_partial.
# The learning rate and the ramp are those that the six-layer MiniLM was measured with on GLUE; they are not tuned here.
set -euo pipefail
model=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
both=(--task squad --epochs 10 --batch-size 32 --lr 1e-4 --group-by-length --precision bf16 --eval-batch-size 256
      --logging-steps 50 --save-steps 100000 --overwrite --json)
prior=(--set start=0.1 --set end=0.7 --set every=10 --set spike_var=1e-9 --set slab_var=0.1)
prune() { "${PYTHON:-python3}" -m mgpp prune "$model" "$data" --output "$out/$1" "${both[@]}" "${@:2}" > "$out/$1.json"; }

prune dense --method none "$@" & dense=$!
prune mgpp-80 --sparsity 0.8 "${prior[@]}" "$@" & pruned=$!
wait "$dense"
wait "$pruned"
