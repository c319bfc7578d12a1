#!/usr/bin/env bash
# CNN/DailyMail, dense and MGPP at 50% and 80%, at the same time on one device:
#   run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA is the validation split alone (13,368 rows): 12,000 to train on and 1,368 held out, by seed 0, to be scored on.
# The settings are a first guess for flan-T5-small, not tuned.
set -euo pipefail
model=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
all=(--task cnn_dailymail --holdout 0.102334 --source-prefix 'summarize: ' --epochs 6 --batch-size 32 --lr 5e-4
     --precision bf16 --eval-batch-size 128 --beams 8 --logging-steps 50 --save-steps 100000 --overwrite --json)
prior=(--set start=0.1 --set end=0.7 --set every=10 --set spike_var=1e-9 --set slab_var=0.1)
prune() { "${PYTHON:-python3}" -m mgpp prune "$model" "$data" --output "$out/$1" "${all[@]}" "${@:2}" > "$out/$1.json"; }

prune dense --method none "$@" & dense=$!
prune mgpp-50 --sparsity 0.5 "${prior[@]}" "$@" & half=$!
prune mgpp-80 --sparsity 0.8 "${prior[@]}" "$@" & most=$!
wait "$dense"
wait "$half"
wait "$most"
