package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/cluster/curve"
	"lull.dev/lull/internal/cluster/slurm"
)

// bound has the controller bound how many CPUs jobs use at a time: 4, and 12 every other six hours. What may not wait is above that. There are licences for all jobs.
func (w *world) bound() {
	method := v1alpha1.CapacityMethod{Schedule: []v1alpha1.CapacityWindow{{From: "06:00", To: "12:00", Capacity: "12"}, {From: "18:00", To: "24:00", Capacity: "12"}}}
	least := v1alpha1.Amount("4")
	w.c.o.Input.Config.Capacity = &slurm.Capacity{Licence: "power", Maximum: "320", Minimum: &least, Method: method}
	local, err := curve.NewLocal("slurm", v1alpha1.CapacityCurveSpec{Resource: slurm.LicenceResource, Maximum: "320", Minimum: &least, Method: method}, "", w.c.o.Log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.c.o.Capacity = &Capacity{Curve: local, Licence: "power", Maximum: 320, Total: 320}
	w.f.licences = 320
}

// late is by how much a job may end late. A controller that is killed in the middle of a pause leaves the job to Slurm, which starts it two minutes later. With a capacity, one
// that was submitted since may wait until the reservation ends.
func (w *world) late() time.Duration {
	if w.bounds {
		return 5*time.Minute + keptFor
	}
	return 5 * time.Minute
}

// checkLicences is what is promised of licences: a job whose number of tasks Lull may set has one for each CPU, always.
func (w *world) checkLicences(j *slurm.Job, x *fate, fail func(string)) {
	if !w.bounds || x.user == 0 || x.own > 0 || j.CPUs == licensesOf(j) {
		return
	}
	fail(fmt.Sprintf("%d CPUs and licences %s", j.CPUs, j.Licences))
}

// licensesOf is how many licences of power a job asks for, or has.
func licensesOf(j *slurm.Job) (n int) {
	for of := range strings.SplitSeq(j.Licences, ",") {
		if text, is := strings.CutPrefix(of, "power:"); is {
			n, _ = strconv.Atoi(text)
		}
	}
	return n
}

// licenses reports whether enough licences are neither used nor reserved for a job to start; if not, Slurm says so as the reason of the job.
func (f *fake) licenses(j *slurm.Job, now time.Time) bool {
	if f.licences == 0 {
		return true
	}
	free := f.licences
	if now.Before(f.until) {
		free -= f.reserved
	}
	for i := range f.jobs {
		if x := &f.jobs[i]; !x.Pending() {
			free -= licensesOf(x)
		}
	}
	if licensesOf(j) > free && !j.Begin.After(now) && j.Reason != "Dependency" {
		j.Reason = "Licenses"
	}
	return licensesOf(j) <= free
}
