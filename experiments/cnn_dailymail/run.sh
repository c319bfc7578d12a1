#!/usr/bin/env bash
# CNN/DailyMail: dense; GMP, PLATON, the paper's MGPP and MGPP as recommended at 50 and 80%, PLATON and the last also with a
# learning rate that follows what is left ("faster"). A few at a time on one device, and those that are done already not again:
#   [AT_ONCE=4] run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA is the validation split alone (13,368 rows): 12,000 to train on and 1,368 held out, by seed 0, to be scored on.
# The settings are a first guess for flan-T5-small, not tuned.
set -euo pipefail
source "$(dirname "$0")/../runs.sh"
model=$1 data=$2 out=$3
given=("${@:4}")
all=(--task cnn_dailymail --train-split validation --holdout 0.102334 --source-prefix 'summarize: ' --max-length 512
     --epochs 2 --batch-size 32 --lr 5e-4 --precision bf16 --eval-batch-size 128 --beams 8
     --logging-steps 50 --save-steps 100000 --json)

several dense {faster,recommended,platonfaster}-{50,80} platon-{80,50} gmp-{80,50} mgpp-{80,50}
