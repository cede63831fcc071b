package slurm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// ErrREST marks a call of slurmrestd that failed.
var ErrREST = errors.New("slurmrestd failed")

const (
	// restPath is the interface of slurmrestd that is read: that of Slurm 22.05, which 23.02 and 23.11 have too.
	restPath = "/slurm/v0.0.38"
	// mostAnswer bounds what is read of an answer: 100,000 jobs and more, of 3.2 KB each.
	mostAnswer = 512 << 20
	// mostToken bounds the file of a token.
	mostToken = 64 << 10
)

// REST is a Client that asks slurmrestd, as far as its interface v0.0.38 carries what Lull does, and runs the commands for the rest: the interface has no
// AdminComment, no throttle of an array, no requeue and no change of a reservation. See the table in docs/slurm.md.
type REST struct {
	Commands

	base      string
	user      string
	tokenFile string
	client    *http.Client
}

var _ Client = (*REST)(nil)

// NewREST returns a client of the slurmrestd at an address: unix: and the path of a socket, the http:// address of this machine, or an https:// address. With
// tokenFile, it sends the token in this file, which it reads for each call, as that of a user. The error says what is accepted.
func NewREST(commands Commands, at, user, tokenFile string) (*REST, error) {
	transport := &http.Transport{} // no proxy: a token is for slurmrestd
	c := &REST{Commands: commands, user: user, tokenFile: tokenFile, client: &http.Client{
		Transport: transport, Timeout: commandTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	const accepted = "accepted: unix:/path/of/socket, http://127.0.0.1:6820, or an https:// address"
	if path, is := strings.CutPrefix(at, "unix:"); is {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("%q; %s", at, accepted)
		}
		c.base = "http://slurmrestd"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q; %s", at, accepted)
	}
	if safe := u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname()); !safe {
		return nil, fmt.Errorf("%q; %s", at, accepted)
	}
	c.base = u.Scheme + "://" + u.Host
	return c, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// restProblem is an entry of errors in an answer.
type restProblem struct {
	Description string `json:"description"`
	Error       string `json:"error"`
}

// restAnswer is what each answer has.
type restAnswer struct {
	Meta struct {
		Slurm struct {
			Release string `json:"release"`
		} `json:"Slurm"`
	} `json:"meta"`
	Errors []restProblem `json:"errors"`
}

func (a *restAnswer) answer() *restAnswer { return a }

// call makes a call and reads its answer. A job that has started or ended meanwhile is not an error.
func (c *REST) call(ctx context.Context, method, path string, body any, into interface{ answer() *restAnswer }) error {
	what := "slurmrestd " + method + " " + restPath + path
	fail := func(err error) error { return fmt.Errorf("%w: %s: %w", ErrREST, what, err) }
	var send io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fail(err)
		}
		send = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+restPath+path, send)
	if err != nil {
		return fail(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := c.authorize(req); err != nil {
		return fail(err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	return c.read(resp, into, fail)
}

// authorize adds the token, which may have been renewed since the last call.
func (c *REST) authorize(req *http.Request) error {
	if c.tokenFile == "" {
		return nil
	}
	file, err := os.Open(c.tokenFile)
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, mostToken))
	if err != nil {
		return err
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(text)), "SLURM_JWT=") // as scontrol token prints it
	if token == "" || strings.ContainsAny(token, " \r\n") {
		return fmt.Errorf("the file of the token: not a token; accepted: what scontrol token prints")
	}
	req.Header.Set("X-SLURM-USER-NAME", c.user)
	req.Header.Set("X-SLURM-USER-TOKEN", token)
	return nil
}

func (c *REST) read(resp *http.Response, into interface{ answer() *restAnswer }, fail func(error) error) error {
	limited := &io.LimitedReader{R: resp.Body, N: mostAnswer}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return fail(errors.New("slurmrestd accepts neither this user nor a token of its own; accepted: the user of slurmrestd, on its socket, or the token of a user (scontrol token)"))
	case http.StatusNotFound:
		return fail(fmt.Errorf("%w: slurmrestd has no interface v0.0.38; accepted: that of 22.05 to 23.11, started with openapi/v0.0.38", ErrVersion))
	}
	err := json.NewDecoder(limited).Decode(into)
	switch a := into.answer(); {
	case limited.N <= 0:
		return fail(fmt.Errorf("more than %d MiB of an answer", mostAnswer>>20))
	case err != nil:
		return fail(fmt.Errorf("%s: %w", resp.Status, err))
	case len(a.Errors) > 0:
		var texts []string
		for _, e := range a.Errors {
			texts = append(texts, firstLine(strings.ReplaceAll(strings.TrimPrefix(e.Description+": "+e.Error, ": "), "\n", " ")))
		}
		text := strings.Join(texts, "\n")
		all := strings.Join(texts, "; ")
		switch {
		case onlyRaced(text):
			return nil
		case strings.Contains(text, "Invalid user id") || strings.Contains(text, "ermission denied"):
			return fail(fmt.Errorf("%s; %s", firstLine(all), acceptedAccounts))
		}
		return fail(errors.New(firstLine(all)))
	case resp.StatusCode != http.StatusOK:
		return fail(errors.New(resp.Status))
	}
	return nil
}

