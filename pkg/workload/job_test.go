package workload_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"lull.dev/lull/pkg/workload"
)

func job() workload.Job {
	return workload.Job{ID: "a", Kind: workload.Rigid, Deadline: 9, Length: 2.5, Request: map[string]float64{"cpu": 1}, MinWorkers: 1, MaxWorkers: 1, Curve: []float64{1}}
}

func TestLengthAt(t *testing.T) {
	j := job()
	if j.LengthAt(0.95) != 2.5 {
		t.Errorf("certain length %v", j.LengthAt(0.95))
	}
	j.Quantiles = []workload.Quantile{{P: 0.5, Length: 2}, {P: 0.9, Length: 4}, {P: 0.99, Length: 7}}
	for p, want := range map[float64]float64{0.1: 2.5, 0.5: 2.5, 0.6: 4, 0.9: 4, 0.95: 7, 0.999: 7} {
		if got := j.LengthAt(p); got != want {
			t.Errorf("length at %v: %v, want %v", p, got, want)
		}
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(j *workload.Job){
		"restartKWh: -1":                func(j *workload.Job) { j.RestartKWh = -1 },
		"transferKWh: NaN":              func(j *workload.Job) { j.TransferKWh = math.NaN() },
		"quantiles[0].p: 1":             func(j *workload.Job) { j.Quantiles = []workload.Quantile{{P: 1, Length: 3}} },
		"quantiles[1].p: 0.5":           func(j *workload.Job) { j.Quantiles = []workload.Quantile{{P: 0.5, Length: 3}, {P: 0.5, Length: 4}} },
		"quantiles[1].length: 2; accep": func(j *workload.Job) { j.Quantiles = []workload.Quantile{{P: 0.5, Length: 3}, {P: 0.9, Length: 2}} },
		"length: 0":                     func(j *workload.Job) { j.Length = 0 },
	} {
		j := job()
		spoil(&j)
		if err := j.Validate(); !errors.Is(err, workload.ErrJob) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
