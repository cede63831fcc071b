package slurm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/pkg/decide"
)

// ErrConfig marks a configuration that cannot be used.
var ErrConfig = errors.New("invalid configuration")

// Duration is a time.Duration that is written as ParseDuration reads it.
type Duration time.Duration

// UnmarshalJSON reads a duration such as "8h".
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s is not a duration; accepted: as \"8h\", \"1d12h\" or \"90s\"", clipped(string(text)))
	}
	v, err := ParseDuration(s)
	*d = Duration(v)
	return err
}

// Config is what the administrator states, in a file of YAML.
type Config struct {
	// Grace is how long job_submit.lua holds a job that Lull has not planned yet.
	Grace *Duration `json:"grace,omitempty"`
	// Margin is kept between the end of a job at its time limit and its --deadline.
	Margin *Duration `json:"margin,omitempty"`
	// Runtime is that of jobs which state neither a run time nor a time limit.
	Runtime *Duration `json:"runtime,omitempty"`
	// HoldOut is the share of the jobs that may wait, but run as submitted, to compare with. An array counts as one.
	HoldOut float64 `json:"holdOut,omitempty"`
	// Defaults say which jobs may wait without a comment of their own. The first entry that matches counts.
	Defaults []Default `json:"defaults,omitempty"`
	// Capacity says how much the jobs that may wait use at a time; nil bounds nothing.
	Capacity *Capacity `json:"capacity,omitempty"`
}

// Capacity is a curve of CPUs: how many the jobs that may wait use at a time, slot by slot. Each of these jobs takes as many of a licence of Slurm
// as it has CPUs, and Lull reserves those that are not to be used.
type Capacity struct {
	// Licence is its name in Licenses of slurm.conf.
	Licence string `json:"licence"`
	// Maximum, Minimum and the Ramp from slot to slot are CPUs. Maximum is no more than there are licences.
	Maximum v1alpha1.Amount  `json:"maximum"`
	Minimum *v1alpha1.Amount `json:"minimum,omitempty"`
	Ramp    *v1alpha1.Amount `json:"ramp,omitempty"`
	// Slot is how long a capacity lasts, an hour by default.
	Slot *Duration `json:"slot,omitempty"`
	// Method is that of a CapacityCurve.
	Method v1alpha1.CapacityMethod `json:"method"`
	// State is a file that keeps what methods carbonFlex and vcc learn.
	State string `json:"state,omitempty"`
}

// Most is the maximum.
func (c *Capacity) Most() int {
	n, _ := strconv.Atoi(string(c.Maximum)) // ParseConfig has checked it
	return n
}

// check names the field that cannot be used. The curve checks its method.
func (c *Capacity) check() error {
	if c.Licence == "" || len(c.Licence) > maxName || !plainName(c.Licence) {
		return fmt.Errorf("%w: capacity.licence: %q; accepted: letters, digits and . _ - +, up to %d", ErrConfig, clipped(c.Licence), maxName)
	}
	if n, err := strconv.Atoi(string(c.Maximum)); err != nil || n < 1 || n > mostCount {
		return fmt.Errorf("%w: capacity.maximum: %q; accepted: a number of CPUs, 1 to %d", ErrConfig, clipped(string(c.Maximum)), mostCount)
	}
	return nil
}

// Default states options for jobs of a partition, a QOS or an account. Those that are empty match every job.
type Default struct {
	Partition     string   `json:"partition,omitempty"`
	QOS           string   `json:"qos,omitempty"`
	Account       string   `json:"account,omitempty"`
	MaxDelay      Duration `json:"maxDelay,omitempty"`
	Runtime       Duration `json:"runtime,omitempty"`
	Interruptible bool     `json:"interruptible,omitempty"`
	Checkpoint    Duration `json:"checkpoint,omitempty"`
	// MinTasks is how many tasks of an array run at a time at least; 0 leaves its throttle alone. With Interruptible, it is how many tasks a job that is no array
	// has at least, and Restart how long it takes to start again.
	MinTasks int      `json:"minTasks,omitempty"`
	Restart  Duration `json:"restart,omitempty"`
	// Parallel is the share of its work that its tasks do side by side; 0 for all of it.
	Parallel float64 `json:"parallel,omitempty"`
}

