"""The batch script of a task: srun for its processes, attempts with back-off, the exit written down whole."""

from __future__ import annotations

import shlex

from gpuyard.jobs.backoff import MOST_S
from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

__all__ = ["batch_options", "batch_script"]

BYTES_PER_MB = 1 << 20  # Slurm's M
SLACK_MINUTES = 2  # the script keeps the limit by itself; Slurm's own is only behind it
FIRST_PORT, PORT_COUNT = 20_000, 12_000  # below the ports that the kernel hands out to clients

BODY = r"""
index=${SLURM_ARRAY_TASK_ID:-0}
export GPUYARD_INDEX=$index first_failure="$job/failed-$index"

keep_exit() {  # state, exit code, reason
  printf '{"state":"%s","exit_code":%s,"reason":"%s","started_s":%s,"ended_s":%s,"attempts":%s}\n' \
    "$1" "$2" "$3" "$began" "$(date +%s)" "$attempt" >"$job/.exit-$index" &&
    mv "$job/.exit-$index" "$job/exit-$index.json"
}
give_up() { keep_exit "$@"; exit "${2/null/1}"; }

began=$(cat "$job/started-$index" 2>/dev/null)
if [ -z "$began" ]; then
  began=$(date +%s)
  echo "$began" >"$job/started-$index"
fi
attempt=$(cat "$job/attempts-$index" 2>/dev/null)
attempt=${attempt:-0}
[ "$attempt" -le "$retries" ] || give_up failed null "its node failed in each of $attempt attempts"

# The first node as Slurm itself reaches it.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
MASTER_ADDR=$(scontrol --oneliner show node "$first" | grep -o 'NodeAddr=[^ ]*' | cut -d= -f2)
export MASTER_ADDR=${MASTER_ADDR:-$first}

told=
late() { [ "$limit" -gt 0 ] && [ $(($(date +%s) - began)) -ge "$limit" ]; }
watch() {  # the process of srun: at the time limit SIGTERM, the grace and SIGKILL, to the processes themselves
  while kill -0 "$1" 2>/dev/null; do
    if late && [ -z "$told" ]; then
      told=$SECONDS
      scancel --signal=TERM "$SLURM_JOB_ID"
    elif [ -n "$told" ] && [ $((SECONDS - told)) -ge "${grace%.*}" ]; then
      kill -TERM "$1"  # srun then kills what is left of its step
      told=$((SECONDS + 3600))
    fi
    sleep 0.2
  done
}

while :; do
  [ ! -e "$job/cancelled" ] || give_up cancelled null cancelled
  ! late || give_up failed null "time limit of $limit s"
  export GPUYARD_ATTEMPT=$attempt MASTER_PORT=$((first_port + (SLURM_JOB_ID * 7 + attempt) % port_count))
  attempt=$((attempt + 1))
  echo "$attempt" >"$job/attempts-$index"
  rm -f "$first_failure"
  srun "${srun_options[@]}" bash -c "$process" process "${argv[@]}" &
  [ "$limit" -eq 0 ] || watch $!
  wait $!
  code=$?
  [ -z "$told" ] || give_up failed null "time limit of $limit s"
  [ "$code" -ne 0 ] || { keep_exit done 0 ""; exit 0; }
  [ ! -s "$first_failure" ] || code=$(<"$first_failure")
  [ ! -e "$job/cancelled" ] || give_up cancelled null cancelled
  case $code in
    13[0-9]|14[0-9]|15[0-9]) what="killed by SIG$(kill -l $((code - 128)))";;
    *) what="exit code $code";;
  esac
  [ "$attempt" -le "$retries" ] || give_up failed "$code" "$what"
  [[ " ${final_codes[*]-} " != *" $code "* ]] || give_up failed "$code" "$what"
  # A job that Slurm ends or requeues is not for this script to start again.
  state=$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null | head -n1)
  case $state in RUNNING|"") ;; *) exit "$code";; esac
  echo "gpuyard: $what; attempt $((attempt + 1)) of $((retries + 1)) in $wait s"
  sleep "$wait"
  wait=$(awk -v wait="$wait" -v most="$most" 'BEGIN {wait *= 2; print wait < most ? wait : most}')
done
"""

# Of its node's chips a process sees its own: the first rank the first ones, and so on. The code of the process that
# failed first is noted, for srun gives the highest of all, which is that of those it then ends.
PROCESS = r"""
export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID NODE_RANK=$SLURM_NODEID
if [ "$chips" -gt 0 ] && [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
  IFS=, read -ra all <<<"$CUDA_VISIBLE_DEVICES"
  own=("${all[@]:$((LOCAL_RANK * chips)):chips}")
  [ ${#own[@]} -eq 0 ] || export CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${own[*]}")
fi
trap : TERM  # the command has it too: this shell waits for its end
exec 3>&2 2>/dev/null
"$@" 2>&3 3>&-
code=$?
[ "$code" -eq 0 ] || (set -C; echo "$code" >"$first_failure")
exit "$code"
"""


def batch_script(task: Task, folder: str, spec: EngineSpec) -> str:
    """The script; `folder` holds the job's files."""
    srun = [
        f"--nodes={task.nodes}", f"--ntasks={task.processes}", f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}", "--kill-on-bad-exit=1",
    ]  # fmt: skip
    if task.processes > 1:
        srun.append("--label")
    lines = ["#!/bin/bash", f"# gpuyard: {task.id}", "set -u"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in shared_environment(task, spec.interface)]
    lines += [
        f"job={shlex.quote(folder)}",
        f"retries={task.retries} wait={task.backoff_s:g} most={MOST_S:g} grace={task.grace_s:g}",
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
    """The options of sbatch."""
    options = [
        f"--job-name={task.id}", f"--nodes={task.nodes}", f"--ntasks-per-node={task.processes_per_node}",
        f"--cpus-per-task={task.cores_per_process}", f"--chdir={task.folder}", "--requeue", "--open-mode=append",
        f"--output={folder}/log" + ("-%a" if task.copies > 1 else ""),
    ]  # fmt: skip
    if task.copies > 1:
        options.append(f"--array=0-{task.copies - 1}")
    if task.chips_per_process:
        options.append(f"--gres={spec.chip_resource or 'gpu'}:{task.chips_per_process * task.processes_per_node}")
    if task.memory_per_process_bytes is not None:
        options.append(f"--mem={-(-task.memory_per_process_bytes * task.processes_per_node // BYTES_PER_MB)}M")
    if task.time_limit_s is not None:
        options.append(f"--time={int(task.time_limit_s + task.grace_s) // 60 + SLACK_MINUTES}")
    options += [f"--partition={spec.partition}"] if spec.partition else []
    options += [f"--account={spec.account}"] if spec.account else []
    return (*options, *spec.options)
