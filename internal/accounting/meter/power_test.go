package meter

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"lull.dev/lull/internal/carbon/provider"
	"lull.dev/lull/internal/cluster/kube"
	"lull.dev/lull/pkg/power"
)

// samples are those that "label=value,label=value" describe, with their values.
func samples(of map[string]float64) (out []provider.Sample) {
	for text, v := range of {
		s := provider.Sample{Value: v, Labels: map[string]string{}}
		for _, pair := range strings.Split(text, ",") {
			name, value, _ := strings.Cut(pair, "=")
			s.Labels[name] = value
		}
		out = append(out, s)
	}
	return out
}

// TestEachEnergyCountsOnce checks that each energy counts once: the outermost zone that is there.
func TestEachEnergyCountsOnce(t *testing.T) {
	for name, x := range map[string]struct {
		zones map[string]float64
		want  float64
	}{
		"a server":                              {map[string]float64{"package": 80, "core": 50, "uncore": 10, "dram": 20}, 100},
		"an AMD machine without dram":           {map[string]float64{"package": 80, "core": 50}, 80},
		"a laptop: psys contains all":           {map[string]float64{"psys": 130, "package": 80, "core": 50, "uncore": 10, "dram": 20}, 130},
		"psys alone":                            {map[string]float64{"psys": 130}, 130},
		"psys that sees one socket of two":      {map[string]float64{"psys": 60, "package": 80, "dram": 20}, 100},
		"no package":                            {map[string]float64{"core": 50, "uncore": 10, "dram": 20}, 80},
		"power planes":                          {map[string]float64{"pp0": 50, "pp1": 10}, 60},
		"Kepler 0.7 exports what it lacks as 0": {map[string]float64{"package": 0, "core": 50, "uncore": 0, "dram": 20, "other": 0}, 70},
		"Kepler 0.7 with a platform":            {map[string]float64{"package": 80, "core": 50, "uncore": 10, "dram": 20, "other": 35}, 135},
		"nothing is drawn":                      {map[string]float64{"package": 0, "dram": 0}, 0},
	} {
		of := map[string]float64{"pod_namespace=ns,pod_name=p,zone=accelerator": 1000, "pod_namespace=ns,pod_name=q,zone=": 1000}
		for zone, watts := range x.zones {
			of["pod_namespace=ns,pod_name=p,zone="+zone] = watts
		}
		got := podPowers{}
		addZones(got, "kepler", samples(of))
		if p := got[types.NamespacedName{Namespace: "ns", Name: "p"}]; math.Abs(p.CPU-x.want) > 1e-9 || p.CPUSource != "kepler" || len(got) != 1 {
			t.Errorf("%s: %+v, want %v W", name, got, x.want)
		}
	}
}

// TestPowerOfAGPUCountsOnce checks that the power of a GPU counts once, however many series have it, and that all of it counts.
func TestPowerOfAGPUCountsOnce(t *testing.T) {
	for name, x := range map[string]struct {
		series map[string]float64
		want   map[string]float64
	}{
		"two GPUs of a pod":         {map[string]float64{"UUID=1,exported_namespace=ns,exported_pod=a": 200, "UUID=2,exported_namespace=ns,exported_pod=a": 100}, map[string]float64{"a": 300}},
		"a GPU that two pods share": {map[string]float64{"UUID=1,namespace=ns,pod=a": 200, "UUID=1,namespace=ns,pod=b": 200}, map[string]float64{"a": 100, "b": 100}},
		"instances": {map[string]float64{
			"UUID=1,GPU_I_ID=1,GPU_I_PROFILE=4g.40gb,namespace=ns,pod=a": 350, "UUID=1,GPU_I_ID=2,GPU_I_PROFILE=2g.20gb,namespace=ns,pod=b": 350,
			"UUID=1,GPU_I_ID=3,GPU_I_PROFILE=1g.10gb,namespace=ns,pod=b": 350, "UUID=1,namespace=ns,pod=exporter": 350,
		}, map[string]float64{"a": 200, "b": 150}},
		"an instance that is free": {map[string]float64{"UUID=1,GPU_I_ID=1,namespace=ns,pod=a": 300, "UUID=1,GPU_I_ID=2": 300, "UUID=1,GPU_I_ID=3": 300}, map[string]float64{"a": 100}},
		"no UUID":                  {map[string]float64{"gpu=0,namespace=ns,pod=a": 200, "gpu=1,namespace=ns,pod=a": 100}, map[string]float64{"a": 300}},
		"not a power":              {map[string]float64{"UUID=1,namespace=ns,pod=a": math.NaN(), "UUID=2,namespace=ns,pod=b": -1, "UUID=3,namespace=ns,pod=c": 1e12}, map[string]float64{}},
	} {
		got := podPowers{}
		addDevices(got, "dcgm", samples(x.series))
		for pod, want := range x.want {
			if p := got[types.NamespacedName{Namespace: "ns", Name: pod}]; math.Abs(p.GPU-want) > 1e-9 || p.GPUSource != "dcgm" {
				t.Errorf("%s: pod %s: %+v, want %v W", name, pod, p, want)
			}
		}
		if len(got) != len(x.want) {
			t.Errorf("%s: %+v, want %v", name, got, x.want)
		}
	}
}

