#!/usr/bin/env bash
# CNN/DailyMail, dense, MGPP with the curvature score at 50% and 80% and as in the paper at 80%, at once on one device:
#   run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA is the validation split alone (13,368 rows): 12,000 to train on and 1,368 held out, by seed 0, to be scored on.
# The settings are a first guess for flan-T5-small, not tuned.
set -euo pipefail
source "$(dirname "$0")/../ending.sh"
model=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
all=(--task cnn_dailymail --train-split validation --holdout 0.102334 --source-prefix 'summarize: '
     --max-length 512 --epochs 3 --batch-size 32 --lr 5e-4 --precision bf16 --eval-batch-size 128 --beams 8 --logging-steps 50 --save-steps 100000 --overwrite --json)
prior=(--set start=0.1 --set end=0.7 --set every=10 --set spike_var=1e-9 --set slab_var=0.1)
free=("${prior[@]}" --set score=curvature --set decoupled=true --set strength=0.01)
prune() { "${PYTHON:-python3}" -m mgpp prune "$model" "$data" --output "$out/$1" "${all[@]}" "${@:2}" > "$out/$1.json"; }

running=()
prune dense --method none "$@" & running+=($!)
prune curvature-50 --sparsity 0.5 "${free[@]}" "$@" & running+=($!)
prune curvature-80 --sparsity 0.8 "${free[@]}" "$@" & running+=($!)
prune mgpp-80 --sparsity 0.8 "${prior[@]}" "$@" & running+=($!)
for run in "${running[@]}"; do
  wait "$run"
done
