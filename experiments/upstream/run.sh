#!/usr/bin/env bash
# 90% of the weights removed upstream (masked language modelling on Wikipedia, streamed) and then SST-2 with that mask held,
# against 90% removed on SST-2 itself:
#   run.sh MODEL WIKIPEDIA SST2 OUT [STEPS]
# The settings are a first guess for a six-layer model, not tuned.
set -euo pipefail
source "$(dirname "$0")/../ending.sh"
model=$1 wikipedia=$2 sst2=$3 out=$4 steps=${5:-2000}
mkdir -p "$out"
mgpp=("${PYTHON:-python3}" -m mgpp)
all=(--precision bf16 --logging-steps 100 --save-steps 100000 --overwrite --json --eval-batch-size 128)
task=(--task sst2 --epochs 2 --lr 8e-5 --batch-size 32 --max-length 128 --group-by-length)
ramp=(--sparsity 0.9 --set start=0.1 --set end=0.7 --set every=10 --set score=curvature --set decoupled=true
      --set strength=0.01 --set spike_var=1e-9 --set slab_var=0.1)

upstream() {
  "${mgpp[@]}" prune "$model" "$wikipedia" --task mlm --stream --max-steps "$steps" --batch-size 64 --max-length 128 --lr 3e-4 \
    --output "$out/upstream" "${ramp[@]}" "${all[@]}" > "$out/upstream.json"
  "${mgpp[@]}" finetune "$out/upstream" "$sst2" --hold-mask --output "$out/held" "${task[@]}" "${all[@]}" > "$out/held.json"
}
upstream & first=$!
"${mgpp[@]}" prune "$model" "$sst2" --output "$out/downstream" "${task[@]}" "${ramp[@]}" "${all[@]}" > "$out/downstream.json" & second=$!
wait "$first"
wait "$second"
