package admission

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The keys of the Secret. The first three are those that cert-manager uses.
const (
	keyCert        = corev1.TLSCertKey       // the serving certificate
	keyPrivate     = corev1.TLSPrivateKeyKey // its private key
	keyAuthority   = "ca.crt"                // the authority that signed it
	nextPrefix     = "next-"                 // before the same three: the pair that serves after the present one
	keyPredecessor = "previous-ca.crt"       // the authority of the pair that served before
)

// The life of a pair.
const (
	lifetime = 90 * 24 * time.Hour
	// renewBefore is how long before its end a pair gets a successor.
	renewBefore = 30 * 24 * time.Hour
	// publishFor is the time between the publication of an authority and the first use of its certificate.
	publishFor = 10 * time.Minute
	// skew is the largest difference of clocks that is tolerated: a certificate is valid from this time before it is made.
	skew = time.Hour
)

// pair is an authority and the one certificate that it has signed.
type pair struct {
	serving   tls.Certificate
	authority []byte // PEM
	made, end time.Time
}

// newPair makes an authority, signs a serving certificate for the hosts, and forgets the authority's key. It returns the pair as data
// of a Secret.
func newPair(hosts []string, now time.Time) (map[string][]byte, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := func(name string) (*x509.Certificate, error) {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
		return &x509.Certificate{
			SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(lifetime), BasicConstraintsValid: true,
		}, err
	}
	ca, err := template("lull-admission-ca")
	if err != nil {
		return nil, err
	}
	ca.IsCA, ca.KeyUsage, ca.MaxPathLenZero = true, x509.KeyUsageCertSign, true
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	leaf, err := template("lull-admission")
	if err != nil {
		return nil, err
	}
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, host)
		}
	}
	parent, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), caKey)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	block := func(kind string, bytes []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	}
	return map[string][]byte{keyCert: block("CERTIFICATE", der), keyPrivate: block("PRIVATE KEY", private), keyAuthority: block("CERTIFICATE", caDER)}, nil
}

// errPair marks a pair that cannot serve.
var errPair = errors.New("invalid certificate")

// readPair reads a pair of a Secret's data, whose keys begin with a prefix. It returns an error, which wraps errPair, if the certificate is not signed by
// its authority, is not valid for one of the hosts, or is not valid now.
func readPair(data map[string][]byte, prefix string, hosts []string, now time.Time) (*pair, error) {
	for _, key := range []string{keyCert, keyPrivate, keyAuthority} {
		if len(data[prefix+key]) == 0 {
			return nil, fmt.Errorf("%w: %s is not set", errPair, prefix+key)
		}
	}
	serving, err := tls.X509KeyPair(data[prefix+keyCert], data[prefix+keyPrivate])
	if err != nil {
		return nil, fmt.Errorf("%w: %s, %s: %w", errPair, prefix+keyCert, prefix+keyPrivate, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data[prefix+keyAuthority]) {
		return nil, fmt.Errorf("%w: %s: no certificate in PEM", errPair, prefix+keyAuthority)
	}
	between := x509.NewCertPool()
	for _, der := range serving.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, host := range hosts {
		if _, err := serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: verifiable(host), CurrentTime: now}); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errPair, prefix+keyCert, err)
		}
	}
	return &pair{serving: serving, authority: data[prefix+keyAuthority], made: serving.Leaf.NotBefore.Add(skew), end: serving.Leaf.NotAfter}, nil
}

// verifiable is a host as VerifyOptions takes it.
func verifiable(host string) string {
	if net.ParseIP(host) != nil {
		return "[" + host + "]"
	}
	return host
}

// rotate returns the data of the Secret as it has to be now, which is the given data itself if nothing is to be changed, and the pair that
// serves. trusted reports whether all API servers have been told of an authority.
//
//   - Without a valid pair there is a new one at once.
//   - Towards its end a pair gets a successor, which serves once its authority has been published for a while.
//   - The authority of its predecessor stays until it ends.
func rotate(data map[string][]byte, hosts []string, now time.Time, trusted func(authority []byte) bool) (map[string][]byte, *pair, error) {
	present, err := readPair(data, "", hosts, now)
	next, nextErr := readPair(data, nextPrefix, hosts, now)
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	promote := func() {
		for _, key := range []string{keyCert, keyPrivate, keyAuthority} {
			out[key] = out[nextPrefix+key]
			delete(out, nextPrefix+key)
		}
		present, next = next, nil
	}
	switch {
	case err != nil && nextErr == nil:
		promote()
	case err != nil:
		made, err := newPair(hosts, now)
		if err != nil {
			return data, nil, fmt.Errorf("make a certificate: %w", err)
		}
		maps.Copy(out, made)
		if present, err = readPair(out, "", hosts, now); err != nil {
			return data, nil, fmt.Errorf("make a certificate: %w", err)
		}
	case nextErr == nil && !now.Before(next.made.Add(publishFor)) && trusted(next.authority):
		out[keyPredecessor] = present.authority
		promote()
	case nextErr != nil && !now.Before(present.end.Add(-renewBefore)):
		made, err := newPair(hosts, now)
		if err != nil {
			return data, present, fmt.Errorf("make a certificate: %w", err)
		}
		for key, value := range made {
			out[nextPrefix+key] = value
		}
	}
	if ended(out[keyPredecessor], now) {
		delete(out, keyPredecessor)
	}
	if maps.EqualFunc(data, out, bytes.Equal) {
		return data, present, nil
	}
	return out, present, nil
}

// ended reports whether a certificate in PEM is there and of no use any more.
func ended(text []byte, now time.Time) bool {
	if len(text) == 0 {
		return false
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return true
	}
	c, err := x509.ParseCertificate(block.Bytes)
	return err != nil || now.After(c.NotAfter)
}

// bundle returns the authorities that API servers trust: those of the present pair, its successor and its predecessor.
func bundle(data map[string][]byte) []byte {
	var out []byte
	for _, key := range []string{keyAuthority, nextPrefix + keyAuthority, keyPredecessor} {
		if text := bytes.TrimSpace(data[key]); len(text) > 0 {
			out = append(append(out, text...), '\n')
		}
	}
	return out
}
