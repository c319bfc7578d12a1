#!/usr/bin/env bash
# SQuAD v1.1: dense; GMP, PLATON, the paper's MGPP and MGPP as recommended at 50 to 95%, PLATON and the last also with a
# learning rate that follows what is left ("faster"), and of some at 90% two more seeds. A few at a time on one device, and
# those that are done already not again:
#   [AT_ONCE=4] run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA holds train.* and validation.*, or says which split to train on: --train-split train_partial.
# The learning rate and the ramp are those that the six-layer MiniLM was measured with on GLUE; they are not tuned here.
set -euo pipefail
source "$(dirname "$0")/../runs.sh"
model=$1 data=$2 out=$3
given=("${@:4}")
all=(--task squad --epochs 10 --batch-size 32 --lr 1e-4 --group-by-length --precision bf16 --eval-batch-size 256
     --logging-steps 50 --save-steps 100000 --json)

several dense {faster,recommended,platonfaster,platon,gmp,mgpp}-{90,95,80,70,50} \
  {dense,{faster,recommended,platonfaster,platon}-90}@{1,2}
