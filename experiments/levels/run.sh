#!/usr/bin/env bash
# Dense fine-tuning on the eight GLUE tasks, all at the same time on one device: the levels that pruning starts from.
#   run.sh MODEL DATA OUT [TASK...]
# DATA/<task> holds the task's rows under the benchmark's names; of mnli, qqp and qnli a part of the train split
# (train_partial), and of qqp a part of the validation split. The settings are not tuned.
set -euo pipefail
source "$(dirname "$0")/../ending.sh"
model=$1 data=$2 out=$3
shift 3
mkdir -p "$out"
tune() {
  "${PYTHON:-python3}" -m mgpp finetune "$model" "$data/$1" --task "$1" --output "$out/$1" --batch-size 32 --precision bf16 \
    --max-length 128 --group-by-length --eval-batch-size 256 --logging-steps 100 --save-steps 100000 --overwrite --json \
    "${@:2}" > "$out/$1.json"
}
options() {
  case $1 in
    sst2) echo --epochs 2 --lr 8e-5 ;;
    mnli) echo --epochs 3 --lr 1e-4 --train-split train_partial ;;
    qnli) echo --epochs 3 --lr 1e-4 --train-split train_partial ;;
    qqp) echo --epochs 3 --lr 1e-4 --train-split train_partial --eval-split validation_partial ;;
    *) echo --epochs 8 --lr 1e-4 ;;
  esac
}
pids=()
for task in ${*:-cola mrpc stsb rte qnli qqp mnli sst2}; do
  # shellcheck disable=SC2046
  tune "$task" $(options "$task") & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done
