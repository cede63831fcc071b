package extender

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// limit is how long a test waits for what comes at once on a machine that is not busy.
const limit = 5 * time.Minute

// authority signs certificates and writes them into dir.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	a.key = key
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.write("ca.crt", "CERTIFICATE", der)
	return a
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	file := filepath.Join(a.dir, name)
	must(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return file
}

// issue makes a certificate and its key.
func (a *authority) issue(name string) (cert, key string) {
	a.t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, &k.PublicKey, a.key)
	must(a.t, err)
	private, err := x509.MarshalPKCS8PrivateKey(k)
	must(a.t, err)
	return a.write(name+".crt", "CERTIFICATE", der), a.write(name+".key", "PRIVATE KEY", private)
}

// TestClientsProveWhoTheyAre: over HTTPS only callers with a certificate of the authority are answered.
func TestClientsProveWhoTheyAre(t *testing.T) {
	ours, others := newAuthority(t, "ours"), newAuthority(t, "others")
	o := Options{Address: "127.0.0.1:0", ClientCAFile: filepath.Join(ours.dir, "ca.crt")}
	o.CertFile, o.KeyFile = ours.issue("server")
	must(t, o.Check())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	s := &server{Options: o, handler: &Handler{State: newBed(t, "").State}}
	serving := make(chan string, 1) // the line by which it logs its address
	go func() {
		ended <- s.Start(log.IntoContext(ctx, funcr.New(func(_, line string) {
			if strings.Contains(line, "Serve kube-scheduler") {
				serving <- line
			}
		}, funcr.Options{})))
	}()
	var address string
	select {
	case line := <-serving:
		address = regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	case err := <-ended:
		cancel()
		t.Fatalf("ended with %v", err)
	case <-time.After(limit):
		t.Fatalf("not serving after %v", limit)
	}
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("ended with %v", err)
		}
	}()
	roots := x509.NewCertPool()
	roots.AddCert(ours.cert)
	ask := func(of *authority) (int, error) {
		config := &tls.Config{RootCAs: roots}
		if of != nil {
			cert, key := of.issue("scheduler")
			pair, err := tls.LoadX509KeyPair(cert, key)
			must(t, err)
			config.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}, Timeout: limit}
		resp, err := client.Get("https://" + address + FilterPath)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return resp.StatusCode, nil
	}
	status, err := ask(ours)
	if err != nil || status != http.StatusMethodNotAllowed {
		t.Fatalf("with a certificate of the authority: %d, %v; want 405 for a GET", status, err)
	}
	for name, of := range map[string]*authority{"without a certificate": nil, "with one of another authority": others} {
		if status, err := ask(of); err == nil {
			t.Errorf("%s: answered with %d", name, status)
		}
	}
	if resp, err := http.Get("http://" + address + FilterPath); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("over HTTP: %s", resp.Status)
		}
	}
	for _, bad := range []Options{
		{Address: address, CertFile: "absent", KeyFile: o.KeyFile, ClientCAFile: o.ClientCAFile},
		{Address: address, CertFile: o.CertFile, KeyFile: o.KeyFile, ClientCAFile: o.KeyFile},
	} {
		if err := (&server{Options: bad, handler: s.handler}).Start(ctx); err == nil {
			t.Errorf("%+v is served", bad)
		}
	}
}
