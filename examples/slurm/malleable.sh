#!/bin/bash
# A job whose number of tasks Lull may change: it stops the job (SIGTERM), and Slurm starts it again with more or fewer tasks. The job saves its work and goes on
# from there. Its work is in parts; as many run side by side as it has CPUs. For jobs on one node.
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

# Slurm leaves SLURM_NTASKS as it was at the submission: with srun, use srun --ntasks=$tasks.
tasks=$((SLURM_CPUS_ON_NODE / ${SLURM_CPUS_PER_TASK:-1}))
unset SLURM_NTASKS SLURM_NPROCS
parts=${PARTS:-64}

stopped=
trap 'stopped=1; kill -TERM $(jobs -pr) 2>/dev/null' TERM

# next waits for the end of a part. A signal ends wait too: the parts then save their work.
failed=0
next() {
	wait -n
	local status=$?
	if [ -z "$stopped" ] && [ $status -ne 0 ]; then
		failed=1
	fi
}

for ((part = 0; part < parts; part++)); do
	while [ -z "$stopped" ] && [ "$(jobs -pr | wc -l)" -ge "$tasks" ]; do
		next
	done
	if [ -n "$stopped" ]; then
		break
	fi
	PART=$part JOB_COMPLETION_INDEX=$part "$@" &
done
while [ -n "$(jobs -pr)" ]; do
	next
done
if [ -n "$stopped" ]; then
	exit 143
fi
exit $failed
