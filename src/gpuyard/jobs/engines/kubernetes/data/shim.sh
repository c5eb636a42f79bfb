: "${JOB_COMPLETION_INDEX:=0}" "${GPUYARD_ATTEMPT:=0}"
if [ "$GPUYARD_COPIES" -gt 1 ]; then GPUYARD_INDEX=$JOB_COMPLETION_INDEX NODE_RANK=0
else GPUYARD_INDEX=0 NODE_RANK=$JOB_COMPLETION_INDEX; fi
export GPUYARD_INDEX GPUYARD_ATTEMPT NODE_RANK
if [ "$LOCAL_WORLD_SIZE" -eq 1 ]; then
  export RANK="$NODE_RANK" LOCAL_RANK=0
  exec "$@"
fi
pids= code=0 local=0
trap 'kill -TERM $pids 2>/dev/null' TERM INT
while [ "$local" -lt "$LOCAL_WORLD_SIZE" ]; do
  RANK=$((NODE_RANK * LOCAL_WORLD_SIZE + local)) LOCAL_RANK=$local "$@" &
  pids="$pids $!" local=$((local + 1))
done
while [ -n "$pids" ]; do
  sleep 0.5
  rest=
  for pid in $pids; do
    if kill -0 "$pid" 2>/dev/null; then rest="$rest $pid"; continue; fi
    wait "$pid"
    got=$?
    if [ "$got" -ne 0 ] && [ "$code" -eq 0 ]; then code=$got; kill -TERM $pids 2>/dev/null; fi
  done
  pids=$rest
done
exit "$code"
