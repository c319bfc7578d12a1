#!/bin/bash
# Several nodes under Slurm:   sbatch examples/scale/slurm.sh MODEL TRAIN.jsonl
#
# One task a node; torchrun starts a process for every GPU of it, and the nodes find each other at the first one.
# MODEL, the data and the output lie on a disk that all nodes see.

#SBATCH --job-name=mgpp
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail
model=$1
data=$2
output=${OUTPUT:-$SLURM_SUBMIT_DIR/out-$SLURM_JOB_NAME}

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
# A process that dies takes its node's torchrun along at once; the other nodes learn it from srun, not by waiting.
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1

# A requeued job goes on from its last whole checkpoint, on as many nodes as it is given.
resume=()
if compgen -G "$output/checkpoint-*/pruner.safetensors" > /dev/null; then
    resume=(--resume)
fi

srun --kill-on-bad-exit=1 torchrun \
    --nnodes="$SLURM_JOB_NUM_NODES" \
    --nproc-per-node="${SLURM_GPUS_ON_NODE:-8}" \
    --rdzv-id="$SLURM_JOB_ID" \
    --rdzv-backend=c10d \
    --rdzv-endpoint="$head:29500" \
    examples/scale/fsdp2.py "$model" "$data" --output "$output" --bf16 "${resume[@]}"
