#!/usr/bin/env bash
# XSum: dense; GMP, PLATON, the paper's MGPP and MGPP as recommended at 50 and 80%, PLATON and the last also with a learning
# rate that follows what is left ("faster"). A few at a time on one device, and those that are done already not again:
#   [AT_ONCE=4] run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA is parts of two splits: 1,927 rows of the test split to train on, 999 of the validation split to be scored on.
# The settings are those of ../cnn_dailymail, with as many steps; they are not tuned here.
set -euo pipefail
source "$(dirname "$0")/../runs.sh"
model=$1 data=$2 out=$3
given=("${@:4}")
all=(--task xsum --train-split test_partial --eval-split validation_partial --source-prefix 'summarize: ' --max-length 512
     --epochs 12 --batch-size 32 --lr 5e-4 --precision bf16 --eval-batch-size 128 --beams 8
     --logging-steps 50 --save-steps 100000 --json)

several dense {faster,recommended,platonfaster}-{50,80} platon-{50,80} gmp-{50,80} mgpp-{50,80}
