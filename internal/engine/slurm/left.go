package slurm

import "lull.dev/lull/internal/cluster/slurm"

// reportLeft logs jobs that the controller has released as it leaves them to Slurm.
func (c *Controller) reportLeft(u *slurm.Update) {
	if u.Left != "" {
		c.o.Log.Warn("Released jobs that waited: Lull leaves them to Slurm", "jobs", names(u.IDs), "number", len(u.IDs), "reason", u.Left, "message", c.leaves(u.Left))
	}
}

// leaves says why the controller releases jobs that one before it, or job_submit.lua, has had wait.
func (c *Controller) leaves(why slurm.Why) string {
	switch {
	case why != slurm.NotOptedIn && why != slurm.NoSlack:
		return "run lull slurm explain JOBID for the reason"
	case len(c.o.Input.Config.Defaults) == 0:
		return "their comments do not let them wait, and this controller has no defaults; to keep them waiting by the defaults of a configuration file, start it with --config"
	}
	return "neither their comments nor the defaults of this controller let them wait; to keep them waiting, restore the defaults of before in the file of --config"
}
