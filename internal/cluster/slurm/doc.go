// Package slurm translates the queue of a Slurm cluster into a decide.Snapshot, and decisions into updates of its jobs.
// What kube is for Kubernetes, it is for Slurm: the only translation and the only writer.
//
// The package has a pure part and a client:
//
//   - Config and Options say which jobs may wait, and for how long.
//   - Observe turns a Queue into a View: the snapshot, and the jobs that Lull leaves to Slurm, each with the reason.
//   - Plan turns a decision into Changes. Jobs that need the same change share an update.
//   - Client reads the queue and applies Changes. Commands does so with the client commands of Slurm.
//
// The state of a job that Slurm does not know is in its AdminComment (Mark), so Lull may be stopped and started at any time.
// The begin time of a waiting job is never later than its latest safe start: Slurm starts it then, with or without Lull.
package slurm
