//go:build integration

package integration

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lull.dev/lull/api/v1alpha1"
	"lull.dev/lull/internal/web"
	"lull.dev/lull/test/child"
)

// serve runs the web page with the rights of its account, and returns its address.
func serve(t *testing.T, flags ...string) string {
	t.Helper()
	cmd := exec.Command(os.Getenv("LULL_BIN"), append([]string{"serve", "--kubeconfig", env.web, "--bind-address", "127.0.0.1:0"}, flags...)...)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	must(t, child.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("lull serve: %v\n%s", err, stderr.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return strings.TrimSpace(line)
}

// look asks the page.
func look(t *testing.T, c *http.Client, url string, into any, change ...func(*http.Request)) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	for _, f := range change {
		f(req)
	}
	res, err := c.Do(req)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	if into != nil && res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%s: %v\n%s", url, err, text)
		}
	}
	return res.StatusCode
}

// TestPageShowsWhatTheAPIHas: the page shows what the API has, tells of changes, and has a workload's story by the ledger.
func TestPageShowsWhatTheAPIHas(t *testing.T) {
	database := filepath.Join(t.TempDir(), "ledger.db")
	startController(t, "--ledger", database)
	b := newBed(t, []float64{500, 100, 100, 500, 500, 500}, nil)
	url := serve(t, "--ledger", database)
	// A browser listens.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/changes", http.NoBody)
	must(t, err)
	changes, err := http.DefaultClient.Do(req)
	must(t, err)
	defer changes.Body.Close()
	told := make(chan struct{}, 100)
	go func() {
		for lines := bufio.NewScanner(changes.Body); lines.Scan(); {
			if lines.Text() == "event: changed" {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		}
	}()
	b.submit(b.job("shown", map[string]string{v1alpha1.AnnotationMaxDelay: "8h"}))
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("the browser was not told of a change")
	}
	c := http.DefaultClient
	var o web.Overview
	b.eventually("the zone and the policy to be shown", func() bool {
		look(t, c, url+"/api/overview", &o)
		zone, policy := false, false
		for _, z := range o.Zones {
			zone = zone || z.Name == b.zone && z.Intensity != nil && len(z.Forecast) > 20
		}
		for _, p := range o.Policies {
			policy = policy || p.Namespace == b.ns && p.Name == "clean" && p.Waiting+p.Running+p.Finished == 1
		}
		return zone && policy
	})
	var plans web.Plans
	b.eventually("its plan to be shown", func() bool {
		look(t, c, url+"/api/plans?namespace="+b.ns+"&text=HOW", &plans)
		return plans.Total == 1 && plans.Items[0].Name == "shown" && plans.Items[0].Policy == "clean"
	})
	for query, want := range map[string]int{"text=nothing": 0, "state=Finished&text=nothing": 0, "offset=5": 0, "limit=1": 1} {
		if look(t, c, url+"/api/plans?namespace="+b.ns+"&"+query, &plans); len(plans.Items) != want {
			t.Errorf("%s: %d plans, want %d", query, len(plans.Items), want)
		}
	}
	b.eventually("its story to be told", func() bool {
		var story struct {
			Plan    web.Plan
			Entries []struct{ Kind string }
		}
		look(t, c, url+"/api/workloads/"+b.ns+"/job-shown", &story)
		kinds := map[string]bool{}
		for _, e := range story.Entries {
			kinds[e.Kind] = true
		}
		return story.Plan.State == "Finished" && kinds["submitted"] && kinds["decided"] && kinds["started"] && kinds["ended"] && kinds["settled"]
	})
	var savings web.Savings
	if look(t, c, url+"/api/savings", &savings); !savings.Ledger || savings.Of.All.Workloads == 0 {
		t.Errorf("savings: %+v", savings)
	}
	for path, want := range map[string]int{
		"/": 200, "/app.js": 200, "/style.css": 200, "/nothing": 404, "/api/nothing": 404, "/api/plans?limit=501": 400, "/api/plans?offset=-1": 400, "/api/workloads/" + b.ns + "/job-none": 404,
	} {
		if status := look(t, c, url+path, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status := look(t, c, url+"/", nil, func(r *http.Request) { r.Host = "elsewhere.example" }); status != http.StatusForbidden {
		t.Errorf("by another name: %d", status)
	}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns a client that trusts it.
func certificate(t *testing.T) (cert, key string, c *http.Client) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	certText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(cert, certText, 0o600))
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certText)
	return cert, key, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

// TestPageRefusesWhoMayNotListPlans: beyond loopback only who may list plans may look.
func TestPageRefusesWhoMayNotListPlans(t *testing.T) {
	ctx := context.Background()
	cert, key, c := certificate(t)
	url := serve(t, "--tls-cert-file", cert, "--tls-private-key-file", key)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("served at %s", url)
	}
	token := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: name, Namespace: "default"}}
		must(t, env.client.Create(ctx, account))
		t.Cleanup(func() { _ = env.client.Delete(ctx, account) })
		if name == "reader-" {
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"lull.dev"}, Resources: []string{"carbonplans"}, Verbs: []string{"list"}}}}
			binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account.Name}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: account.Name}, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: account.Name}}}
			must(t, env.client.Create(ctx, role))
			must(t, env.client.Create(ctx, binding))
			t.Cleanup(func() { _, _ = env.client.Delete(ctx, role), env.client.Delete(ctx, binding) })
		}
		request := &authenticationv1.TokenRequest{}
		must(t, env.client.SubResource("token").Create(ctx, account, request))
		return request.Status.Token
	}
	as := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	reader, other := token("reader-"), token("other-")
	bed{t: t}.eventually("the reader's rights to hold", func() bool { return look(t, c, url+"/api/overview", nil, as(reader)) == http.StatusOK })
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"nobody":        {func(*http.Request) {}, http.StatusUnauthorized},
		"by password":   {func(r *http.Request) { r.SetBasicAuth("a", "b") }, http.StatusUnauthorized},
		"unknown":       {as("made-up"), http.StatusUnauthorized},
		"endless":       {as(strings.Repeat("x", 20_000)), http.StatusUnauthorized},
		"without right": {as(other), http.StatusForbidden},
		"reader":        {as(reader), http.StatusOK},
		"reader again":  {as(reader), http.StatusOK},
	} {
		for _, path := range []string{"/", "/api/plans", "/api/changes?"} {
			if path == "/api/changes?" && tc.want == http.StatusOK {
				continue // it does not end
			}
			if status := look(t, c, url+path, nil, tc.change); status != tc.want {
				t.Errorf("%s asks for %s: %d, want %d", name, path, status, tc.want)
			}
		}
	}
	for want, flags := range map[string][]string{
		"accepted without a certificate: a loopback address": {"--bind-address", "0.0.0.0:0"},
		"accepted: both, or none":                            {"--tls-cert-file", cert},
		"accepted: HOST:PORT":                                {"--bind-address", "here"},
	} {
		out, err := exec.Command(os.Getenv("LULL_BIN"), append([]string{"serve"}, flags...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %v, %s", flags, err, out)
		}
	}
}
