# Sourced by a run.sh whose experiment is some runs of `mgpp prune`. AT_ONCE of them (4) go side by side on one device;
# each leaves its result in $out/NAME.json and what it said in $out/NAME.log. One whose result is there is not run again;
# one that was cut short goes on where it was, at the least with its scoring, if it had been trained. The run.sh says:
# model, data, out; all=(options of every run); given=(options of this call). A run's name says what it has of its own:
# dense, or METHOD-PERCENT, where mgpp is the paper's; and @SEED after either, where that is not 0.

source "$(dirname "${BASH_SOURCE[0]}")/ending.sh"

ramp=(--set start=0.1 --set end=0.7 --set every=10)

options_of() {
  case $1 in
    dense) own=(--method none) ;;
    faster-*) own=(--sparsity "0.${1#*-}" "${ramp[@]}") ;; # the recommended form with a rate that follows what is left
    recommended-*) own=(--sparsity "0.${1#*-}" "${ramp[@]}" --set lr_power=0) ;; # and without, as it was once
    platonfaster-*) own=(--sparsity "0.${1#*-}" "${ramp[@]}" --method platon --set lr_power=0.5) ;;
    mgpp-*) own=(--sparsity "0.${1#*-}" "${ramp[@]}" --method mgpp --set spike_var=1e-9 --set slab_var=0.1) ;;
    *) own=(--sparsity "0.${1#*-}" "${ramp[@]}" --method "${1%-*}") ;;
  esac
}

going_on() {  # FOLDER: what is left there of a run that did not reach its end
  if [[ -e $1/run.json && ! -e $1/result.json ]]; then
    echo --resume
  else
    echo --overwrite
  fi
}

prune() {  # NAME
  local own=()
  trap : TERM # the run got it too: wait until it has tidied up and said what is left
  options_of "${1%@*}"
  if [[ $1 == *@* ]]; then
    own+=(--seed "${1#*@}")
  fi
  own+=("$(going_on "$out/$1")")
  "${PYTHON:-python3}" -m mgpp prune "$model" "$data" --output "$out/$1" "${all[@]}" "${own[@]}" "${given[@]}" \
    > "$out/$1.part" 2> "$out/$1.log" && mv "$out/$1.part" "$out/$1.json"
}

several() {  # NAME...
  local name missing=()
  mkdir -p "$out"
  for name in "$@"; do
    if [[ -e $out/$name.json ]]; then
      echo "$name: there already"
      continue
    fi
    while (($(jobs -rp | wc -l) >= ${AT_ONCE:-4})); do
      wait -n || true  # which of them failed is found out at the end
    done
    echo "$name: begun"
    prune "$name" &
  done
  wait
  for name in "$@"; do
    [[ -e $out/$name.json ]] || missing+=("$name")
  done
  if ((${#missing[@]})); then
    echo "failed: ${missing[*]} (see $out/NAME.log)" >&2
    return 1
  fi
}
