export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
if [ "$chips" -gt 0 ] && [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  IFS=, read -ra all <<<"$CUDA_VISIBLE_DEVICES"
  own=("${all[@]:$((LOCAL_RANK * chips)):chips}")
  [ ${#own[@]} -eq 0 ] || export CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${own[*]}")
fi
trap : TERM  # the command gets it too; this shell waits for it
exec 3>&2 2>/dev/null
"$@" 2>&3 3>&-
code=$?
[ "$code" -eq 0 ] || (set -C; echo "$code" >"$first_failure")
exit "$code"
