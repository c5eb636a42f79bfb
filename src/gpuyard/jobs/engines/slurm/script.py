"""Slurm batch script of a task: srun, retries with backoff, and an atomic exit record."""

from __future__ import annotations

import shlex

from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

BYTES_PER_MB = 1 << 20  # Slurm's M
SLACK_MINUTES = 2  # the script enforces the limit; Slurm's own limit is the fallback
FIRST_PORT, PORT_COUNT = 20_000, 12_000  # below the kernel's ephemeral ports

BODY = r"""
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
"""

# Each process sees only its own chips of the node, in rank order. The exit code of the process that
# failed first is recorded, because srun returns the highest one, that of the processes it kills.
PROCESS = r"""
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
"""


def batch_script(task: Task, folder: str, spec: EngineSpec) -> str:
    """Return the script; `folder` holds the job's files."""
    srun = [
        f"--nodes={task.nodes}",
        f"--ntasks={task.processes}",
        f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}",
        "--kill-on-bad-exit=1",
    ]
    if task.processes > 1:
        srun.append("--label")
    lines = ["#!/bin/bash", f"# gpuyard: {task.id}", "set -u"]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in shared_environment(task, spec.interface)
    ]
    lines += [
        f"job={shlex.quote(folder)}",
        f"retries={task.retries} wait={task.backoff_s:g} max_wait={task.retry.max_s:g}",
        f"grace={task.grace_s:g}",
        f"limit={0 if task.time_limit_s is None else max(1, round(task.time_limit_s))}",
        f"final_codes=({' '.join(map(str, task.final_codes))})",
        f"first_port={FIRST_PORT} port_count={PORT_COUNT}",
        f"export chips={task.chips_per_process}",
        f"srun_options=({' '.join(shlex.quote(word) for word in srun)})",
        f"argv=({' '.join(shlex.quote(word) for word in task.argv)})",
        f"process={shlex.quote(PROCESS)}",
    ]
    return "\n".join(lines) + "\n" + BODY.lstrip("\n")


def batch_options(task: Task, folder: str, spec: EngineSpec) -> tuple[str, ...]:
    """Return the sbatch options."""
    options = [
        f"--job-name={task.id}",
        f"--nodes={task.nodes}",
        f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}",
        f"--chdir={task.folder}",
        "--requeue",
        "--open-mode=append",
        f"--output={folder}/log" + ("-%a" if task.copies > 1 else ""),
    ]
    if task.copies > 1:
        options.append(f"--array=0-{task.copies - 1}")
    if task.chips_per_process:
        chips = task.chips_per_process * task.processes_per_node
        options.append(f"--gres={spec.chip_resource or 'gpu'}:{chips}")
    if task.memory_per_process_bytes is not None:
        options.append(
            f"--mem={-(-task.memory_per_process_bytes * task.processes_per_node // BYTES_PER_MB)}M"
        )
    if task.time_limit_s is not None:
        options.append(f"--time={int(task.time_limit_s + task.grace_s) // 60 + SLACK_MINUTES}")
    options += [f"--partition={spec.partition}"] if spec.partition else []
    options += [f"--account={spec.account}"] if spec.account else []
    return (*options, *spec.options)