// Check implements Client: what the commands say, and the version of slurmrestd.
func (c *REST) Check(ctx context.Context) (About, error) {
	a, err := c.about(ctx)
	if err != nil {
		return a, err
	}
	var ping restAnswer
	if err := c.call(ctx, http.MethodGet, "/ping", nil, &ping); err != nil {
		return a, err
	}
	a.REST = ping.Meta.Slurm.Release
	release, err := releaseOf(a.REST)
	if err != nil {
		return a, fmt.Errorf("%w: slurmrestd says %q; accepted: as 22.05.8", ErrVersion, clipped(a.REST))
	}
	a.Tested = a.Tested && release == tested
	return a, readable(ctx, c, &a)
}

// Observe implements Client by two calls.
func (c *REST) Observe(ctx context.Context) (Queue, error) {
	var q Queue
	var jobs struct {
		restAnswer
		Jobs []restJob `json:"jobs"`
	}
	if err := c.call(ctx, http.MethodGet, "/jobs", nil, &jobs); err != nil {
		return q, err
	}
	for i := range jobs.Jobs {
		j, err := parseJob(jobs.Jobs[i].fields())
		switch {
		case err != nil:
			bad := Bad{Line: fmt.Sprint(jobs.Jobs[i].ID), Err: err}
			q.Bad = append(q.Bad, bad)
		case !j.Over():
			q.Jobs = append(q.Jobs, j)
		case c.Ended:
			q.Ended = append(q.Ended, j)
		}
	}
	var nodes struct {
		restAnswer
		Nodes []restNode `json:"nodes"`
	}
	if err := c.call(ctx, http.MethodGet, "/nodes", nil, &nodes); err != nil {
		return q, err
	}
	for i := range nodes.Nodes {
		of := &nodes.Nodes[i]
		if len(of.Partitions) == 0 {
			continue // sinfo does not list it either
		}
		n, err := parseNode(of.fields())
		if err != nil {
			q.Bad = append(q.Bad, Bad{Line: clipped(of.Name), Err: err, Node: true})
			continue
		}
		n.Partitions = of.Partitions
		q.Nodes = append(q.Nodes, n)
	}
	return q, nil
}

// Update implements Client. slurmrestd gets what it knows whole: begin times and licences of jobs that are no arrays. An update with an AdminComment or a throttle is
// one command: a begin time without its mark, for a moment, would pass for that of a user.
func (c *REST) Update(ctx context.Context, u Update) error {
	if u.Comment != "" || u.Size > 0 || u.Throttle != nil || strings.Contains(strings.Join(u.IDs, ""), "_") {
		return c.Commands.Update(ctx, u)
	}
	body := map[string]string{}
	if u.Licences != "" {
		body["licenses"] = u.Licences
	}
	switch {
	case u.Now:
		body["begin_time"] = "now"
	case !u.Begin.IsZero(): // a time of the day would be read in the zone of slurmrestd
		body["begin_time"] = fmt.Sprintf("uts%d", u.Begin.Unix())
	}
	var errs []error
	var raced []string
	for _, id := range u.IDs {
		a := &restAnswer{}
		err := c.call(ctx, http.MethodPost, "/job/"+url.PathEscape(id), body, a)
		if errs = append(errs, err); err == nil && len(a.Errors) > 0 {
			raced = append(raced, id)
		}
	}
	return racedError(raced, errs)
}

// Licences implements Client.
func (c *REST) Licences(ctx context.Context, licence string) (int, error) {
	var a struct {
		restAnswer
		Licences []struct {
			Name  string `json:"LicenseName"`
			Total int    `json:"Total"`
		} `json:"licenses"`
	}
	if err := c.call(ctx, http.MethodGet, "/licenses", nil, &a); err != nil {
		return 0, err
	}
	for _, l := range a.Licences {
		if l.Name == licence {
			return l.Total, nil
		}
	}
	return 0, fmt.Errorf("%w: slurmrestd GET %s/licenses: no licence %s", ErrREST, restPath, licence)
}

// Reserved implements Client.
func (c *REST) Reserved(ctx context.Context, licence string) (r Reservation, there bool, err error) {
	var a struct {
		restAnswer
		Reservations []struct {
			Name     string `json:"name"`
			Licences string `json:"licenses"`
			End      int64  `json:"end_time"`
		} `json:"reservations"`
	}
	if err := c.call(ctx, http.MethodGet, "/reservations", nil, &a); err != nil {
		return r, false, err
	}
	for _, of := range a.Reservations {
		if of.Name != reservation(licence) {
			continue
		}
		if of.End <= 0 || of.End > mostUnix {
			return r, true, fmt.Errorf("%w: slurmrestd GET %s/reservations: %s: end_time %d; want seconds from 1 to %d", ErrREST, restPath, of.Name, of.End, int64(mostUnix))
		}
		j := Job{Licences: of.Licences}
		return Reservation{Count: j.licences(licence), Ends: time.Unix(of.End, 0).UTC()}, true, nil
	}
	return r, false, nil
}

// restTime writes a time as squeue does.
func restTime(t int64) string {
	if t <= 0 {
		return "N/A"
	}
	return time.Unix(t, 0).UTC().Format(timeLayout)
}