// TestOneSourceCounts checks what counts of a pod that several exporters know, and that what nobody measures is the
// model's, with its label.
func TestOneSourceCounts(t *testing.T) {
	pod := "pod_namespace=ns,pod_name=p"
	for name, x := range map[string]struct {
		answers [6]map[string]float64 // by exporter, in their order
		want    kube.PodPower
		watts   float64 // of the pod, with 4 CPUs and a GPU by a model of 10 and 300 W
		source  string
	}{
		"none": {want: kube.PodPower{}, source: ""},
		"Kepler 0.10 alone": {
			answers: [6]map[string]float64{{pod + ",zone=package": 40, pod + ",zone=dram": 5}},
			want:    kube.PodPower{CPU: 45, CPUSource: "kepler"}, watts: 345, source: "kepler+model",
		},
		"both Keplers, DCGM, and Kepler's GPU": {
			answers: [6]map[string]float64{{pod + ",zone=package": 40}, {pod + ",zone=package": 41}, {"UUID=1," + pod: 250}, {pod: 200}, {pod: 190}, {pod: 500}},
			want:    kube.PodPower{CPU: 40, CPUSource: "kepler", GPU: 250, GPUSource: "dcgm"}, watts: 290, source: "kepler+dcgm",
		},
		"Kepler 0.11 with GPUs": {
			answers: [6]map[string]float64{{pod + ",zone=package": 40}, nil, nil, {pod: 200}},
			want:    kube.PodPower{CPU: 40, CPUSource: "kepler", GPU: 200, GPUSource: "kepler"}, watts: 240, source: "kepler",
		},
		"Kepler 0.7 that sees no GPU": {
			answers: [6]map[string]float64{nil, {pod + ",zone=package": 40}, nil, nil, {pod: 0}, {pod: 40}},
			want:    kube.PodPower{CPU: 40, CPUSource: "kepler"}, watts: 340, source: "kepler+model",
		},
		"DCGM alone": {
			answers: [6]map[string]float64{nil, nil, {"UUID=1," + pod: 250}},
			want:    kube.PodPower{GPU: 250, GPUSource: "dcgm"}, watts: 290, source: "model+dcgm",
		},
		"a total, and DCGM": {
			answers: [6]map[string]float64{nil, nil, {"UUID=1," + pod: 250}, nil, nil, {pod: 300}},
			want:    kube.PodPower{CPU: 50, CPUSource: "kepler", GPU: 250, GPUSource: "dcgm"}, watts: 300, source: "kepler+dcgm",
		},
		"a total that contains the GPU": {
			answers: [6]map[string]float64{nil, nil, nil, nil, nil, {pod: 300}},
			want:    kube.PodPower{CPU: 300, CPUSource: "kepler", GPUSource: "kepler"}, watts: 300, source: "kepler",
		},
	} {
		got := podPowers{}
		for i, e := range exporters {
			e.add(got, e.name, samples(x.answers[i]))
		}
		p := got[types.NamespacedName{Namespace: "ns", Name: "p"}]
		if p != x.want {
			t.Errorf("%s: %+v, want %+v", name, p, x.want)
		}
		watts, source := kube.Drawn([]kube.PodPower{p}, map[string]float64{"cpu": 4, "nvidia.com/gpu": 1}, power.PerUnit{Watts: map[string]float64{"cpu": 10, "nvidia.com/gpu": 300}, PUE: 1})
		if watts != x.watts || source != x.source {
			t.Errorf("%s: %v W by %q, want %v by %q", name, watts, source, x.watts, x.source)
		}
	}
}

