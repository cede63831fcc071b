package spoke

import (
	"errors"
	"strings"
	"testing"
)

const good = `
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: SECRET}}]
`

// TestKubeconfigThatRunsProgramsIsRefused: a kubeconfig that would run a program, read a file or trust anybody is refused, and no
// error shows its secrets.
func TestKubeconfigThatRunsProgramsIsRefused(t *testing.T) {
	config, err := Config([]byte(good))
	if err != nil || config.Host != "https://127.0.0.1:6443" || config.BearerToken != "SECRET" {
		t.Fatalf("%+v, %v", config, err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"not YAML", "apiVersion: v1", "SECRET: [", "cannot be read"},
		{"no such context", "current-context: c", "current-context: d", "current-context"},
		{"no such user", "user: u}}]", "user: x}}]", "user that it does not have"},
		{"any certificate", `6443"`, `6443", insecure-skip-tls-verify: true`, "insecure-skip-tls-verify"},
		{"certificates of a file", `6443"`, `6443", certificate-authority: /etc/ca`, "certificate-authority"},
		{"a proxy", `6443"`, `6443", proxy-url: "http://evil"`, "proxy-url"},
		{"a token of a file", "token: SECRET", "tokenFile: /etc/shadow", "tokenFile"},
		{"a key of a file", "token: SECRET", "client-key: /etc/shadow", "client-key"},
		{"a program", "token: SECRET", "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}", "exec"},
		{"a provider", "token: SECRET", "auth-provider: {name: gcp}", "auth-provider"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%s: nothing was replaced", c.name)
		}
		_, err := Config([]byte(text))
		if !errors.Is(err, ErrKubeconfig) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v; want one that names %q", c.name, err, c.want)
		}
	}
	if _, err := Config(make([]byte, maxKubeconfig+1)); !errors.Is(err, ErrKubeconfig) {
		t.Errorf("a large one: %v", err)
	}
}

// FuzzConfig: no kubeconfig makes the reader panic, and none is accepted that runs a program.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(good))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := Config(text)
		if err == nil && (config.ExecProvider != nil || config.BearerTokenFile != "" || config.Insecure) {
			t.Errorf("accepted: %+v", config)
		}
	})
}
