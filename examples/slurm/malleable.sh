#!/bin/bash
# A job whose number of tasks Lull may change: it stops the job (SIGTERM), and Slurm starts it again with more or fewer tasks. The job saves its work and goes on
# from there. Its work is in parts; as many run side by side as it has CPUs. For jobs on one node. It fails if a part fails.
#
#     sbatch malleable.sh my-part --option      # runs my-part --option, with PART=0, 1, 2, ... in its environment
#
# my-part must save its work when it gets SIGTERM, and return at once if its part is done.
#SBATCH --ntasks=8
#SBATCH --nodes=1
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --comment=lull:max-delay=12h,runtime=3h,interruptible,min-tasks=2,restart=2m

if [ $# -eq 0 ]; then
	echo "usage: sbatch malleable.sh COMMAND [ARGUMENT...]" >&2
	exit 2
fi

# Slurm leaves SLURM_NTASKS as it was at the submission: with srun, use srun --ntasks=$tasks.
tasks=$((${SLURM_CPUS_ON_NODE:-1} / ${SLURM_CPUS_PER_TASK:-1}))
unset SLURM_NTASKS SLURM_NPROCS
parts=${PARTS:-64}

declare -A running # the parts that run, by process
stopped='' failed=0
trap 'stopped=1; kill -TERM "${!running[@]}" 2>/dev/null' TERM

# note forgets a part that has ended, and notes whether it has failed.
note() {
	unset "running[$1]"
	if [ "$2" -ne 0 ]; then
		failed=1
	fi
}

# next waits until a part has ended, or until a signal comes.
next() {
	local ended='' status part
	wait -n -p ended
	status=$?
	if [ -n "$ended" ]; then
		note "$ended" $status
		return
	fi
	for part in "${!running[@]}"; do # those that have ended before
		if ! kill -0 "$part" 2>/dev/null; then
			wait "$part"
			note "$part" $?
		fi
	done
}

for ((part = 0; part < parts; part++)); do
	while [ -z "$stopped" ] && [ ${#running[@]} -ge "$tasks" ]; do
		next
	done
	if [ -n "$stopped" ]; then
		break
	fi
	PART=$part JOB_COMPLETION_INDEX=$part "$@" &
	running[$!]=$part
done
if [ -n "$stopped" ]; then # also a part that has started since the signal
	kill -TERM "${!running[@]}" 2>/dev/null
fi
while [ ${#running[@]} -gt 0 ]; do
	next
done
if [ -n "$stopped" ]; then
	exit 143 # it was stopped: the parts have saved their work
fi
exit $failed
