package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
// such as by MaxMemPerCPU, and its user may. A job that has fewer than were set last, or none, keeps those that it has: an operator has decided that.
func (c *changes) licences(g *Governed) {
	j, name := g.Job, c.licence
	if name == "" || !j.Pending() || j.LicencesCut {
		return
	}
	want := min(j.CPUs, c.most)
	if n := j.licences(name); n == 0 || n >= want || n < g.Mark.Licences {
		return
	}
	m := g.Mark
	m.Licences = want
	u := Update{Licences: withCount(j.Licences, name, want), SawLicences: j.Licences, Licensed: want}
	if m.Phase != "" {
		u.Comment = m.String()
	}
	c.add(j.ID, u)
}

// licensed reports whether a job has one licence for each of its CPUs, and no operator has lowered them. If the job started before its number of tasks was set, the mark
// states the licences of the new number, and the job has those of the number before.
func (j *Job) licensed(licence string, m *Mark) bool {
	n := j.licences(licence)
	started := !j.Pending() && m.Was > 0 && j.Size == m.Was
	return n > 0 && n == j.CPUs && !j.LicencesCut && (n >= m.Licences || started)
}

// follow has the licences of a job that waits follow its number of CPUs, in the same update: one for each. A job that has none, or whose licences an operator has lowered,
// keeps those that it has. So does a job that has more licences than CPUs, and enough for the new number.
func (c *changes) follow(u *Update, j *Job, m *Mark, cpus int) {
	has, want := j.licences(c.licence), min(cpus, c.most)
	if c.licence == "" || has == 0 || has < m.Licences || j.LicencesCut || has == want || has > j.CPUs && has > want {
		return
	}
	m.Licences = want
	u.Licences, u.SawLicences, u.Licensed = withCount(j.Licences, c.licence, want), j.Licences, want
}

// withCount is a list of licences with another number of one of them.
func withCount(list, licence string, count int) string {
	entries := strings.Split(list, ",")
	for i, of := range entries {
		if licenceName(of) == licence {
			entries[i] = fmt.Sprintf("%s:%d", licence, count)
		}
	}
	return strings.Join(entries, ",")
}

// WithLicencesOfBefore is an update that gives jobs back the licences that they had before this one: Slurm has refused their number of tasks, and may have changed their
// licences all the same. It has no IDs if this update changes no licences.
func (u *Update) WithLicencesOfBefore() Update {
	if u.Licences == "" {
		return Update{}
	}
	return Update{IDs: u.IDs, Licences: u.SawLicences, SawLicences: u.Licences, Licensed: u.licensedBefore()}
}

// licensedBefore is how many of the bound the jobs of an update of licences had before.
func (u *Update) licensedBefore() int {
	before, after := strings.Split(u.SawLicences, ","), strings.Split(u.Licences, ",")
	for i := range before {
		if i < len(after) && before[i] != after[i] {
			n, _ := strconv.Atoi(count(before[i]))
			return n
		}
	}
	return 0
}

// Beside is how many licences that bound the capacity the jobs have, or take if they start before a time, that Lull leaves to Slurm. known says that the
// lines of all jobs can be read, as far as this needs.
func (v *View) Beside(in *Input, until time.Time) (licences int, known bool) {
	known = true
	for i := range v.Left {
		licences = min(mostCount, licences+v.Left[i].Job.takes(v.places.licence, until))
	}
	for i := range in.Queue.Bad {
		switch b := &in.Queue.Bad[i]; {
		case b.Node:
		case b.Job == nil:
			known = false
		default:
			licences = min(mostCount, licences+b.Job.takes(v.places.licence, until))
		}
	}
	return licences, known
}

// Needed is how many licences that bound the capacity are to be left in use, so that jobs get theirs that must start before a time: those, and all that running jobs have. The
// floor of a curve counts no jobs that run and may be paused, but these have their licences until they are. 0 if no job must start.
func (v *View) Needed(in *Input, until time.Time) int {
	due := 0
	for i := range v.Jobs {
		switch g := &v.Jobs[i]; {
		case !g.Job.Pending() || g.Latest.Add(-in.Margin).After(until):
		case g.Size != nil: // with all of its tasks
			due = min(mostCount, due+g.Size.User*g.Size.Each)
		case g.Job.Begin.After(until): // it is about to be released
			due = min(mostCount, due+g.Job.takes(v.places.licence, g.Job.Begin))
		default:
			due = min(mostCount, due+g.Job.takes(v.places.licence, until))
		}
	}
	for i := range v.Left {
		if v.Left[i].Job.Pending() {
			due = min(mostCount, due+v.Left[i].Job.takes(v.places.licence, until))
		}
	}
	if due == 0 {
		return 0
	}
	return min(mostCount, due+in.used(v.places.licence, until))
}

// used is how many of a licence the jobs have that have started, and those take whose lines cannot be read in full and that may start before a time.
func (in *Input) used(licence string, until time.Time) (n int) {
	for i := range in.Queue.Jobs {
		if j := &in.Queue.Jobs[i]; !j.Pending() {
			n = min(mostCount, n+j.takes(licence, until))
		}
	}
	for i := range in.Queue.Bad {
		if j := in.Queue.Bad[i].Job; j != nil {
			n = min(mostCount, n+j.takes(licence, until))
		}
	}
	return n
}

