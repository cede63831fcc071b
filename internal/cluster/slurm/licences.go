package slurm

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var licenceTotal = regexp.MustCompile(`(?m)^LicenseName=(\S+)\s+Total=(\d+)`)

// Licences implements Client by scontrol show license.
func (c Commands) Licences(ctx context.Context, licence string) (int, error) {
	out, err := c.run(ctx, "scontrol", "show", "license", licence)
	if err != nil {
		return 0, err
	}
	for _, m := range licenceTotal.FindAllStringSubmatch(out, -1) {
		if m[1] == licence {
			return strconv.Atoi(m[2])
		}
	}
	return 0, fmt.Errorf("%w: scontrol show license %s: %q", ErrCommand, licence, clipped(firstLine(out)))
}

// reservation names the reservation of a licence.
func reservation(licence string) string { return "lull-" + licence }

// Reserve implements Client by a reservation of licences, of no nodes. Users=root: who names the reservation may use it, which nobody is to do.
func (c Commands) Reserve(ctx context.Context, licence string, count int, until time.Time) error {
	name := "ReservationName=" + reservation(licence)
	if count <= 0 {
		_, err := c.run(ctx, "scontrol", "delete", name)
		return unless(err, noReservation)
	}
	with := []string{fmt.Sprintf("Licenses=%s:%d", licence, count), "EndTime=" + until.UTC().Format(timeLayout)}
	_, err := c.run(ctx, "scontrol", append([]string{"update", name}, with...)...)
	if err == nil || !strings.Contains(err.Error(), noReservation) {
		return err
	}
	_, err = c.run(ctx, "scontrol", append([]string{"create", "reservation", name, "StartTime=now", "Users=root", "Flags=LICENSE_ONLY,OVERLAP"}, with...)...)
	return err
}

// noReservation is what scontrol says of a reservation that is not there, or that has ended.
const noReservation = "Requested reservation is invalid"

// unless is an error, unless it says something.
func unless(err error, says string) error {
	if err != nil && strings.Contains(err.Error(), says) {
		return nil
	}
	return err
}

// licences has a job that waits take one licence of the bound for each of its CPUs. job_submit.lua has counted those that it stated: Slurm may raise them later,
// such as by MaxMemPerCPU, and its user may. A job without any has been freed by an operator.
func (c *changes) licences(v *View, g *Governed) {
	j, name := g.Job, v.places.licence
	if name == "" || !j.Pending() || j.LicencesCut {
		return
	}
	want := min(j.CPUs, int(v.Snapshot.Clusters[0].Capacity[LicenceResource]))
	if n := j.licences(name); n == 0 || n >= want {
		return
	}
	list := strings.Split(j.Licences, ",")
	for i, of := range list {
		if key, _, _ := strings.Cut(strings.ReplaceAll(of, "=", ":"), ":"); key == name {
			list[i] = fmt.Sprintf("%s:%d", name, want)
		}
	}
	c.add(j.ID, Update{Licences: strings.Join(list, ",")})
}
