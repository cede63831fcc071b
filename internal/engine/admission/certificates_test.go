package admission

import (
	"bytes"
	"crypto/x509"
	"errors"
	"maps"
	"testing"
	"time"
)

var (
	hosts = []string{"lull-admission.lull-system.svc", "127.0.0.1"}
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func always([]byte) bool { return true }

// serves reports whether an API server that was given a bundle accepts a pair at a time.
func serves(p *pair, bundle []byte, at time.Time) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, host := range hosts {
		if _, err := p.serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: verifiable(host), CurrentTime: at}); err != nil {
			return err
		}
	}
	return nil
}

// TestRotationLeavesNoGap: over two years two replicas act twice a day. One of them has a Secret that is half a day old, and an API server has
// a bundle that is half a day old, and a clock that is up to an hour off. It accepts what either replica serves.
func TestRotationLeavesNoGap(t *testing.T) {
	data, _, err := rotate(nil, hosts, start, always)
	if err != nil {
		t.Fatal(err)
	}
	stale, authorities := data, map[string]bool{}
	for now := start; now.Before(start.Add(2 * 365 * 24 * time.Hour)); now = now.Add(12 * time.Hour) {
		told := bundle(stale) // what the API server was told half a day ago
		fresh, present, err := rotate(data, hosts, now, func(a []byte) bool { return bytes.Contains(told, bytes.TrimSpace(a)) })
		if err != nil {
			t.Fatal(err)
		}
		old, err := readPair(stale, "", hosts, now)
		if err != nil {
			t.Fatalf("%v: the other replica serves nothing: %v", now, err)
		}
		for _, off := range []time.Duration{-skew, 0, skew} {
			for _, p := range []*pair{present, old} {
				if err := serves(p, told, now.Add(off)); err != nil {
					t.Fatalf("%v, clock off by %v: %v", now, off, err)
				}
			}
		}
		if n := bytes.Count(bundle(fresh), []byte("BEGIN")); n > 3 {
			t.Fatalf("%v: %d authorities", now, n)
		}
		authorities[string(present.authority)] = true
		stale, data = data, fresh
	}
	if len(authorities) < 10 || len(authorities) > 15 {
		t.Errorf("%d pairs in two years", len(authorities))
	}
}

// TestNextWaitsUntilItIsTrusted: a successor does not serve before API servers have been told, however long that takes; but when the present
// pair has ended there is nothing to lose.
func TestNextWaitsUntilItIsTrusted(t *testing.T) {
	never := func([]byte) bool { return false }
	data, first, err := rotate(nil, hosts, start, never)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := rotate(data, hosts, start.Add(50*24*time.Hour), never); err != nil || !maps.EqualFunc(data, again, bytes.Equal) {
		t.Errorf("changed before it is due, %v", err)
	}
	for day := 61; day < 90; day++ {
		var p *pair
		if data, p, err = rotate(data, hosts, start.Add(time.Duration(day)*24*time.Hour), never); err != nil || !bytes.Equal(p.authority, first.authority) || len(data[nextPrefix+keyCert]) == 0 {
			t.Fatalf("day %d: %v; serves %s", day, err, p.authority)
		}
	}
	next := data[nextPrefix+keyAuthority]
	_, p, err := rotate(data, hosts, start.Add(lifetime+time.Hour), never)
	if err != nil || !bytes.Equal(p.authority, next) {
		t.Errorf("after the end of the first: %v", err)
	}
	young := start.Add(61 * 24 * time.Hour)
	data, _, _ = rotate(map[string][]byte{keyCert: data[keyCert], keyPrivate: data[keyPrivate], keyAuthority: data[keyAuthority]}, hosts, young, always)
	if _, p, err = rotate(data, hosts, young.Add(publishFor-time.Second), always); err != nil || !bytes.Equal(p.authority, first.authority) {
		t.Errorf("serves before it was published for %v: %v", publishFor, err)
	}
	if _, p, err = rotate(data, hosts, young.Add(publishFor), always); err != nil || bytes.Equal(p.authority, first.authority) {
		t.Errorf("does not serve: %v", err)
	}
}

// TestBadPairsAreReplaced: what cannot serve is replaced at once.
func TestBadPairsAreReplaced(t *testing.T) {
	good, _, err := rotate(nil, hosts, start, always)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := rotate(nil, hosts, start, always)
	if err != nil {
		t.Fatal(err)
	}
	with := func(key string, value []byte) map[string][]byte {
		out := maps.Clone(good)
		out[key] = value
		return out
	}
	for name, data := range map[string]map[string][]byte{
		"no key": with(keyPrivate, nil), "the key of another": with(keyPrivate, other[keyPrivate]), "signed by another": with(keyAuthority, other[keyAuthority]),
		"no PEM": with(keyCert, []byte("x")), "no authority": with(keyAuthority, []byte("x")), "empty": {},
	} {
		if _, err := readPair(data, "", hosts, start); !errors.Is(err, errPair) {
			t.Errorf("%s: %v", name, err)
		}
		fresh, p, err := rotate(data, hosts, start, always)
		if err != nil || serves(p, bundle(fresh), start) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fresh, _, err := rotate(good, append(hosts, "webhook.example"), start, always); err != nil || bytes.Equal(fresh[keyCert], good[keyCert]) {
		t.Errorf("a certificate that is not valid for a host is kept: %v", err)
	}
	late := start.Add(lifetime + time.Hour)
	if fresh, p, err := rotate(good, hosts, late, always); err != nil || serves(p, bundle(fresh), late) != nil {
		t.Errorf("after its end: %v", err)
	}
	damaged := with(keyPredecessor, []byte("no certificate"))
	if fresh, _, err := rotate(damaged, hosts, start, always); err != nil || fresh[keyPredecessor] != nil {
		t.Errorf("keeps a predecessor that is none: %v", err)
	}
}