// licenceName is the name of an entry such as power:4, power=4 or power.
func licenceName(entry string) string {
	name, _, _ := strings.Cut(strings.ReplaceAll(entry, "=", ":"), ":")
	return name
}

// Relicense is an update of licences as it is to be made when jobs have these by now, by name: a job whose other licences were changed since the decision keeps that
// change, and one that has another number of the licence that is to be set, or is not there, is left as it is.
func (u *Update) Relicense(now map[string]string) []Update {
	var out []Update
	for _, id := range u.IDs {
		has, known := now[id]
		list, same := merged(u.SawLicences, u.Licences, has)
		if !known || !same {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Licences == list {
			out[n-1].IDs = append(out[n-1].IDs, id)
			continue
		}
		part := *u
		part.IDs, part.Licences, part.SawLicences = []string{id}, list, has
		out = append(out, part)
	}
	return out
}

// Again is an update as it is to be made again after Slurm has refused it for some of its jobs, for one that has these licences by now: if it has those of the
// update already, they stay.
func (u Update) Again(now string) Update {
	if _, has := merged(u.Licences, u.SawLicences, now); has {
		u.SawLicences = u.Licences
	}
	return u
}

// Marked divides an update by how many licences its jobs have been given since it was decided on, by name: their marks state that number. A job that has been given
// none, or whose mark cannot be read, gets the update as it is.
func (u *Update) Marked(licensed map[string]int) []Update {
	if u.Comment == "" || !slices.ContainsFunc(u.IDs, func(id string) bool { return licensed[id] > 0 }) {
		return []Update{*u}
	}
	var out []Update
	at := map[int]int{}
	for _, id := range u.IDs {
		n := licensed[id]
		i, known := at[n]
		if !known {
			i = len(out)
			at[n] = i
			part := *u
			part.IDs, part.Comment, part.Otherwise = nil, withLicences(u.Comment, n), withLicences(u.Otherwise, n)
			out = append(out, part)
		}
		out[i].IDs = append(out[i].IDs, id)
	}
	return out
}

// withLicences is an AdminComment whose mark states so many licences.
func withLicences(comment string, n int) string {
	m := ReadMark(comment)
	if n == 0 || m.Phase == "" {
		return comment
	}
	m.Licences = n
	return m.String()
}

// merged changes in a list of licences what differs between two others; ok is false if it has not what is to be changed.
func merged(from, to, list string) (out string, ok bool) {
	before, after, entries := strings.Split(from, ","), strings.Split(to, ","), strings.Split(list, ",")
	for i := range before {
		if before[i] == after[i] {
			continue
		}
		at := slices.IndexFunc(entries, func(of string) bool { return licenceName(of) == licenceName(before[i]) })
		if at < 0 || count(entries[at]) != count(before[i]) {
			return "", false
		}
		entries[at] = after[i]
	}
	return strings.Join(entries, ","), true
}

// count is the number of an entry; that of power is 1.
func count(entry string) string {
	_, n, stated := strings.Cut(strings.ReplaceAll(entry, "=", ":"), ":")
	if !stated {
		return "1"
	}
	return n
}

// LicencesOf implements Client by squeue of these jobs, in one call.
func (c Commands) LicencesOf(ctx context.Context, ids []string) (map[string]string, error) {
	var numbers []string
	for _, id := range ids {
		if n := strconv.Itoa(arrayOf(id)); !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	end := newWord()
	out, err := c.run(ctx, "squeue", "--noheader", "--all", "--array-unique", "--states=PENDING", "--jobs="+strings.Join(numbers, ","), "--Format="+format(licenceColumns, end))
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	bad := rows(out, end, licenceColumns, func(f []string) error {
		j := Job{ID: f[0], State: statePending}
		if number, err := strconv.Atoi(f[1]); none(f[2]) != "" {
			if err := errors.Join(err, j.array(number, f[2])); err != nil {
				return err
			}
		}
		if len(f[3]) < tresWidth {
			found[j.ID] = none(f[3])
		}
		return nil
	})
	if len(bad) > 0 {
		return nil, fmt.Errorf("squeue: %q: %w", clipped(bad[0].Line), bad[0].Err)
	}
	return found, nil
}

// licenceColumns are those of LicencesOf.
var licenceColumns = []column{{"JobID", 12}, {"ArrayJobID", 12}, {"ArrayTaskID", 80}, {"Licenses", tresWidth}}

// Reserved implements Client by scontrol show reservation.
func (c Commands) Reserved(ctx context.Context, licence string) (r Reservation, there bool, err error) {
	out, err := c.run(ctx, "scontrol", "--oneliner", "show", "reservation")
	if err != nil {
		return r, false, err
	}
	for line := range strings.Lines(out) {
		fields := map[string]string{}
		for _, f := range strings.Fields(line) {
			key, value, _ := strings.Cut(f, "=")
			fields[key] = value
		}
		if fields["ReservationName"] == reservation(licence) {
			j := Job{Licences: none(fields["Licenses"])}
			r.Count = j.licences(licence)
			if r.Ends, err = parseTime(fields["EndTime"]); err != nil || r.Ends.IsZero() {
				return r, true, fmt.Errorf("%w: scontrol show reservation: %s: EndTime %q; want a time such as %s", ErrCommand, reservation(licence), clipped(fields["EndTime"]), timeLayout)
			}
			return r, true, nil
		}
	}
	return r, false, nil
}
