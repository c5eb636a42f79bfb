# Supervise this machine's share of the job: wait for all machines, run, resume from the latest
# checkpoint after a failure, and end the group when the job is done, fails for good or expires.
#
# All machines see the folder $STATE of the bucket. An attempt N starts when $NODE_COUNT machines have
# a file in $STATE/ready/N; the files hold their physical location, so all machines sort the same
# ranks. A machine that starts attempt N+1 thereby stops attempt N everywhere. While it runs, a
# machine writes $STATE/beat/NAME and watches the one before it, so a silent machine is noticed.
me=$(hostname -s)
run_pid=

end() { # REASON: for good, on every machine; nothing may be left running
  trap - EXIT
  echo "ending the job: $1"
  mkdir -p "$STATE" && echo "$1" >"$STATE/ended" || true
  docker kill work >/dev/null 2>&1 || true
  for try in 1 2 3 4 5; do
    if release_machines; then break; fi
    sleep "$((try * POLL_S))"
  done
  poweroff
  exit 0
}

expired() { [ "$(date +%s)" -ge "$EXPIRES_S" ]; }

check_end() {
  if [ -e "$STATE/ended" ]; then end "$(cat "$STATE/ended")"; fi
  if expired; then end "the TTL has passed"; fi
}

latest_attempt() { # the newest attempt that a machine has started; 1 before the first
  { ls "$STATE/ready" 2>/dev/null || echo 1; } | sort -n | tail -n 1
}

ready_count() { # FOLDER: machines whose file is complete
  { grep -l . "$1"/* 2>/dev/null || true; } | wc -l
}

join_attempt() { # NUMBER: wait for all machines, and set the ranks
  local attempt=$1 folder=$STATE/ready/$1 waited=0 newest
  mkdir -p "$folder"
  [ -s "$folder/$me" ] || place >"$folder/$me"
  while [ "$(ready_count "$folder")" -lt "$NODE_COUNT" ]; do
    check_end
    newest=$(latest_attempt)
    if [ "$newest" -gt "$attempt" ]; then return 1; fi
    if [ "$waited" -ge "$PEER_WAIT_S" ]; then
      end "only $(ready_count "$folder") of $NODE_COUNT machines came within $PEER_WAIT_S s"
    fi
    echo "attempt $attempt: $(ready_count "$folder") of $NODE_COUNT machines are ready"
    sleep "$POLL_S"
    waited=$((waited + POLL_S))
  done
  mapfile -t NODES < <(cd "$folder" && grep -H . * | awk -F: '{ print $2 "\t" $1 }' | sort | cut -f 2)
  for index in "${!NODES[@]}"; do
    if [ "${NODES[$index]}" = "$me" ]; then NODE_RANK=$index; fi
  done
  MASTER_ADDR=${NODES[0]}
  export NODE_RANK MASTER_ADDR
  before=${NODES[$(((NODE_RANK + NODE_COUNT - 1) % NODE_COUNT))]}
}

interrupted() { # ATTEMPT: whether another machine started the next one, or the one before is silent
  local newest beat
  newest=$(latest_attempt)
  if [ "$newest" -gt "$1" ]; then
    echo "another machine restarts the job"
    return 0
  fi
  mkdir -p "$STATE/beat"
  date +%s >"$STATE/beat/$me"
  beat=$(cat "$STATE/beat/$before" 2>/dev/null || echo "$started")
  if [ "$beat" -lt "$started" ]; then beat=$started; fi
  if [ $(($(date +%s) - beat)) -gt "$SILENT_S" ]; then
    echo "$before is silent"
    return 0
  fi
  return 1
}

run_attempt() { # ATTEMPT: sets code
  started=$(date +%s)
  code=0
  docker rm --force work >/dev/null 2>&1 || true
  run_program &
  run_pid=$!
  while kill -0 "$run_pid" 2>/dev/null; do
    sleep "$POLL_S"
    kill -0 "$run_pid" 2>/dev/null || break
    if [ "$IS_INDEPENDENT" = 0 ] && interrupted "$1"; then
      docker kill work >/dev/null 2>&1 || true
      wait "$run_pid" || true
      code=130
      return
    fi
    if [ -e "$STATE/ended" ] || expired; then check_end; fi
  done
  wait "$run_pid" || code=$?
}

finish() { # ATTEMPT: this machine is done; wait a while for the others
  mkdir -p "$STATE/done"
  touch "$STATE/done/$me"
  for ((waited = 0; waited < DONE_WAIT_S; waited += POLL_S)); do
    check_end
    if [ "$IS_INDEPENDENT" = 1 ] || [ "$(ls "$STATE/done" | wc -l)" -ge "$NODE_COUNT" ]; then break; fi
    if [ "$(latest_attempt)" -gt "$1" ]; then
      rm -f "$STATE/done/$me"
      return
    fi
    sleep "$POLL_S"
  done
  end "done"
}

supervise() {
  local attempt quick=0 failures=0
  attempt=$(latest_attempt)
  # A recreated machine has the name of the lost one, whose attempt it must not rejoin.
  if [ "$IS_INDEPENDENT" = 0 ] && [ -s "$STATE/ready/$attempt/$me" ]; then attempt=$((attempt + 1)); fi
  while :; do
    check_end
    if [ $((attempt - 1)) -gt "$RESTARTS" ] || [ "$failures" -gt "$RESTARTS" ]; then
      end "failed for good: $RESTARTS restarts"
    fi
    if ! join_attempt "$attempt"; then
      attempt=$(latest_attempt)
      continue
    fi
    echo "attempt $attempt: rank $NODE_RANK of $NODE_COUNT, first machine $MASTER_ADDR"
    run_attempt "$attempt"
    if [ "$code" = 0 ]; then
      finish "$attempt"
    elif [ "$code" != 130 ]; then
      failures=$((failures + 1))
      echo "the program exited with code $code"
      if [ $(($(date +%s) - started)) -lt "$QUICK_S" ]; then quick=$((quick + 1)); else quick=0; fi
      if [ "$quick" -ge "$QUICK_FAILURES" ]; then
        end "failed for good: $quick failures in a row, each within $QUICK_S s"
      fi
      sleep "$((quick * BACKOFF_S))"
    fi
    if [ "$IS_INDEPENDENT" = 0 ]; then
      newest=$(latest_attempt)
      attempt=$((attempt + 1))
      if [ "$newest" -gt "$attempt" ]; then attempt=$newest; fi
    fi
  done
}

supervise
