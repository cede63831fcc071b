package slurm

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestACommentStatesOptions(t *testing.T) {
	site := Options{MaxDelay: time.Hour, Interruptible: true, Checkpoint: time.Minute}
	if o, _, err := ReadComment("lull:max-delay=8h,min-tasks=12", Options{}, true); err != nil || o.MinTasks != 12 {
		t.Errorf("%+v, %v", o, err)
	}
	for comment, want := range map[string]Options{
		"lull:max-delay=8h": {MaxDelay: 8 * time.Hour, Interruptible: true, Checkpoint: time.Minute},
		"for the paper; lull:max-delay=1d12h,runtime=90m,checkpoint=30m": {MaxDelay: 36 * time.Hour, Runtime: 90 * time.Minute, Interruptible: true, Checkpoint: 30 * time.Minute},
		"lull:":                  site,
		"lull:off;project=green": {MaxDelay: time.Hour, Interruptible: true, Checkpoint: time.Minute, Off: true},
		"notlull:max-delay=8h":   site,
		"":                       site,
	} {
		o, stated, err := ReadComment(comment, site, true)
		if err != nil || o != want || stated != strings.Contains(" "+comment, " lull:") {
			t.Errorf("%q: %+v, %v, %v", comment, o, stated, err)
		}
	}
}

func TestACommentThatCannotBeReadSaysWhy(t *testing.T) {
	for comment, want := range map[string]string{
		"lull:max-delay=soon":               "as 8h, 1d12h or 90s",
		"lull:max-delay=":                   "not a duration",
		"lull:max-delay":                    "not a duration",
		"lull:max-delay=1.5h":               "not a duration",
		"lull:max-delay=400d":               "up to 366d",
		"lull:max-delay=999999999d9999s":    "up to 366d",
		"lull:maxdelay=8h":                  "max-delay=DURATION",
		"lull:interruptible=yes":            "accepted",
		"lull:max-delay=1h,max-delay=2h":    "twice",
		"lull:max-delay=1h lull:runtime=1h": "two parts",
		"lull:max-delay=1h,checkpoint=30m":  "without interruptible",
		"lull:min-tasks=0":                  "1 to",
		"lull:min-tasks":                    "1 to",
		"lull:min-tasks=2,interruptible":    "one of them",
	} {
		_, stated, err := ReadComment(comment, Options{}, true)
		if !stated || !errors.Is(err, ErrComment) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", comment, err, want)
		}
	}
}

func TestTheConfigurationSaysWhatIsWrong(t *testing.T) {
	c, err := ParseConfig([]byte("grace: 2m\ndefaults:\n- {partition: batch, qos: low, maxDelay: 1d}\n- {account: a.b, maxDelay: 2h, interruptible: true}\n"))
	if err != nil || c.GraceTime() != 2*time.Minute || c.MarginTime() != DefaultMargin {
		t.Fatalf("%+v, %v", c, err)
	}
	if o, by := c.options(&Job{Partition: "batch", QOS: "low"}); !by || o.MaxDelay != 24*time.Hour {
		t.Errorf("%+v", o)
	}
	if o, by := c.options(&Job{Partition: "batch", Account: "a.b"}); !by || !o.Interruptible {
		t.Errorf("%+v", o)
	}
	if _, by := c.options(&Job{Partition: "batch"}); by {
		t.Error("matches half of a default")
	}
	if c, err := ParseConfig([]byte("defaults: [{partition: batch, maxDelay: 2h, minTasks: 3}]")); err != nil || c.Defaults[0].MinTasks != 3 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string]string{
		"defaults: [{partition: batch, maxDelay: 2h, minTasks: -1}]":             "minTasks",
		"defaults: [{partition: batch, maxDelay: 2h, minTasks: 2, restart: 1m}]": "restart",
		"graze: 2m":              "graze",
		"capacity: {maximum: 4}": "capacity.licence",
		"capacity: {licence: 'a\"b', maximum: 4}":       "capacity.licence",
		"capacity: {licence: power}":                    "capacity.maximum",
		"capacity: {licence: power, maximum: 1.5}":      "capacity.maximum",
		"capacity: {licence: power, maximum: 0}":        "1 to",
		"capacity: {licence: power, maximum: 4, of: x}": "of",
		"grace: 2":                   "not a duration",
		"grace: x":                   "not a duration",
		"defaults: [{maxDelay: 1h}]": "every job",
		"defaults: [{partition: a}]": "maxDelay",
		"defaults: [{partition: 'a\" }--', maxDelay: 1h}]":                     "letters",
		"defaults: [{partition: a, maxDelay: 1h, checkpoint: 10m}]":            "without interruptible",
		"defaults: [{account: " + strings.Repeat("a", 40) + ", maxDelay: 1h}]": "up to 39",
	} {
		if _, err := ParseConfig([]byte(text)); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

func TestTheScriptHasTheDefaults(t *testing.T) {
	c, err := ParseConfig([]byte("grace: 2m\ndefaults:\n- {partition: batch, qos: low, maxDelay: 1d}\ncapacity: {licence: power, maximum: 64, method: {carbonFlex: {}}}\n"))
	if err != nil || c.Capacity.Most() != 64 || c.Capacity.Method.CarbonFlex == nil {
		t.Fatalf("%+v, %v", c.Capacity, err)
	}
	text := JobSubmit(&c, "v1")
	for _, want := range []string{JobSubmitBegins + " (v1). ", "local lull_grace = 120\n", "\t{ partition = \"batch\", qos = \"low\", delay = 86400 },\n}", "local lull_licence = { name = \"power\", most = 64 }\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "@") {
		t.Error("something is not replaced")
	}
}

// TestTheGracePeriodIsShort: job_submit.lua does not see --deadline, and Slurm refuses a job that cannot end by it after the grace period.
func TestTheGracePeriodIsShort(t *testing.T) {
	c := Config{}
	if got := c.GraceTime(); got != 2*time.Minute {
		t.Errorf("%v", got)
	}
	if script := JobSubmit(&c, "test"); !strings.Contains(script, "local lull_grace = 120\n") || !strings.Contains(script, "local lull_licence = nil\n") {
		t.Errorf("%s", script)
	}
}

// TestWhatTheUserStatesStandsOverDefaults: a default that excludes what the user of a job states gives way to that; it makes no comment wrong.
func TestWhatTheUserStatesStandsOverDefaults(t *testing.T) {
	for _, tc := range []struct {
		comment   string
		otherwise Options
		want      Options
	}{
		{"lull:interruptible", Options{MaxDelay: time.Hour, MinTasks: 4}, Options{MaxDelay: time.Hour, Interruptible: true}},
		{"lull:interruptible,checkpoint=5m", Options{MaxDelay: time.Hour, MinTasks: 4}, Options{MaxDelay: time.Hour, Interruptible: true, Checkpoint: 5 * time.Minute}},
		{"lull:min-tasks=2", Options{MaxDelay: time.Hour, Interruptible: true, Checkpoint: 5 * time.Minute}, Options{MaxDelay: time.Hour, MinTasks: 2}},
		{"lull:runtime=2h", Options{MaxDelay: time.Hour, MinTasks: 4}, Options{MaxDelay: time.Hour, Runtime: 2 * time.Hour, MinTasks: 4}},
	} {
		if got, stated, err := ReadComment(tc.comment, tc.otherwise, true); got != tc.want || !stated || err != nil {
			t.Errorf("%s over %+v: %+v, %v; want %+v", tc.comment, tc.otherwise, got, err, tc.want)
		}
	}
}
