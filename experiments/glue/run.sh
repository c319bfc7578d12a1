#!/usr/bin/env bash
# Tables and studies on GLUE, one after another on one card, each into results/MODEL-WHAT.jsonl. Cells that are there already
# are not run again, so a second call goes on where the first was cut, and runs those that failed:
#   [RESULTS=FOLDER] [OPTIONS='--workers 3'] run.sh MODEL MODELS FEATURES WHAT...
# WHAT is choose, vary, table, table2, seeds, fifth or figure (grid.py), of which the last five need the results of choose;
# or movement, annealing, clipping, higher, following, faster, faster2, faster5, longer, taught, patient or unlabelled
# (studies.py). MODELS/MODEL is the model, FEATURES/MODEL has its tokenised tasks (lab/features.py); taught and unlabelled
# also need those of the teacher. OPTIONS are lab/work.py's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
model=$1 models=$2 features=$3
results=${RESULTS:-$here/results}
python=${PYTHON:-python3}
cells=$(mktemp)
trap 'rm -f "$cells"' EXIT

for what in "${@:4}"; do
  case $what in
    choose | vary) plan=(grid.py "$what" "$model") ;;
    table | table2 | seeds | fifth | figure) plan=(grid.py "$what" "$model" "$results/$model-choose.jsonl") ;;
    movement | annealing | clipping | higher | following | faster | faster2 | faster5 | longer | taught | patient | unlabelled)
      plan=(studies.py "$what" "$model") ;;
    *) echo "run.sh: $what: no table and no study, see the head of $0" >&2; exit 2 ;;
  esac
  echo "$model, $what:"
  "$python" "$here/${plan[0]}" "${plan[@]:1}" "$cells"
  # shellcheck disable=SC2086
  "$python" "$here/../lab/work.py" "$cells" "$results/$model-$what.jsonl" --models "$models" --features "$features" ${OPTIONS:-}
done