// The values of a Config that does not state them.
const (
	DefaultGrace   = 2 * time.Minute
	DefaultMargin  = 5 * time.Minute
	DefaultRuntime = time.Hour
	// DefaultRestart is how long a job takes to start again at another size: Slurm itself starts a job two minutes after a requeue.
	DefaultRestart = 2 * time.Minute
)

// ParseConfig reads a file of YAML. Unknown fields are errors. The error wraps ErrConfig.
func ParseConfig(text []byte) (Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if !(c.HoldOut >= 0 && c.HoldOut <= 0.5) {
		return c, fmt.Errorf("%w: holdOut: %v; accepted: 0 to 0.5", ErrConfig, c.HoldOut)
	}
	if c.Capacity != nil {
		if err := c.Capacity.check(); err != nil {
			return c, err
		}
	}
	for i := range c.Defaults {
		d := &c.Defaults[i]
		switch {
		case d.Partition == "" && d.QOS == "" && d.Account == "":
			return c, fmt.Errorf("%w: defaults[%d]: matches every job; accepted: a partition, a qos or an account", ErrConfig, i)
		case d.MaxDelay == 0:
			return c, fmt.Errorf("%w: defaults[%d]: maxDelay: 0; accepted: above 0s", ErrConfig, i)
		case d.Checkpoint > 0 && !d.Interruptible:
			return c, fmt.Errorf("%w: defaults[%d]: checkpoint without interruptible", ErrConfig, i)
		case d.MinTasks < 0 || d.MinTasks > mostTasks:
			return c, fmt.Errorf("%w: defaults[%d]: minTasks: %d; accepted: 0 to %d", ErrConfig, i, d.MinTasks, mostTasks)
		case d.Parallel != 0 && !validShare(d.Parallel):
			return c, fmt.Errorf("%w: defaults[%d]: parallel: %v; accepted: above 0, up to 1", ErrConfig, i, d.Parallel)
		case time.Duration(d.Restart) > decide.MaxRestart:
			return c, fmt.Errorf("%w: defaults[%d]: restart: %v; accepted: up to %v", ErrConfig, i, time.Duration(d.Restart), decide.MaxRestart)
		case (d.Restart > 0 || d.Parallel > 0) && (d.MinTasks == 0 || !d.Interruptible):
			return c, fmt.Errorf("%w: defaults[%d]: restart or parallel; accepted: with interruptible and minTasks", ErrConfig, i)
		}
		for _, name := range []string{d.Partition, d.QOS, d.Account} {
			if len(name) > maxName || !plainName(name) {
				return c, fmt.Errorf("%w: defaults[%d]: %q; accepted: letters, digits and . _ - +, up to %d", ErrConfig, i, clipped(name), maxName)
			}
		}
	}
	return c, nil
}

// maxName bounds the names of partitions, QOS and accounts: squeue is asked for so many characters.
const maxName = 39

func plainName(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+") == ""
}

func valueOr(d *Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return time.Duration(*d)
}

// GraceTime is Grace, or its default.
func (c *Config) GraceTime() time.Duration { return valueOr(c.Grace, DefaultGrace) }

// MarginTime is Margin, or its default.
func (c *Config) MarginTime() time.Duration { return valueOr(c.Margin, DefaultMargin) }

// UnknownRuntime is Runtime, or its default.
func (c *Config) UnknownRuntime() time.Duration {
	return max(time.Second, valueOr(c.Runtime, DefaultRuntime))
}

// options returns what the administrator states for a job, and whether anything is.
func (c *Config) options(j *Job) (Options, bool) {
	for i := range c.Defaults {
		d := &c.Defaults[i]
		if (d.Partition == "" || d.Partition == j.Partition) && (d.QOS == "" || d.QOS == j.QOS) && (d.Account == "" || d.Account == j.Account) {
			return Options{MaxDelay: time.Duration(d.MaxDelay), Runtime: time.Duration(d.Runtime), Interruptible: d.Interruptible, Checkpoint: time.Duration(d.Checkpoint), MinTasks: d.MinTasks, Restart: time.Duration(d.Restart), Parallel: d.Parallel}, true
		}
	}
	return Options{}, false
}
