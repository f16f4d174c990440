#!/bin/bash
# A cohort on several machines of a SLURM cluster: sbatch slurm.sh SLIDES RUN OUTPUT
# All three must be in folders that all machines see. Run again, it goes on with the slides that are not finished.
#SBATCH --job-name=ucc-path
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --gpus-per-node=4
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@120
set -euo pipefail
slides=$1 run=$2 output=$3

# What ucc-path may take on each machine; leave some of the machine's memory to the system's cache of files.
memory=${UCC_PATH_MAX_MEMORY:-64G}

# Only who knows the secret of this job may use its cluster. srun hands it on.
RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')
RAY_USAGE_STATS_ENABLED=0
export RAY_AUTH_MODE RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED

head=$(hostname)
address=$head:$((20000 + SLURM_JOB_ID % 10000))
started=(--num-cpus "${SLURM_CPUS_PER_TASK:-1}" --temp-dir "/tmp/ray-$SLURM_JOB_ID" --block)

srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" \
    ray start --head --port "${address##*:}" --include-dashboard=false "${started[@]}" &
tries=60
until ray status --address "$address" > /dev/null 2>&1; do
    ((tries--)) || { echo "Ray did not start on $head" >&2; exit 1; }
    sleep 2
done
others=$((SLURM_JOB_NUM_NODES - 1))
if ((others)); then # machines are used as they join
    srun --overlap --nodes="$others" --ntasks="$others" --exclude="$head" \
        ray start --address "$address" "${started[@]}" &
fi

# In the background, so that the signal before the end of the job reaches it: finished slides stay.
ucc-path segment "$slides" -m "$run" -o "$output" --engine ray --ray-address "$address" --max-memory "$memory" &
command=$!
trap 'kill -TERM $command' TERM
status=0
wait "$command" || status=$?
if ((status > 128)) && kill -0 "$command" 2> /dev/null; then # the signal came while it was waited for
    status=0
    wait "$command" || status=$?
fi
exit "$status" # what is left of Ray ends with the job
