#!/usr/bin/env bash
# A decoder (SmolLM2-135M-Instruct) goes on with language modelling (WikiText-2): dense, and GMP, PLATON, the paper's
# MGPP and MGPP as recommended at 50 and 70%, PLATON and the last also with a learning rate that follows what is left
# ("faster"). A few at a time on one device, and those that are done already not again:
#   [AT_ONCE=4] run.sh MODEL DATA OUT [options of mgpp prune for all]
# DATA holds train.* and validation.* with a column of text. The settings are a first guess, not tuned.
set -euo pipefail
source "$(dirname "$0")/../runs.sh"
model=$1 data=$2 out=$3
given=("${@:4}")
all=(--task clm --max-length 512 --epochs 3 --batch-size 16 --lr 1e-4 --precision bf16 --eval-batch-size 16
     --logging-steps 50 --save-steps 100000 --json)

several dense {gmp,platon,mgpp,recommended,faster,platonfaster}-{50,70}
