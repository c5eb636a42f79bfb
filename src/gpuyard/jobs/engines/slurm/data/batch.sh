index=${SLURM_ARRAY_TASK_ID:-0}
export GPUYARD_INDEX=$index first_failure="$job/failed-$index"

save_exit() {  # state, exit code, reason
  printf '{"state":"%s","exit_code":%s,"reason":"%s","started_s":%s,"ended_s":%s,"attempts":%s}\n' \
    "$1" "$2" "$3" "$started" "$(date +%s)" "$attempt" >"$job/.exit-$index" &&
    mv "$job/.exit-$index" "$job/exit-$index.json"
}
give_up() { save_exit "$@"; exit "${2/null/1}"; }

started=$(cat "$job/started-$index" 2>/dev/null)
if [ -z "$started" ]; then
  started=$(date +%s)
  echo "$started" >"$job/started-$index"
fi
attempt=$(cat "$job/attempts-$index" 2>/dev/null)
attempt=${attempt:-0}
[ "$attempt" -le "$retries" ] || give_up failed null "its node failed in each of $attempt attempts"

# The first node as Slurm itself reaches it.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
MASTER_ADDR=$(scontrol --oneliner show node "$first" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
export MASTER_ADDR=${MASTER_ADDR:-$first}

stopped_at=
is_late() { [ "$limit" -gt 0 ] && [ $(($(date +%s) - started)) -ge "$limit" ]; }
watch() {  # $1: srun. At the time limit: SIGTERM to the processes, the grace period, SIGKILL.
  while kill -0 "$1" 2>/dev/null; do
    if is_late && [ -z "$stopped_at" ]; then
      stopped_at=$SECONDS
      scancel --signal=TERM "$SLURM_JOB_ID"
    elif [ -n "$stopped_at" ] && [ $((SECONDS - stopped_at)) -ge "${grace%.*}" ]; then
      kill -TERM "$1"  # srun then kills what is left of its step
      stopped_at=$((SECONDS + 3600))
    fi
    sleep 0.2
  done
}

while :; do
  [ ! -e "$job/cancelled" ] || give_up cancelled null cancelled
  ! is_late || give_up failed null "time limit of $limit s"
  export GPUYARD_ATTEMPT=$attempt
  export MASTER_PORT=$((first_port + (SLURM_JOB_ID * 7 + attempt) % port_count))
  attempt=$((attempt + 1))
  echo "$attempt" >"$job/attempts-$index"
  rm -f "$first_failure"
  srun "${srun_options[@]}" bash -c "$process" process "${argv[@]}" &
  [ "$limit" -eq 0 ] || watch $!
  wait $!
  code=$?
  [ -z "$stopped_at" ] || give_up failed null "time limit of $limit s"
  [ "$code" -ne 0 ] || { save_exit done 0 ""; exit 0; }
  [ ! -s "$first_failure" ] || code=$(<"$first_failure")
  [ ! -e "$job/cancelled" ] || give_up cancelled null cancelled
  case $code in
    13[0-9]|14[0-9]|15[0-9]) what="killed by SIG$(kill -l $((code - 128)))";;
    *) what="exit code $code";;
  esac
  [ "$attempt" -le "$retries" ] || give_up failed "$code" "$what"
  [[ " ${final_codes[*]-} " != *" $code "* ]] || give_up failed "$code" "$what"
  # Slurm is ending or requeuing the job, so this script must not start it again.
  state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null | head -n1)
  case $state in RUNNING|"") ;; *) exit "$code";; esac
  echo "gpuyard: $what; attempt $((attempt + 1)) of $((retries + 1)) in $wait s"
  sleep "$wait"
  wait=$(awk -v wait="$wait" -v max="$max_wait" 'BEGIN {wait *= 2; print wait < max ? wait : max}')
done