// realSeries are what exporters export, in the syntax of promtool, each for 20 minutes.
var realSeries = map[string]string{
	// Kepler 0.10 and later.
	`kepler_pod_cpu_watts{node_name="n",pod_id="1",pod_name="new",pod_namespace="ns",state="running",zone="package"}`:        "40x20",
	`kepler_pod_cpu_watts{node_name="n",pod_id="1",pod_name="new",pod_namespace="ns",state="running",zone="dram"}`:           "5x20",
	`kepler_pod_cpu_watts{node_name="n",pod_id="0",pod_name="new",pod_namespace="ns",state="terminated",zone="package"}`:     "99x20",
	`kepler_pod_cpu_joules_total{node_name="n",pod_id="1",pod_name="new",pod_namespace="ns",state="running",zone="package"}`: "0+6000x20",
	`kepler_pod_cpu_joules_total{node_name="n",pod_id="2",pod_name="joules",pod_namespace="ns",state="running",zone="psys"}`: "0+7200x20",
	`kepler_pod_gpu_watts{node_name="n",pod_id="1",pod_name="new",pod_namespace="ns",state="running"}`:                       "70x20",
	// Kepler before 0.10, with and without components.
	`kepler_container_package_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old",source="rapl"}`: "0+1200x20",
	`kepler_container_package_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="idle",pod_name="old",source="rapl"}`:    "0+600x20",
	`kepler_container_core_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old",source="rapl"}`:    "0+900x20",
	`kepler_container_dram_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old",source="rapl"}`:    "0+300x20",
	`kepler_container_other_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old",source="rapl"}`:   "0+120x20",
	`kepler_container_gpu_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old",source="nvml"}`:     "0+6000x20",
	`kepler_container_joules_total{container_id="c",container_name="m",container_namespace="ns",mode="dynamic",pod_name="old"}`:                       "0+8220x20",
	`kepler_container_joules_total{container_id="d",container_name="m",container_namespace="ns",mode="dynamic",pod_name="total"}`:                     "0+6600x20",
	// DCGM exporter, scraped twice; one GPU has its energy only.
	`DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",device="nvidia0",modelName="A100",Hostname="n",exported_namespace="ns",exported_pod="new",namespace="gpu",pod="dcgm",job="a"}`:              "250x20",
	`DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",device="nvidia0",modelName="A100",Hostname="n",exported_namespace="ns",exported_pod="new",namespace="gpu",pod="dcgm",job="b"}`:              "250x20",
	`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-1",device="nvidia0",modelName="A100",Hostname="n",exported_namespace="ns",exported_pod="new",namespace="gpu",pod="dcgm",job="a"}`: "0+15000000x20",
	`DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="1",UUID="GPU-2",device="nvidia1",modelName="A100",Hostname="n",namespace="ns",pod="joules"}`:                                                   "0+12000000x20",
}

// TestQueriesMatchTheExporters checks the queries on what the exporters export, by Prometheus' own tool, and what comes of the answers.
func TestQueriesMatchTheExporters(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian: prometheus)")
	}
	type sample struct {
		Labels string  `json:"labels"`
		Value  float64 `json:"value"`
	}
	answers := [][]sample{
		{{`{pod_namespace="ns",pod_name="new",zone="package"}`, 40}, {`{pod_namespace="ns",pod_name="new",zone="dram"}`, 5}, {`{pod_namespace="ns",pod_name="joules",zone="psys"}`, 120}},
		{{`{container_namespace="ns",pod_name="old",zone="package"}`, 30}, {`{container_namespace="ns",pod_name="old",zone="core"}`, 15}, {`{container_namespace="ns",pod_name="old",zone="dram"}`, 5}, {`{container_namespace="ns",pod_name="old",zone="other"}`, 2}},
		{{`{UUID="GPU-1",exported_namespace="ns",exported_pod="new",namespace="gpu",pod="dcgm"}`, 250}, {`{UUID="GPU-2",namespace="ns",pod="joules"}`, 200}},
		{{`{pod_namespace="ns",pod_name="new"}`, 70}},
		{{`{container_namespace="ns",pod_name="old"}`, 100}},
		{{`{container_namespace="ns",pod_name="old"}`, 137}, {`{container_namespace="ns",pod_name="total"}`, 110}},
	}
	var inputs, tests []map[string]any
	for series, values := range realSeries {
		inputs = append(inputs, map[string]any{"series": series, "values": values})
	}
	got := podPowers{}
	for i, e := range exporters {
		tests = append(tests, map[string]any{"expr": "round(" + e.query + ", 0.001)", "eval_time": "15m", "exp_samples": answers[i]})
		of := map[string]float64{}
		for _, a := range answers[i] {
			of[strings.NewReplacer("{", "", "}", "", `"`, "").Replace(a.Labels)] = a.Value
		}
		e.add(got, e.name, samples(of))
	}
	text, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": []any{map[string]any{"interval": "1m", "input_series": inputs, "promql_expr_test": tests}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "power.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]kube.PodPower{
		"new":    {CPU: 45, CPUSource: "kepler", GPU: 250, GPUSource: "dcgm"},
		"joules": {CPU: 120, CPUSource: "kepler", GPU: 200, GPUSource: "dcgm"},
		"old":    {CPU: 37, CPUSource: "kepler", GPU: 100, GPUSource: "kepler"},
		"total":  {CPU: 110, CPUSource: "kepler", GPUSource: "kepler"},
	}
	for pod, p := range want {
		if x := got[types.NamespacedName{Namespace: "ns", Name: pod}]; x != p {
			a, _ := json.Marshal(x)
			t.Errorf("pod %s: %s, want %s", pod, a, fmt.Sprintf("%+v", p))
		}
	}
}
