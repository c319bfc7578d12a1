# Sourced by a script that begins runs in the background: when it is ended, by Ctrl-C too, they are, and none is left
# behind. One that only fails leaves the others to their end.

set -m # each in a process group of its own: the group is ended, with all that the run has begun

end_runs() {  # EXIT_CODE
  local run
  trap '' INT TERM HUP # once is enough
  for run in $(jobs -p); do
    kill -- "-$run" 2> /dev/null || true # it may have ended meanwhile
  done
  wait
  echo "ended, and the runs with it" >&2
  exit "$1"
}
trap 'end_runs 130' INT
trap 'end_runs 143' TERM
trap 'end_runs 129' HUP
