package slurm

import (
	_ "embed"
	"fmt"
	"strings"
	"time"
)

//go:embed job_submit.lua
var jobSubmit string

// JobSubmitBegins is how the script begins, so that no other script is overwritten.
const JobSubmitBegins = "-- Made by \"lull slurm install\""

// JobSubmit is the script of Slurm's plugin job_submit/lua for a configuration.
func JobSubmit(c *Config, version string) string {
	var b strings.Builder
	for i := range c.Defaults {
		d := &c.Defaults[i]
		b.WriteString("\t{ ")
		for _, of := range []struct{ key, value string }{{"partition", d.Partition}, {"qos", d.QOS}, {"account", d.Account}} {
			if of.value != "" {
				fmt.Fprintf(&b, "%s = %q, ", of.key, of.value) // names are plain: ParseConfig
			}
		}
		fmt.Fprintf(&b, "delay = %d },\n", int64(time.Duration(d.MaxDelay)/time.Second))
	}
	licence := "nil"
	if c.Capacity != nil {
		licence = fmt.Sprintf("{ name = %q, most = %d }", c.Capacity.Licence, c.Capacity.Most())
	}
	return strings.NewReplacer("@LICENCE@", licence, "@VERSION@", version, "@GRACE@", fmt.Sprint(int64(c.GraceTime()/time.Second)), "@DEFAULTS@", b.String()).Replace(jobSubmit)
}
