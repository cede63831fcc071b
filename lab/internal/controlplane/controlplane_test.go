package controlplane

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
	"sigs.k8s.io/yaml"
)

// TestRuntimeExpressionMatchesKWOK evaluates the jq expression of the completion stage as
// KWOK does.
func TestRuntimeExpressionMatchesKWOK(t *testing.T) {
	var stage struct {
		Spec struct {
			Delay struct {
				DurationFrom struct {
					ExpressionFrom string `json:"expressionFrom"`
				} `json:"durationFrom"`
			} `json:"delay"`
		} `json:"spec"`
	}
	for _, tc := range []struct {
		factor float64
		text   string
		want   string
	}{
		{1, "3s", "3000ms"}, {900, "1h30m0s", "6000ms"}, {900, "1h", "4000ms"}, {0.5, "2s", "4000ms"},
		{1, "1.5h", "5400000ms"}, {1, "250ms", "250ms"}, {1000, "1ms", "0ms"},
	} {
		if err := yaml.Unmarshal([]byte(podComplete(tc.factor)), &stage); err != nil {
			t.Fatal(err)
		}
		query, err := gojq.Parse(stage.Spec.Delay.DurationFrom.ExpressionFrom)
		if err != nil {
			t.Fatal(err)
		}
		pod := map[string]any{"metadata": map[string]any{"annotations": map[string]any{RuntimeAnnotation: tc.text}}}
		got, _ := query.Run(pod).Next()
		if got != tc.want {
			t.Errorf("%s at factor %v: %v, want %s", tc.text, tc.factor, got, tc.want)
		}
	}
}

func TestStagesAreValidYAML(t *testing.T) {
	for i, doc := range strings.Split(kwokConfig(900), "\n---\n") {
		var into map[string]any
		if err := yaml.Unmarshal([]byte(doc), &into); err != nil || into["kind"] == nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
}

func TestStateOfNothingAndOfNonsense(t *testing.T) {
	dir := t.TempDir()
	if s, err := ReadState(dir); err != nil || s.Phase != Down {
		t.Errorf("an empty folder: %+v, %v", s, err)
	}
	if err := os.WriteFile(stateFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadState(dir); err == nil {
		t.Error("a broken state file was read")
	}
	s := State{Phase: Ready, Options: Options{Dir: dir}}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadState(dir); err != nil || got.Phase != Failed {
		t.Errorf("a lab without supervisor: %+v, %v", got, err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	p, err := freePorts()
	if err != nil {
		t.Fatal(err)
	}
	if p.etcdClient == p.etcdPeer || p.etcdPeer == p.apiserver || p.etcdClient == p.apiserver {
		t.Errorf("ports %+v", p)
	}
}

// TestKeptData: a lab that keeps the data of an earlier one has its address, unless somebody else listens there, and its certificates.
func TestKeptData(t *testing.T) {
	o := Options{Dir: t.TempDir(), KeepData: true}
	boot := func() (ports, pki) {
		t.Helper()
		if err := o.prepareDir(); err != nil {
			t.Fatal(err)
		}
		certificates, err := o.certificates()
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.ports()
		if err != nil {
			t.Fatal(err)
		}
		if err := o.writeKubeconfig(certificates, fmt.Sprintf("https://127.0.0.1:%d", p.apiserver)); err != nil {
			t.Fatal(err)
		}
		return p, certificates
	}
	first, certificates := boot() // there was none before
	second, same := boot()
	if second.apiserver != first.apiserver || !reflect.DeepEqual(same, certificates) {
		t.Errorf("the API server was at port %d, and is at %d; the same certificates: %v", first.apiserver, second.apiserver, reflect.DeepEqual(same, certificates))
	}
	if key, err := os.ReadFile(o.path("pki", "sa.key")); err != nil || len(key) == 0 {
		t.Errorf("the key of service accounts: %v", err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first.apiserver))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if third, _ := boot(); third.apiserver == first.apiserver {
		t.Error("the API server has a port at which somebody else listens")
	}
	o.KeepData = false
	if _, other := boot(); reflect.DeepEqual(other, certificates) {
		t.Error("a lab that keeps nothing has the certificates of an earlier one")
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("1\n2\n3\n4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := tail(file, 2); got != "  3\n  4" {
		t.Errorf("tail = %q", got)
	}
	if got := tail(file+"x", 2); !strings.Contains(got, "no such file") {
		t.Errorf("tail of nothing = %q", got)
	}
}

// TestLabNamesItsKubernetesVersions: the lab accepts the minor versions that have a module, and names them where it is given another one.
func TestLabNamesItsKubernetesVersions(t *testing.T) {
	modules, err := filepath.Glob("../../kubernetes/v*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	built := []string{}
	for _, file := range modules {
		built = append(built, strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "v"))
	}
	if !slices.Equal(built, olderMinors) {
		t.Errorf("modules of %v; the lab accepts %v", built, olderMinors)
	}
	for _, bad := range []string{"1.2", "v1.33", "1.33.13", "latest", "../1.33"} {
		o := DefaultOptions()
		o.Kubernetes = bad
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), `--kubernetes: "`+bad+`"; accepted: `+strings.Join(olderMinors, ", ")) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	o := DefaultOptions()
	o.Kubernetes = olderMinors[0]
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"kube-apiserver": "kubernetes/v" + olderMinors[0] + "/kube-apiserver", "etcd": "", "kwok": ""} {
		c, err := o.older(component{name: name})
		if err != nil || !strings.HasSuffix(c.binary, want) || (want == "") != (c.binary == "") {
			t.Errorf("%s runs %q, %v; want %q", name, c.binary, err, want)
		}
	}
}

// TestBuildKubernetes: where there is no source beside the lab's binary, the error says how to build the older version; where it is built, it is left.
func TestBuildKubernetes(t *testing.T) {
	o := DefaultOptions()
	if err := o.BuildKubernetes(t.Context(), io.Discard); err != nil {
		t.Errorf("the lab's own version: %v", err)
	}
	o.Kubernetes = olderMinors[0]
	if err := o.BuildKubernetes(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "make kubernetes KUBERNETES="+o.Kubernetes) {
		t.Errorf("no source: %v", err)
	}
	dir, err := o.kubernetesDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), []byte("v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := o.BuildKubernetes(t.Context(), io.Discard); err != nil {
		t.Errorf("it is built: %v", err)
	}
}

// TestAPIServerFlags: kube-apiserver has further flags after its own, so that they count; what is no flag with a value is refused.
func TestAPIServerFlags(t *testing.T) {
	o := DefaultOptions()
	for _, bad := range []string{"", "profiling", "--profiling", "-v=2", "--=x"} {
		o.APIServerFlags = []string{bad}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("--api-server-flag: %q; accepted: --NAME=VALUE", bad)) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	o.APIServerFlags = []string{"--disable-admission-plugins=MutatingAdmissionPolicy"}
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	c, err := o.apiserver(ports{})
	if err != nil || c.args[len(c.args)-1] != o.APIServerFlags[0] {
		t.Errorf("%v, %v", c.args, err)
	}
}
