package main

import (
	"reflect"
	"testing"

	"github.com/spf13/cobra"

	"lull.dev/lull/lab/internal/controlplane"
)

// TestSupervisorHasAllOptions: the supervisor that "lab up" starts in the background has each option of the command.
func TestSupervisorHasAllOptions(t *testing.T) {
	o := controlplane.Options{
		Dir: "/tmp/lab", Nodes: 3, CPU: "8", Memory: "2Gi", GPUs: 1, TimeFactor: 0.1, Restart: true, SchedulerConfig: "scheduler.yaml", RealNode: true, Images: []string{"a:1=a", "b,c:1=b"},
		Kueue: true, Frameworks: []string{"batch/job", "pod"}, Manifests: []string{"a.yaml", "b.yaml"}, KueueFeatures: []string{"A=true", "B=false"}, Spokes: 2, Kubernetes: "1.33",
		APIServerFlags: []string{"--disable-admission-plugins=A,B", "--v=1"}, KeepData: true,
	}
	for i, v := 0, reflect.ValueOf(o); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("this test does not set %s", v.Type().Field(i).Name)
		}
	}
	got := controlplane.DefaultOptions()
	cmd := &cobra.Command{}
	optionFlags(cmd, &got)
	if err := cmd.ParseFlags(optionArgs(o)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, o) {
		t.Errorf("the supervisor has %+v\nwant %+v", got, o)
	}
}
